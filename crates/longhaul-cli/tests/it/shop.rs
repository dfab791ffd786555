//! A store made by a program of its own with the durable library, as the command line meets it from outside.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use longhaul_core::{Ambient, TaskScope};
use longhaul_durable::{
    Answer, END, Effect, Enqueue, Graph, GraphBuilder, GraphState, MIGRATIONS, NodeError, Outcome, RunOptions, Runtime,
    START, Wait,
};
use longhaul_store::{Store, StoreSettings};
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Debug, Clone, Default, Serialize, Deserialize, GraphState)]
pub(crate) struct Order {
    #[append]
    notes: Vec<String>,
}

/// The program.
pub(crate) struct Shop {
    runtime: Runtime,
    /// The bank has no connection.
    pub(crate) offline: Arc<AtomicBool>,
}

impl Shop {
    pub(crate) async fn open(settings: StoreSettings) -> Self {
        let store = Store::open(settings, Ambient::system(), &[MIGRATIONS]).await.unwrap();
        let runtime = Runtime::new(store, Ambient::system());
        Self { runtime, offline: Arc::new(AtomicBool::new(true)) }
    }

    async fn run(&self, graph: &Graph<Order>, thread: &str) -> Outcome<Order> {
        let (scope, thread) = (TaskScope::single_user(), thread.parse().unwrap());
        self.runtime.run(graph, &scope, &thread, Order::default(), RunOptions::default()).await.unwrap()
    }

    /// Drafts, then asks whether the draft is good; the id of the wait.
    pub(crate) async fn ask(&self, thread: &str) -> String {
        let outcome = self.run(&approval(), thread).await;
        let Outcome::Waiting(waits) = outcome else { panic!("{outcome:?}") };
        waits[0].id.to_string()
    }

    /// Goes on after the answer: what was noted.
    pub(crate) async fn notes(&self, thread: &str) -> Vec<String> {
        let outcome = self.run(&approval(), thread).await;
        let Outcome::Completed(order) = outcome else { panic!("{outcome:?}") };
        order.notes
    }

    /// Leaves work to workers, of whom there are none.
    pub(crate) async fn enqueue(&self, thread: &str) -> String {
        let (scope, thread) = (TaskScope::single_user(), thread.parse().unwrap());
        let entered = self.runtime.enqueue(&scope, "post", &thread, &Order::default(), Enqueue::default()).await;
        entered.unwrap().id().to_string()
    }

    /// Asks two things at once.
    pub(crate) async fn ask_twice(&self, thread: &str) -> Vec<String> {
        let graph = GraphBuilder::<Order>::new("pair", 1)
            .node("left", |ctx, _| async move {
                let answer: Answer<bool> = ctx.pause_for(Wait::approval("left?")).await?;
                Ok(OrderUpdate::new().notes([format!("{:?}", answer.into_value())]))
            })
            .node("right", |ctx, _| async move {
                let answer: Answer<bool> = ctx.pause_for(Wait::approval("right?")).await?;
                Ok(OrderUpdate::new().notes([format!("{:?}", answer.into_value())]))
            })
            .edge(START, "left")
            .edge(START, "right")
            .edge("left", END)
            .edge("right", END)
            .build()
            .unwrap();
        let outcome = self.run(&graph, thread).await;
        let Outcome::Waiting(waits) = outcome else { panic!("{outcome:?}") };
        waits.iter().map(|wait| wait.id.to_string()).collect()
    }

    /// Fails while the bank is offline.
    pub(crate) async fn transfer(&self, thread: &str) -> bool {
        let offline = self.offline.clone();
        let graph = GraphBuilder::<Order>::new("transfer", 1)
            .node("prepare", |ctx, _| async move {
                let slip = ctx.step("write slip", Effect::Pure, async { Ok("a slip".to_owned()) }).await?;
                Ok(OrderUpdate::new().notes([slip]))
            })
            .node("send", move |ctx, _| {
                let offline = offline.clone();
                async move {
                    let act = async move {
                        if offline.load(Ordering::SeqCst) {
                            return Err(std::io::Error::other("the bank does not answer").into());
                        }
                        Ok("sent".to_owned())
                    };
                    let key = "slip-1".to_owned();
                    let sent = ctx.step("send money", Effect::Idempotent { key }, act).await?;
                    Ok::<_, NodeError>(OrderUpdate::new().notes([sent]))
                }
            })
            .edge(START, "prepare")
            .edge("prepare", "send")
            .edge("send", END)
            .build()
            .unwrap();
        matches!(self.run(&graph, thread).await, Outcome::Completed(_))
    }

    /// The process dies between beginning an act and hearing of its outcome; true once it is completed.
    pub(crate) async fn charge(&self, thread: &str) -> bool {
        let reached = Arc::new(tokio::sync::Notify::new());
        let offline = self.offline.clone();
        let told = reached.clone();
        let graph = GraphBuilder::<Order>::new("pay", 1)
            .node("charge", move |ctx, _| {
                let (told, offline) = (told.clone(), offline.clone());
                async move {
                    let act = async move {
                        if offline.load(Ordering::SeqCst) {
                            told.notify_one();
                            std::future::pending::<()>().await;
                        }
                        Ok("charged".to_owned())
                    };
                    let charged = ctx.step("charge card", Effect::Once, act).await?;
                    Ok::<_, NodeError>(OrderUpdate::new().notes([charged]))
                }
            })
            .edge(START, "charge")
            .edge("charge", END)
            .build()
            .unwrap();
        tokio::select! {
            outcome = self.run(&graph, thread) => matches!(outcome, Outcome::Completed(_)),
            () = reached.notified() => false,
        }
    }
}

pub(crate) fn approval() -> Graph<Order> {
    approval_of(None)
}

/// The same, with something else to be shown to whoever approves.
pub(crate) fn approval_of(shown: Option<&'static str>) -> Graph<Order> {
    GraphBuilder::<Order>::new("post", 1)
        .node("draft", |ctx, _| async move {
            let draft = ctx.step("write", Effect::Pure, async { Ok("ten things".to_owned()) }).await?;
            Ok(OrderUpdate::new().notes([draft]))
        })
        .node("ask", move |ctx, state| async move {
            let draft = shown.unwrap_or(&state.notes[0]);
            let wait = Wait::approval("publish this post?").payload(json!({ "draft": draft }));
            let answer: Answer<bool> = ctx.pause_for(wait.schema(json!({ "type": "boolean" }))).await?;
            let Answer::Given { value, actor, .. } = answer else { panic!("{answer:?}") };
            Ok(OrderUpdate::new().notes([format!("{actor} said {value}")]))
        })
        .edge(START, "draft")
        .edge("draft", "ask")
        .edge("ask", END)
        .build()
        .unwrap()
}

pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap().block_on(work)
}

//! Starting, stopping, refusing and going on.

use std::sync::Arc;

use longhaul_core::Scope;
use longhaul_durable::{
    DurableError, END, Effect, Field, Graph, GraphBuilder, GraphState, LimitError, News, Outcome, Reducer, Resources,
    RunOptions, START, Status,
};
use longhaul_store::{LeaseError, StoreError};
use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::support::{Done, Words, completed, failure, scope, thread, world};

/// Two nodes in turn, three steps each, until there are twelve words.
fn weaving(done: &Done, before_each: Arc<dyn Fn() + Send + Sync>) -> Graph<Words> {
    let node = |name: &'static str| {
        let (done, before_each) = (done.clone(), before_each.clone());
        move |ctx: longhaul_durable::NodeContext, state: Arc<Words>| {
            let (done, before_each) = (done.clone(), before_each.clone());
            async move {
                let mut words = Vec::new();
                for n in 0..3 {
                    let id = ctx.step_id("weave").within();
                    let word = ctx.step("weave", Effect::Pure, async {
                        done.add(id);
                        before_each();
                        Ok(format!("{name}{}", state.count + n))
                    });
                    words.push(word.await?);
                }
                Ok(words)
            }
        }
    };
    GraphBuilder::new("weaving", 1)
        .node("warp", node("warp"))
        .node("weft", node("weft"))
        .edge(START, "warp")
        .edge("warp", "weft")
        .branch("weft", &["warp", END], |state| if state.count < 12 { "warp" } else { END })
        .build()
        .unwrap()
}

fn quietly() -> Arc<dyn Fn() + Send + Sync> {
    Arc::new(|| ())
}

#[tokio::test]
async fn a_run_completes_and_the_next_one_starts_anew() {
    let dir = tempfile::tempdir().unwrap();
    let world = world(dir.path()).await;
    let graph = weaving(&world.done, quietly());
    let mut progress = world.runtime.progress();
    let first = completed(world.run(&graph).await);
    assert_eq!((first.count, &first.words[11][..]), (12, "weft11"));
    let execution = || async { world.runtime.find(&scope().scope, &thread()).await.unwrap().unwrap() };
    let before = execution().await;
    assert_eq!(before.status, Status::Completed);
    completed(world.run(&graph).await);
    let after = execution().await;
    assert_ne!(before.id, after.id);
    assert_eq!(world.done.take().len(), 24);

    let mut news = Vec::new();
    while let Ok(item) = progress.try_recv() {
        news.push(item);
    }
    let first: Vec<_> = news.iter().take(3).map(|item| &item.news).collect();
    let name = || "weave".to_owned();
    assert_eq!(first[..2], [&News::NodeStarted, &News::StepStarted { name: name() }]);
    assert!(matches!(first[2], News::StepRecorded { name, .. } if name == "weave"));
    assert_eq!(news.iter().filter(|item| item.news == News::NodeFinished).count(), 8);
}

#[tokio::test]
async fn a_run_stops_where_it_is_asked_to_and_goes_on_from_there() {
    let dir = tempfile::tempdir().unwrap();
    let world = world(dir.path()).await;
    let graph = weaving(&world.done, quietly());
    let until = |count: u64| RunOptions {
        stop_when: Some(Arc::new(move |state: &Words| state.count >= count)),
        ..RunOptions::default()
    };
    for count in [0, 6, 6, 9] {
        let outcome = world.run_with(&graph, until(count)).await;
        assert!(matches!(&outcome, Outcome::Stopped(state) if state.count == count), "{outcome:?}");
        let status = world.runtime.find(&scope().scope, &thread()).await.unwrap().unwrap().status;
        assert_eq!(status, Status::Stopped);
    }
    completed(world.run(&graph).await);
    assert_eq!(world.done.take().len(), 12);
}

#[tokio::test]
async fn whoever_comes_second_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let world = world(dir.path()).await;
    let other = crate::support::world(dir.path()).await;
    let (entered, has_entered) = tokio::sync::oneshot::channel();
    let entered = Arc::new(std::sync::Mutex::new(Some(entered)));
    let cancel = CancellationToken::new();
    let graph = GraphBuilder::<Words>::new("waiting", 1)
        .node("wait", move |ctx, _| {
            let entered = entered.clone();
            async move {
                if let Some(entered) = entered.lock().unwrap().take() {
                    entered.send(()).unwrap();
                }
                ctx.step::<Vec<String>, _>("wait", Effect::Pure, std::future::pending()).await
            }
        })
        .edge(START, "wait")
        .edge("wait", END)
        .build()
        .unwrap();
    let first = tokio::spawn({
        let (graph, options) = (graph.clone(), RunOptions { cancel: cancel.clone(), ..RunOptions::default() });
        async move { world.run_with(&graph, options).await }
    });
    has_entered.await.unwrap();
    let second = other.runtime.run(&graph, &scope(), &thread(), Words::default(), RunOptions::default()).await;
    let Err(DurableError::Lease(LeaseError::Held { holder: Some(holder), .. })) = second else { panic!("{second:?}") };
    assert_eq!(holder.pid, std::process::id());
    assert!(matches!(other.runtime.abandon(&scope().scope, &thread()).await, Err(DurableError::Lease(_))));
    cancel.cancel();
    assert!(matches!(first.await.unwrap(), Outcome::Cancelled));
    assert!(other.runtime.abandon(&scope().scope, &thread()).await.unwrap());
    assert!(!other.runtime.abandon(&scope().scope, &thread()).await.unwrap());
}

#[tokio::test]
async fn a_run_that_was_taken_over_commits_nothing_more() {
    let dir = tempfile::tempdir().unwrap();
    let world = world(dir.path()).await;
    let graph = GraphBuilder::<Words>::new("stolen", 1)
        .node("work", |ctx, _| async move {
            ctx.step("mine", Effect::Pure, async { Ok(()) }).await?;
            // Another host takes the thread, as it may once we have been silent for too long.
            let steal = ctx.store().write(|tx| tx.execute("UPDATE leases SET token = token + 1", &[]));
            let stolen: Result<u64, StoreError> = steal.await;
            stolen?;
            ctx.step("not mine", Effect::Pure, async { Ok(()) }).await?;
            Ok(Vec::new())
        })
        .edge(START, "work")
        .edge("work", END)
        .build()
        .unwrap();
    let run = world.runtime.run(&graph, &scope(), &thread(), Words::default(), RunOptions::default()).await;
    assert!(matches!(&run, Err(DurableError::Store(StoreError::LeaseLost { .. }))), "{run:?}");
    assert_eq!(world.recorded().await, ["work/1/mine#1"]);
    assert_eq!(world.kinds().await, ["execution.started"]);
}

#[tokio::test]
async fn a_changed_graph_is_recognised_and_may_be_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let world = world(dir.path()).await;
    let graph = |version, extra: bool| {
        let graph = GraphBuilder::<Words>::new("growing", version)
            .node("a", |_, _| async { Ok(vec!["a".to_owned()]) })
            .edge(START, "a");
        if extra {
            graph.node("b", |_, _| async { Ok(Vec::new()) }).edge("a", "b").edge("b", END).build().unwrap()
        } else {
            graph.edge("a", END).build().unwrap()
        }
    };
    let stop = RunOptions { stop_when: Some(Arc::new(|_: &Words| true)), ..RunOptions::default() };
    world.run_with(&graph(1, false), stop).await;
    for changed in [graph(2, false), graph(1, true)] {
        let run = world.runtime.run(&changed, &scope(), &thread(), Words::default(), RunOptions::default()).await;
        let Err(DurableError::GraphChanged { recorded, current, .. }) = run else { panic!("{run:?}") };
        assert!(recorded.starts_with("growing 1 (") && recorded != current, "{recorded} {current}");
    }
    world.runtime.abandon(&scope().scope, &thread()).await.unwrap();
    completed(world.run(&graph(2, true)).await);
}

#[tokio::test]
async fn loops_and_wrong_turns_end() {
    let dir = tempfile::tempdir().unwrap();
    let world = world(dir.path()).await;
    let graph = GraphBuilder::<Words>::new("turning", 1)
        .node("turn", |_, _| async { Ok(vec!["x".to_owned()]) })
        .edge(START, "turn")
        .branch("turn", &["turn", END], |state| if state.count == 7 { "left" } else { "turn" })
        .build()
        .unwrap();
    let limited = RunOptions { supersteps_max: 5, ..RunOptions::default() };
    let run = world.runtime.run(&graph, &scope(), &thread(), Words::default(), limited).await;
    assert!(matches!(run, Err(DurableError::Supersteps { supersteps_max: 5, .. })), "{run:?}");
    let error = failure(world.run(&graph).await);
    assert!(
        error.contains("the branch of turn named \"left\", which is not among its targets turn, __end__"),
        "{error}"
    );
    let state: Words = world.runtime.state(&Scope::single_user(), &thread()).await.unwrap().unwrap();
    assert_eq!(state.count, 6);
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Page {
    log: Vec<String>,
    note: String,
}

impl GraphState for Page {
    type Update = (Option<String>, String);
    const FIELDS: &'static [Field] = &[Field { name: "log", reducer: Reducer::Append }];
    fn apply(&mut self, (line, note): Self::Update) {
        self.log.extend(line);
        self.note = note;
    }
}

#[tokio::test]
async fn large_content_is_refused_with_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let world = world(dir.path()).await;
    let run = |thread: &str, line: usize, note: usize, times: usize| {
        let graph = GraphBuilder::<Page>::new("page", 1)
            .node("write", move |_, _| async move { Ok((Some("x".repeat(line)), "y".repeat(note))) })
            .edge(START, "write")
            .branch("write", &["write", END], move |s| if s.log.len() < times { "write" } else { END })
            .build()
            .unwrap();
        let (runtime, thread) = (world.runtime.clone(), thread.parse().unwrap());
        async move {
            let run = runtime.run(&graph, &scope(), &thread, Page::default(), RunOptions::default()).await.unwrap();
            if let Outcome::Completed(page) = run {
                return Ok(page.log.len());
            }
            let Outcome::Failed { error, .. } = run else { panic!("{run:?}") };
            Err(std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default())
        }
    };
    assert_eq!(run("fits", 60_000, 10, 8).await, Ok(8));
    let error = run("leaf", 10, 70_000, 1).await.unwrap_err();
    assert!(error.starts_with("update[1] takes 70002 bytes, at most 65536 are allowed"), "{error}");
    let error = run("item", 70_000, 10, 1).await.unwrap_err();
    assert!(error.starts_with("update[0] takes"), "{error}");
    let initial = Page { note: "x".repeat(70_000), ..Page::default() };
    let graph = GraphBuilder::<Page>::new("page", 1)
        .node("write", |_, _| async { Ok((None, String::new())) })
        .edge(START, "write")
        .edge("write", END)
        .build()
        .unwrap();
    let refused = world.runtime.run(&graph, &scope(), &thread(), initial, RunOptions::default()).await;
    assert!(
        matches!(&refused, Err(DurableError::Limit(LimitError::Bytes { path, .. })) if path == "state.note"),
        "{refused:?}"
    );
}

trait Greeter: Send + Sync {
    fn greet(&self) -> String;
}
struct Polite;
impl Greeter for Polite {
    fn greet(&self) -> String {
        "good day".to_owned()
    }
}

#[tokio::test]
async fn live_objects_are_found_by_their_type() {
    let dir = tempfile::tempdir().unwrap();
    let world = world(dir.path()).await;
    let graph = GraphBuilder::<Words>::new("greeting", 1)
        .node("greet", |ctx, _| async move { Ok(vec![ctx.resources().get::<dyn Greeter>()?.greet()]) })
        .edge(START, "greet")
        .edge("greet", END)
        .build()
        .unwrap();
    let error = failure(world.run(&graph).await);
    assert!(error.contains("Greeter: add it to its resources"), "{error}");
    let resources = Resources::new().with::<dyn Greeter>(Arc::new(Polite));
    let state = completed(world.run_with(&graph, RunOptions { resources, ..RunOptions::default() }).await);
    assert_eq!(state, Words::of(&["good day"]));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    /// The runs are cut at random steps; what is recorded is never done again and the end is the same.
    #[test]
    fn cuts_at_any_step_change_nothing(cuts in proptest::collection::vec(1_usize..8, 1..6)) {
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        tokio.block_on(async {
            let dir = tempfile::tempdir().unwrap();
            let world = world(dir.path()).await;
            for cut in cuts {
                let recorded = world.recorded().await;
                let cancel = CancellationToken::new();
                let left = std::sync::atomic::AtomicUsize::new(cut);
                let trigger = cancel.clone();
                let graph = weaving(&world.done, Arc::new(move || {
                    if left.fetch_sub(1, std::sync::atomic::Ordering::SeqCst) == 1 {
                        trigger.cancel();
                    }
                }));
                let outcome = world.run_with(&graph, RunOptions { cancel, ..RunOptions::default() }).await;
                for done in world.done.take() {
                    assert!(!recorded.contains(&done), "{done} was done again");
                }
                if matches!(outcome, Outcome::Completed(_)) {
                    break;
                }
            }
            let execution = world.runtime.find(&scope().scope, &thread()).await.unwrap().unwrap();
            if execution.status != Status::Completed {
                completed(world.run(&weaving(&world.done, quietly())).await);
            }
            let state: Words = world.runtime.state(&scope().scope, &thread()).await.unwrap().unwrap();
            let expected = (0..12).map(|n| format!("{}{n}", if (n / 3) % 2 == 0 { "warp" } else { "weft" }));
            assert_eq!(state.words, expected.collect::<Vec<_>>());
        });
    }
}

//! A task with something of everything: records, links, a milestone, an answered question, and a step that fails.

use std::sync::Arc;

use longhaul_core::{Ambient, TaskScope, ThreadId};
use longhaul_durable::{
    Answer, END, Effect, Graph, GraphBuilder, GraphState, NodeError, Outcome, RunOptions, Runtime, START, Wait,
};
use longhaul_memory::Memory;
use longhaul_workspace::{Ingest, Kind, NewLink, NewMilestone, RecordRef, Relation, TaskWorkspace, Workspace};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::ground::{Ground, scope};

/// State holds references, never content.
#[derive(Debug, Clone, Default, Serialize, Deserialize, GraphState)]
pub(crate) struct Review {
    source: Option<RecordRef>,
    draft: Option<RecordRef>,
    #[append]
    notes: Vec<String>,
}

/// The program of the task.
pub(crate) struct Program {
    pub(crate) runtime: Runtime,
    pub(crate) task: TaskWorkspace,
}

impl Program {
    pub(crate) async fn of(ground: &Ground, scope: &TaskScope) -> Self {
        let store = ground.store().await;
        let workspace = Workspace::new(store.clone(), Memory::new(store.clone(), None));
        Self { runtime: Runtime::new(store, Ambient::system()), task: workspace.task(scope) }
    }

    /// Reads, drafts, asks, and fails to publish.
    fn graph(&self) -> Graph<Review> {
        let (reading, drafting) = (self.task.clone(), self.task.clone());
        GraphBuilder::<Review>::new("review", 1)
            .node("read", move |ctx, _| {
                let task = reading.clone();
                async move {
                    let execution = ctx.execution().clone();
                    let kept = ctx.step("fetch", Effect::Pure, async move {
                        let page = Ingest {
                            execution: Some(execution),
                            ..Ingest::new(
                                Kind::Observation,
                                "pages",
                                "the contract",
                                "web https://example.com",
                                "42 EUR",
                            )
                        };
                        Ok(task.ingest(page).await?)
                    });
                    Ok(ReviewUpdate::new().source(Some(kept.await?)))
                }
            })
            .node("draft", move |ctx, state: Arc<Review>| {
                let task = drafting.clone();
                async move {
                    let (execution, source) = (ctx.execution().clone(), state.source.clone());
                    let name = Some(format!("report of {}", ctx.thread()));
                    let kept = ctx.step("write", Effect::Idempotent { key: "draft-1".to_owned() }, async move {
                        let draft = Ingest {
                            name,
                            execution: Some(execution),
                            ..Ingest::new(Kind::Artifact, "artifacts", "draft report", "agent", "it costs 42 EUR")
                        };
                        let draft = task.ingest(draft).await?;
                        if let Some(source) = source {
                            task.link(NewLink::new(&draft.id, Relation::DerivedFrom, &source.id)).await?;
                        }
                        Ok(draft)
                    });
                    Ok(ReviewUpdate::new().draft(Some(kept.await?)))
                }
            })
            .node("ask", |ctx, state: Arc<Review>| async move {
                let wait = Wait::approval("publish it?").payload(json!({ "draft": state.draft }));
                let answer: Answer<bool> = ctx.pause_for(wait.schema(json!({ "type": "boolean" }))).await?;
                Ok(ReviewUpdate::new().notes([format!("{:?}", answer.into_value())]))
            })
            .node("publish", |ctx, _| async move {
                let seal = ctx.step("seal", Effect::Pure, async { Ok("sealed".to_owned()) }).await?;
                let print = async { Err::<String, _>(std::io::Error::other("the printer is on fire").into()) };
                let printed = ctx.step("print", Effect::Idempotent { key: "print-1".to_owned() }, print).await?;
                Ok::<_, NodeError>(ReviewUpdate::new().notes([seal, printed]))
            })
            .edge(START, "read")
            .edge("read", "draft")
            .edge("draft", "ask")
            .edge("ask", "publish")
            .edge("publish", END)
            .build()
            .unwrap()
    }

    pub(crate) async fn run(&self, thread: &str) -> Outcome<Review> {
        let thread: ThreadId = thread.parse().unwrap();
        let (graph, scope) = (self.graph(), self.task.owner());
        self.runtime.run(&graph, scope, &thread, Review::default(), RunOptions::default()).await.unwrap()
    }

    /// Until it is asked; the wait's id.
    pub(crate) async fn ask(&self, thread: &str) -> String {
        let outcome = self.run(thread).await;
        let Outcome::Waiting(waits) = outcome else { panic!("{outcome:?}") };
        waits[0].id.to_string()
    }

    /// Answers and fails; a milestone and evidence were left on the way.
    pub(crate) async fn fail(&self, thread: &str) {
        let wait = self.ask(thread).await.parse().unwrap();
        let execution = self.runtime.find(&scope().scope, &thread.parse().unwrap()).await.unwrap().unwrap().id;
        let state: Review = self.runtime.state(&scope().scope, &thread.parse().unwrap()).await.unwrap().unwrap();
        let draft = state.draft.unwrap();
        let decided = Ingest::new(Kind::Decision, "decisions", "low risk", "agent", "nothing in it is unusual");
        let decided = self.task.ingest(decided).await.unwrap();
        let supports = NewLink::new(&draft.id, Relation::Supports, &decided.id);
        self.task.link(supports).await.unwrap();
        let reached = NewMilestone {
            name: "risk-review".to_owned(),
            execution: Some(execution),
            superstep: Some(2),
            refs: vec![draft, decided],
            ..NewMilestone::default()
        };
        self.task.reach(reached).await.unwrap();
        self.runtime.continue_with(&scope().scope, &wait, json!(true), "yes", "ada").await.unwrap();
        let outcome = self.run(thread).await;
        assert!(matches!(outcome, Outcome::Failed { .. }), "{outcome:?}");
    }
}

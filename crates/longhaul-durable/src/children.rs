//! Child executions: a graph that a node runs as an execution of its own.
//!
//! It owns how a child is found again and what its end means to the node. Invariants: a place of a node has one child,
//! on a thread that follows from that place, so that a crash at any point begins no second one; a child is at work only
//! inside its parent's run, waits where its parent waits, and ends with it.

use std::sync::Arc;

use futures::future::BoxFuture;
use longhaul_core::{Digest, ExecutionId, Scope, ThreadId};
use longhaul_store::StoreError;
use serde::{Deserialize, Serialize};

use crate::{
    DurableError, Execution, Graph, GraphState, NodeContext, NodeError, Outcome, RunOptions, Runtime, StepId,
    beginning::Plan,
    pausing::Unanswered,
    records::{executions, family, steps::Declared},
    run::Journal,
};

/// What is recorded of a child that is complete; its state stays its own.
#[derive(Debug, Serialize, Deserialize)]
struct Complete {
    child: ExecutionId,
}

impl NodeContext {
    /// Runs a graph to its end as an execution of its own, and gives its last state. It is a recorded step: a child that
    /// is complete is not run again. What the child waits for, the node waits for; when its parent is cancelled, so is
    /// the child. The graph may be any but must be the same on replay.
    ///
    /// # Errors
    /// [`NodeError::Child`] when a node of the child failed (the next run goes on with it), [`NodeError::ChildCancelled`],
    /// [`NodeError::ChildRun`]; [`NodeError::Suspended`] and those of [`Self::step`].
    pub fn child<C: GraphState>(
        &self,
        name: &str,
        graph: &Graph<C>,
        initial: C,
    ) -> BoxFuture<'static, Result<C, NodeError>> {
        let (context, name, graph) = (self.clone(), name.to_owned(), graph.clone());
        Box::pin(async move {
            let busy = context.next_step(&name)?;
            let ended = context.run_child(busy.step(), graph, initial).await;
            busy.done();
            ended.map_err(|error| context.fatal(error))
        })
    }

    async fn run_child<C: GraphState>(&self, step: StepId, graph: Graph<C>, initial: C) -> Result<C, NodeError> {
        let runtime = self.0.run.runtime.clone();
        if let Some(recorded) = self.0.earlier.recorded.get(&step.ordinal) {
            let Complete { child } = self.replay(step.clone(), recorded)?;
            let loaded = runtime.load::<C>(&self.scope().scope, &child, None).await;
            return loaded.map(|replayed| replayed.state).map_err(|source| in_child(&step, source));
        }
        if let Some(script) = self.0.run.script().filter(|script| !script.has_child(&step, &id_of(&step))) {
            return Err(script.missing(&step));
        }
        let options = RunOptions {
            cancel: self.cancel().clone(),
            stop: self.0.run.stopping[1].clone(),
            resources: self.resources().clone(),
            supersteps_max: self.0.run.supersteps_max,
            ..RunOptions::default()
        };
        let thread = thread_of(&step);
        let Some(journal) = self.journal() else {
            let outcome = runtime.run(&graph, self.scope(), &thread, initial, options).await;
            return self.outcome(&step, outcome.map_err(|source| in_child(&step, source))?).await;
        };
        let mut plan = Plan::new(&runtime, &graph, self.scope(), &thread, initial, None);
        plan.parent = Some((step.clone(), journal.pen.clone()));
        let outcome = runtime.run_recorded(&journal.store, &graph, plan, options).await;
        let state = self.outcome(&step, outcome.map_err(|source| in_child(&step, source))?).await?;
        self.record_child(journal, step).await?;
        Ok(state)
    }

    async fn outcome<C: GraphState>(&self, step: &StepId, outcome: Outcome<C>) -> Result<C, NodeError> {
        match outcome {
            Outcome::Completed(state) => Ok(state),
            Outcome::Waiting(waits) => {
                self.add_waits(waits.into_iter().map(|wait| Unanswered::Known(wait.id)));
                Err(NodeError::Suspended)
            }
            Outcome::Failed { error: error @ NodeError::Store(_), .. } => Err(error),
            Outcome::Failed { node, superstep, error } => {
                Err(NodeError::Child { step: Box::new(step.clone()), node, superstep, source: Arc::new(error) })
            }
            Outcome::NeedsReconcile(pending) => {
                let step = pending.into_iter().next().map_or_else(|| step.clone(), |effect| effect.step);
                Err(NodeError::NeedsReconcile { step: Box::new(step) })
            }
            // The node around it is dropped for the same reason.
            Outcome::Cancelled if self.cancel().is_cancelled() => std::future::pending().await,
            Outcome::Cancelled => Err(NodeError::ChildCancelled { step: Box::new(step.clone()) }),
            Outcome::Stopped(_) => Err(NodeError::Stopped),
        }
    }

    async fn record_child(&self, journal: &Journal, step: StepId) -> Result<(), NodeError> {
        let unfit = |source| NodeError::Result { step: Box::new(step.clone()), source: Arc::new(source) };
        let result = serde_json::to_string(&Complete { child: id_of(&step) }).map_err(unfit)?;
        let declared = Declared { name: step.name, ordinal: step.ordinal, effect: "child", effect_key: None };
        let place = self.0.place.clone();
        journal.write(move |pen, tx| pen.insert_step(tx, &place, &declared, &result)).await?;
        self.heartbeat();
        Ok(())
    }
}

impl Runtime {
    /// The executions that this one began as its children, and what those began.
    ///
    /// # Errors
    /// [`DurableError::Store`].
    pub async fn children(&self, scope: &Scope, execution: &ExecutionId) -> Result<Vec<Execution>, DurableError> {
        let (scope, execution) = (scope.clone(), execution.clone());
        let read = self.store()?.read(move |read| {
            let mut children = Vec::new();
            for member in family::members(read, &scope.tenant, &execution)? {
                children.extend(executions::by_id(read, &scope, &member)?.filter(|member| member.id != execution));
            }
            Ok(children)
        });
        Ok(read.await.map_err(|error: StoreError| error)?)
    }
}

/// What stands for the place of a step in names, whatever the step is called.
fn place_of(step: &StepId) -> String {
    let place = StepId { name: String::new(), ..step.clone() };
    Digest::of(place.to_string()).hex().split_off(32)
}

/// The child at this place.
pub(crate) fn id_of(step: &StepId) -> ExecutionId {
    ExecutionId::from_body(&place_of(step))
}

/// Its thread.
fn thread_of(step: &StepId) -> ThreadId {
    let thread = format!("{}/child/{}", step.execution, place_of(step));
    thread.parse().expect("the id of an execution and hexadecimal digits name a thread")
}

fn in_child(step: &StepId, source: DurableError) -> NodeError {
    if let DurableError::Store(error) = source {
        return NodeError::Store(error);
    }
    if let DurableError::Draining = source {
        return NodeError::Stopped;
    }
    NodeError::ChildRun { step: Box::new(step.clone()), source: Arc::new(source) }
}

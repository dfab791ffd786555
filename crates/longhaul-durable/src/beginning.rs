//! The one transaction with which a run begins: the lease is taken, an answer accepted, the execution found or made,
//! and all that is needed to go on is read.

use std::{sync::Arc, time::Duration};

use longhaul_core::{Ambient, EventDraft, ExecutionId, TaskScope, ThreadId, TimeMs};
use longhaul_store::{Lease, LeaseClaim, LeaseError, LeaseToken, Store, StoreError, Tx, give_back};
use serde_json::json;

use crate::{
    Continued, DurableError, Execution, GivenAnswer, Graph, GraphState, PendingEffect, Runtime, Status, StepId,
    answering, children,
    frame::{self, Beginning, Loaded},
    graph::Takes,
    migrate,
    queue::{Entry, Held},
    records::{Pen, effects, executions, family, waits},
};

/// What a run is to do, before anything is known.
pub(crate) struct Plan<S: GraphState> {
    ambient: Ambient,
    lease_ttl: Duration,
    graph: Graph<S>,
    scope: TaskScope,
    thread: ThreadId,
    initial: Initial<S>,
    answer: Option<GivenAnswer>,
    /// The entry of the queue from which it begins.
    entry: Option<Held>,
    /// The id that the execution is to have, in a replay.
    replayed: Option<ExecutionId>,
    /// The step of which the execution is the child, and the right to write for it.
    pub(crate) parent: Option<(StepId, Pen)>,
}

/// The state with which an execution begins.
enum Initial<S> {
    State(S),
    /// As it stands in the queue; not looked at where an execution goes on.
    Json(String),
}

/// What the transaction found.
pub(crate) enum Begun<S> {
    /// The run may begin: anew, or with what was loaded.
    Running { pen: Pen, thread: ThreadId, loaded: Box<Result<Beginning<S>, Loaded>> },
    /// Somebody had asked for the execution's end; now it is at its end.
    Cancelled,
    /// Somebody must first say what happened.
    NeedsReconcile(Vec<PendingEffect>),
    /// It has come to its end before: it is a child, or what was to be answered was answered before that.
    Finished(Box<Execution>),
    /// The answer was refused; that it was tried is noted.
    Refused(Box<DurableError>),
}

impl<S: GraphState> Plan<S> {
    pub(crate) fn new(
        runtime: &Runtime,
        graph: &Graph<S>,
        scope: &TaskScope,
        thread: &ThreadId,
        initial: S,
        answer: Option<GivenAnswer>,
    ) -> Self {
        Self {
            ambient: runtime.ambient.clone(),
            lease_ttl: runtime.lease_ttl,
            graph: graph.clone(),
            scope: scope.clone(),
            thread: thread.clone(),
            initial: Initial::State(initial),
            answer,
            entry: None,
            replayed: runtime.script.as_ref().map(|script| script.root().clone()),
            parent: None,
        }
    }

    /// A plan for what stands in the queue.
    pub(crate) fn queued(runtime: &Runtime, graph: &Graph<S>, entry: &Entry, initial: String, held: Held) -> Self {
        Self {
            ambient: runtime.ambient.clone(),
            lease_ttl: runtime.lease_ttl,
            graph: graph.clone(),
            scope: entry.scope.clone(),
            thread: entry.thread.clone(),
            initial: Initial::Json(initial),
            answer: None,
            entry: Some(held),
            replayed: None,
            parent: None,
        }
    }

    /// Takes the thread and begins. A lease that is no longer needed has been given back.
    pub(crate) async fn begin(self, store: &Store) -> Result<(Lease, Begun<S>), DurableError> {
        let claim = LeaseClaim::lock(store, &self.scope.scope, &self.thread).await?;
        // An execution may have to be made; its first row is prepared outside the transaction.
        let id = match &self.parent {
            Some((step, _)) => children::id_of(step),
            None => match &self.replayed {
                Some(id) => id.clone(),
                None => ExecutionId::from_body(&self.ambient.ids.body()),
            },
        };
        let written = store.write(move |tx| {
            let token = match &self.parent {
                // Whoever has the parent has its children: another who still holds one is no longer at work.
                Some((_, parent)) => {
                    parent.fenced(tx)?;
                    claim.take_over(tx, self.lease_ttl)?
                }
                None => claim.take(tx, self.lease_ttl).map_err(from_lease)?,
            };
            let begun = self.begin_in(tx, &token, id)?;
            if !matches!(begun, Begun::Running { .. }) {
                give_back(tx, &token)?;
            }
            Ok::<_, DurableError>((claim, token, begun))
        });
        let (claim, token, begun) = written.await?;
        Ok((claim.hold(token), begun))
    }

    /// Begins in this transaction, which has taken the thread.
    pub(crate) fn begin_in(
        self,
        tx: &mut Tx<'_>,
        token: &LeaseToken,
        id: ExecutionId,
    ) -> Result<Begun<S>, DurableError> {
        let newest = executions::newest(tx, &self.scope.scope, &self.thread)?;
        if let Some(answer) = &self.answer {
            let tenant = &self.scope.scope.tenant;
            let family = match &newest {
                Some(newest) => family::members(tx, tenant, &newest.id)?,
                None => Vec::new(),
            };
            let wait = waits::by_id(tx, tenant, &answer.wait)?;
            if wait.is_none_or(|wait| !family.contains(&wait.execution)) {
                return Ok(Begun::Refused(Box::new(DurableError::NoWait { wait: answer.wait.clone() })));
            }
            let answered: Result<Continued, DurableError> = answering::accept(tx, &self.scope.scope, answer)?;
            if let Err(error) = answered {
                return Ok(Begun::Refused(Box::new(error)));
            }
            // A repetition of the request that brought it to its end asks for nothing new.
            if let Some(known) = newest.as_ref().filter(|known| known.status.is_finished()) {
                return Ok(Begun::Finished(Box::new(known.clone())));
            }
        }
        if let Some((step, _)) = &self.parent
            && let Some(known) = &newest
        {
            let asked = step.to_string();
            if known.parent_step.as_ref() != Some(&asked) {
                let recorded = known.parent_step.clone().unwrap_or_default();
                return Ok(Begun::Refused(Box::new(DurableError::AnotherChild { recorded, asked })));
            }
            if known.status.is_finished() {
                return Ok(Begun::Finished(Box::new(known.clone())));
            }
        }
        match newest {
            Some(execution) if !execution.status.is_finished() => self.resume(tx, token, execution),
            last => self.start(tx, token, id, last.map(|last| last.started_at)),
        }
    }

    fn start(
        self,
        tx: &mut Tx<'_>,
        token: &LeaseToken,
        id: ExecutionId,
        last: Option<TimeMs>,
    ) -> Result<Begun<S>, DurableError> {
        let initial = match self.initial {
            Initial::State(state) => state,
            Initial::Json(json) => serde_json::from_str(&json).map_err(Arc::new)?,
        };
        let beginning = frame::begin(Some((&id, "")), &self.graph, initial, false)?;
        // The newest execution of a thread is the one that began last, also when the clock has been put back.
        let now = last.map_or(tx.now(), |last| tx.now().max(TimeMs(last.0 + 1)));
        let execution = Execution {
            parent_step: self.parent.as_ref().map(|(step, _)| step.to_string()),
            ..new_execution(&self.graph, id, &self.scope, &self.thread, now)
        };
        let pen = Pen::of_entry(self.scope, execution.id.clone(), token.clone(), self.entry);
        if let Err(error) = executions::insert(tx, &execution) {
            // Another user of the tenant has an unfinished one there.
            let taken = matches!(error, StoreError::Constraint { .. });
            return Err(if taken { DurableError::ThreadTaken { thread: self.thread } } else { error.into() });
        }
        if let Some(row) = &beginning.row {
            pen.insert_checkpoint(tx, "", row.clone())?;
        }
        let data = json!({ "graph": execution.graph, "version": execution.graph_version, "thread": self.thread });
        let draft = EventDraft::internal("execution.started", data);
        tx.append_event(pen.scope(), Some(pen.execution()), None, draft)?;
        Ok(Begun::Running { pen, thread: self.thread, loaded: Box::new(Ok(beginning)) })
    }

    fn resume(self, tx: &mut Tx<'_>, token: &LeaseToken, execution: Execution) -> Result<Begun<S>, DurableError> {
        let pen = Pen::of_entry(execution.scope.clone(), execution.id.clone(), token.clone(), self.entry);
        if execution.cancel.is_some() {
            pen.end_family(tx, Status::Cancelled)?;
            pen.set_status(tx, Status::Cancelled, None, "execution.cancelled", 0)?;
            return Ok(Begun::Cancelled);
        }
        let takes = self.graph.takes(&execution.fingerprint, execution.state_version);
        if matches!(takes, Takes::Foreign) {
            return Err(migrate::refusal(tx, &self.graph, &execution)?);
        }
        let pending = effects::pending(tx, pen.tenant(), pen.execution())?;
        if pending.iter().any(|effect| !effect.probe) {
            if execution.status == Status::Running {
                pen.set_status(tx, Status::Stopped, None, "execution.stopped", 0)?;
            }
            return Ok(Begun::NeedsReconcile(pending));
        }
        migrate::take_over(tx, &pen, &self.graph, &execution, takes)?;
        waits::expire(tx, pen.scope(), pen.execution())?;
        let loaded = Loaded::read(tx, &pen, "", false)?;
        let superstep = loaded.log.rows.last().map_or(0, |row| row.superstep);
        pen.set_status(tx, Status::Running, None, "execution.resumed", superstep)?;
        Ok(Begun::Running { pen, thread: self.thread, loaded: Box::new(Err(loaded)) })
    }
}

pub(crate) fn new_execution<S: GraphState>(
    graph: &Graph<S>,
    id: ExecutionId,
    scope: &TaskScope,
    thread: &ThreadId,
    now: TimeMs,
) -> Execution {
    Execution {
        id,
        scope: scope.clone(),
        thread: thread.clone(),
        graph: graph.shape().name.clone(),
        graph_version: graph.shape().version,
        fingerprint: *graph.fingerprint(),
        state_version: graph.state_version(),
        status: Status::Running,
        error: None,
        forked_from: None,
        parent_step: None,
        cancel: None,
        started_at: now,
        updated_at: now,
        closed_at: None,
    }
}

fn from_lease(error: LeaseError) -> DurableError {
    match error {
        LeaseError::Store(error) => DurableError::Store(error),
        held @ LeaseError::Held { .. } => DurableError::Lease(held),
    }
}

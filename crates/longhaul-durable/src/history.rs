//! Looking at executions from outside, and the few things that may be done to one that is not running: settling an
//! act of unknown outcome, forking, giving up.

use std::sync::Arc;

use longhaul_core::{Digest, EventDraft, ExecutionId, Scope, TaskScope, ThreadId, TimeMs};
use longhaul_store::{Lease, ReadTx, StoreError, values};
use serde_json::{Value, json};

use crate::{
    DurableError, Execution, Form, GraphState, PendingEffect, Runtime, Status, StepId,
    checkpoint::{self, Replayed},
    limits,
    machine::Position,
    records::{
        Pen,
        checkpoints::{self, CheckpointRow, NewCheckpoint},
        effects, executions,
        steps::{self, Declared},
    },
};

/// A moment of an execution to which one can return.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// The execution.
    pub execution: ExecutionId,
    /// Its number; 0 is the initial state.
    pub superstep: u64,
    /// The nodes that ran in it, each once.
    pub nodes: Vec<String>,
    /// Where the execution stood after it.
    pub position: Position,
    /// Digest of this checkpoint and all before it.
    pub digest: Digest,
    /// When it was committed.
    pub at: TimeMs,
}

/// What became of an act of unknown outcome.
#[derive(Debug, Clone, PartialEq)]
pub enum Settlement {
    /// It took place; this is the step's result, as its JSON.
    Happened(Value),
    /// It did not take place: the step may run again.
    DidNotHappen,
}

impl Runtime {
    /// The newest execution of the thread, finished or not.
    ///
    /// # Errors
    /// [`DurableError::Store`].
    pub async fn find(&self, scope: &Scope, thread: &ThreadId) -> Result<Option<Execution>, DurableError> {
        let (scope, thread) = (scope.clone(), thread.clone());
        Ok(self.store()?.read(move |read| executions::newest(read, &scope, &thread)).await?)
    }

    /// The state of the thread's newest execution after its last closed superstep.
    ///
    /// # Errors
    /// [`DurableError::Diverged`], [`DurableError::Store`].
    pub async fn state<S: GraphState>(&self, scope: &Scope, thread: &ThreadId) -> Result<Option<S>, DurableError> {
        match self.find(scope, thread).await? {
            Some(execution) => Ok(Some(self.load(scope, &execution.id, None).await?.state)),
            None => Ok(None),
        }
    }

    /// The state after this superstep; 0 is the initial one.
    ///
    /// # Errors
    /// [`DurableError::NoExecution`], [`DurableError::NoCheckpoint`], [`DurableError::Diverged`],
    /// [`DurableError::Store`].
    pub async fn state_at<S: GraphState>(
        &self,
        scope: &Scope,
        execution: &ExecutionId,
        superstep: u64,
    ) -> Result<S, DurableError> {
        Ok(self.load(scope, execution, Some(superstep)).await?.state)
    }

    /// The checkpoints of all executions of the thread, newest first, at most `limit`.
    ///
    /// # Errors
    /// [`DurableError::Store`].
    pub async fn history(&self, scope: &Scope, thread: &ThreadId, limit: u32) -> Result<Vec<Checkpoint>, DurableError> {
        let (scope, thread) = (scope.clone(), thread.clone());
        let read = self.store()?.read(move |read| {
            read.query(
                "SELECT c.execution_id, c.superstep, c.nodes, c.v, c.frontier, c.digest, c.at
                 FROM executions e JOIN checkpoints c ON c.tenant_id = e.tenant_id AND c.execution_id = e.execution_id
                 WHERE e.tenant_id = ?1 AND e.user_id = ?2 AND e.thread_id = ?3 AND c.ns = ''
                 ORDER BY e.started_at DESC, e.execution_id DESC, c.superstep DESC LIMIT ?4",
                &values![&scope.tenant, &scope.user, &thread, limit],
                |row| {
                    let nodes = row.text(2)?.split(',').map(str::to_owned).collect();
                    let stored = CheckpointRow {
                        superstep: row.get(1)?,
                        v: row.get(3)?,
                        frontier: row.get(4)?,
                        form: Form::Parent,
                        data: String::new(),
                        digest: row.get(5)?,
                    };
                    Ok((row.get::<ExecutionId>(0)?, nodes, stored, row.get(6)?))
                },
            )
        });
        let rows: Vec<(ExecutionId, Vec<String>, CheckpointRow, TimeMs)> =
            read.await.map_err(|error: StoreError| error)?;
        let checkpoint = |(execution, nodes, row, at): (ExecutionId, Vec<String>, CheckpointRow, TimeMs)| {
            let (superstep, position) = (row.superstep, checkpoint::position_of(&row));
            match (position, checkpoint::digest_of(&row)) {
                (Some(position), Some(digest)) => Ok(Checkpoint { execution, superstep, nodes, position, digest, at }),
                (_, _) => Err(DurableError::Damaged { execution, ns: String::new(), superstep }),
            }
        };
        rows.into_iter().map(checkpoint).collect()
    }

    /// Makes a stopped execution on a new thread out of a checkpoint; [`Runtime::run`] on that thread goes on from
    /// there. What the origin recorded after the checkpoint does not come along; the origin is not changed.
    ///
    /// # Errors
    /// [`DurableError::NoExecution`], [`DurableError::NoCheckpoint`], [`DurableError::ThreadTaken`],
    /// [`DurableError::Lease`], [`DurableError::Diverged`], [`DurableError::Store`].
    pub async fn fork<S: GraphState>(
        &self,
        scope: &TaskScope,
        execution: &ExecutionId,
        superstep: u64,
        thread: &ThreadId,
    ) -> Result<Execution, DurableError> {
        let origin = self.execution(&scope.scope, execution).await?;
        let Replayed { state, position, .. } = self.load::<S>(&scope.scope, execution, Some(superstep)).await?;
        limits::check_state::<S>(&state)?;
        let data = serde_json::to_string(&state).map_err(Arc::new)?;
        let lease = Lease::acquire(self.store()?, &scope.scope, thread, self.lease_ttl).await?;
        if self.find(&scope.scope, thread).await?.is_some() {
            return Err(DurableError::ThreadTaken { thread: thread.clone() });
        }
        let now = self.ambient.clock.now();
        let fork = Execution {
            id: ExecutionId::from_body(&self.ambient.ids.body()),
            scope: scope.clone(),
            thread: thread.clone(),
            status: if position.frontier.is_empty() { Status::Completed } else { Status::Stopped },
            cancel: None,
            parent_step: None,
            closed_at: position.frontier.is_empty().then_some(now),
            error: None,
            forked_from: Some(format!("{execution}@{superstep}")),
            started_at: now,
            updated_at: now,
            ..origin
        };
        let frontier = serde_json::to_string(&position).map_err(Arc::new)?;
        let chain = checkpoint::chain_next(&checkpoint::chain_start(&fork.id, ""), Form::Full, &data, &frontier);
        let row = NewCheckpoint {
            superstep,
            nodes: "fork".to_owned(),
            frontier,
            form: Form::Full,
            data,
            chain: *chain.as_bytes(),
        };
        let pen = Pen::new(scope.clone(), fork.id.clone(), lease.token().clone());
        let new = fork.clone();
        let written = self.store()?.write(move |tx| {
            pen.fenced(tx)?;
            executions::insert(tx, &new)?;
            pen.insert_checkpoint(tx, "", row)?;
            let draft = EventDraft::internal("execution.forked", json!({ "from": new.forked_from }));
            tx.append_event(pen.scope(), Some(pen.execution()), None, draft).map(drop)
        });
        written.await?;
        lease.release().await?;
        Ok(fork)
    }

    /// The acts of the thread's newest execution of which nobody knows whether they took place.
    ///
    /// # Errors
    /// [`DurableError::Store`].
    pub async fn pending_effects(&self, scope: &Scope, thread: &ThreadId) -> Result<Vec<PendingEffect>, DurableError> {
        let Some(execution) = self.find(scope, thread).await? else { return Ok(Vec::new()) };
        let tenant = scope.tenant.clone();
        Ok(self.store()?.read(move |read| effects::pending(read, &tenant, &execution.id)).await?)
    }

    /// Says what became of an act of unknown outcome. Takes the thread's lease.
    ///
    /// # Errors
    /// [`DurableError::NotPending`], [`DurableError::NoExecution`], [`DurableError::Lease`], [`DurableError::Store`].
    pub async fn reconcile(&self, scope: &Scope, step: &StepId, settlement: Settlement) -> Result<(), DurableError> {
        let execution = self.execution(scope, &step.execution).await?;
        let lease = Lease::acquire(self.store()?, scope, &execution.thread, self.lease_ttl).await?;
        let pen = Pen::new(execution.scope, execution.id, lease.token().clone());
        let step = step.clone();
        let written = self.store()?.write(move |tx| {
            pen.fenced(tx)?;
            let pending = effects::pending(tx, pen.tenant(), pen.execution())?;
            if !pending.iter().any(|effect| effect.step == step) {
                return Err(DurableError::NotPending { step });
            }
            let outcome = match settlement {
                Settlement::Happened(result) => {
                    let (name, ordinal) = (step.name.clone(), step.ordinal);
                    let declared = Declared { name, ordinal, effect: "once", effect_key: None };
                    pen.insert_step(tx, &steps::place_of(&step), &declared, &result.to_string())?;
                    "happened"
                }
                Settlement::DidNotHappen => {
                    pen.delete_intent(tx, &steps::place_of(&step), step.ordinal)?;
                    "did_not_happen"
                }
            };
            let draft = EventDraft::internal("effect.reconciled", json!({ "outcome": outcome }));
            tx.append_event(pen.scope(), Some(pen.execution()), Some(&step.within()), draft)?;
            Ok(())
        });
        written.await?;
        Ok(lease.release().await?)
    }

    /// Gives the thread's unfinished execution up, so that the next run starts anew; tells whether there was one.
    ///
    /// # Errors
    /// [`DurableError::Lease`] when somebody is at work on it, [`DurableError::Store`].
    pub async fn abandon(&self, scope: &Scope, thread: &ThreadId) -> Result<bool, DurableError> {
        let lease = Lease::acquire(self.store()?, scope, thread, self.lease_ttl).await?;
        let unfinished = self.find(scope, thread).await?.filter(|execution| !execution.status.is_finished());
        let found = unfinished.is_some();
        if let Some(execution) = unfinished {
            let pen = Pen::new(execution.scope, execution.id, lease.token().clone());
            let written = self.store()?.write(move |tx| {
                pen.fenced(tx)?;
                pen.end_family(tx, Status::Abandoned)?;
                pen.set_status(tx, Status::Abandoned, None, "execution.abandoned", 0)
            });
            written.await?;
        }
        lease.release().await?;
        Ok(found)
    }

    async fn execution(&self, scope: &Scope, id: &ExecutionId) -> Result<Execution, DurableError> {
        let (reader, wanted) = (scope.clone(), id.clone());
        let found = self.store()?.read(move |read| executions::by_id(read, &reader, &wanted)).await?;
        found.ok_or_else(|| DurableError::NoExecution { execution: id.clone() })
    }

    /// The execution as it was after this superstep, or after the last one.
    pub(crate) async fn load<S: GraphState>(
        &self,
        scope: &Scope,
        execution: &ExecutionId,
        superstep: Option<u64>,
    ) -> Result<Replayed<S>, DurableError> {
        let (reader, id) = (scope.clone(), execution.clone());
        let log = self.store()?.read(move |read: &ReadTx<'_>| {
            if executions::by_id(read, &reader, &id)?.is_none() {
                return Err(DurableError::NoExecution { execution: id });
            }
            Ok(checkpoints::log(read, &reader.tenant, &id, "", superstep.unwrap_or(u64::MAX), false)?)
        });
        let log = log.await?;
        let missing = |superstep| DurableError::NoCheckpoint { execution: execution.clone(), superstep };
        if let Some(asked) = superstep
            && log.rows.last().is_none_or(|last| last.superstep != asked)
        {
            return Err(missing(asked));
        }
        checkpoint::replay(execution, "", &log, None)?.ok_or_else(|| missing(superstep.unwrap_or(0)))
    }
}

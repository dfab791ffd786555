//! Looking at executions from outside, and the few things that may be done to one that is not running: settling an
//! act of unknown outcome, forking, giving up.

use longhaul_core::{Digest, EventDraft, ExecutionId, Scope, TaskScope, ThreadId, TimeMs};
use longhaul_store::{Lease, StoreError, values};
use serde_json::{Value, json};

use crate::{
    DurableError, Execution, GraphState, PendingEffect, Runtime, Status, StepId,
    checkpoint::{self, Sealed},
    machine::Position,
    records::{self, CheckpointRow, Form, Pen},
    runtime::{next_of, position_of},
};

/// A moment of an execution to which one can return.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// The execution.
    pub execution: ExecutionId,
    /// Its number; 0 is the initial state.
    pub superstep: u64,
    /// The node whose run it closed.
    pub node: String,
    /// What comes next.
    pub next: String,
    /// Digest of the state.
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
        Ok(self.store.read(move |read| records::newest(read, &scope, &thread)).await?)
    }

    /// The state of the thread's newest execution after its last closed superstep.
    ///
    /// # Errors
    /// [`DurableError::Diverged`], [`DurableError::Store`].
    pub async fn state<S: GraphState>(&self, scope: &Scope, thread: &ThreadId) -> Result<Option<S>, DurableError> {
        match self.find(scope, thread).await? {
            Some(execution) => Ok(Some(self.load(scope, &execution.id, None).await?.0)),
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
        Ok(self.load(scope, execution, Some(superstep)).await?.0)
    }

    /// The checkpoints of all executions of the thread, newest first, at most `limit`.
    ///
    /// # Errors
    /// [`DurableError::Store`].
    pub async fn history(&self, scope: &Scope, thread: &ThreadId, limit: u32) -> Result<Vec<Checkpoint>, DurableError> {
        let (scope, thread) = (scope.clone(), thread.clone());
        let read = self.store.read(move |read| {
            read.query(
                "SELECT c.execution_id, c.superstep, c.node, c.next, c.digest, c.at
                 FROM executions e JOIN checkpoints c ON c.tenant_id = e.tenant_id AND c.execution_id = e.execution_id
                 WHERE e.tenant_id = ?1 AND e.user_id = ?2 AND e.thread_id = ?3
                 ORDER BY e.started_at DESC, e.execution_id DESC, c.superstep DESC LIMIT ?4",
                &values![&scope.tenant, &scope.user, &thread, limit],
                |row| {
                    Ok(Checkpoint {
                        execution: row.get(0)?,
                        superstep: row.get(1)?,
                        node: row.get(2)?,
                        next: row.get(3)?,
                        digest: row.get(4)?,
                        at: row.get(5)?,
                    })
                },
            )
        });
        Ok(read.await.map_err(|error: StoreError| error)?)
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
        let (state, position) = self.load::<S>(&scope.scope, execution, Some(superstep)).await?;
        let Sealed { json, digest, .. } = checkpoint::seal_initial(&state)?;
        let lease = Lease::acquire(&self.store, &scope.scope, thread, self.lease_ttl).await?;
        if self.find(&scope.scope, thread).await?.is_some() {
            return Err(DurableError::ThreadTaken { thread: thread.clone() });
        }
        let now = self.ambient.clock.now();
        let fork = Execution {
            id: ExecutionId::from_body(&self.ambient.ids.body()),
            scope: scope.clone(),
            thread: thread.clone(),
            status: if position.frontier.is_empty() { Status::Completed } else { Status::Stopped },
            error: None,
            forked_from: Some(format!("{execution}@{superstep}")),
            started_at: now,
            updated_at: now,
            ..origin
        };
        let row = CheckpointRow {
            superstep,
            node: "fork".to_owned(),
            next: next_of(&position).to_owned(),
            form: Form::Full,
            data: json,
            digest,
        };
        let pen = Pen { scope: scope.clone(), execution: fork.id.clone(), token: lease.token().clone() };
        let new = fork.clone();
        let written = self.store.write(move |tx| {
            pen.fenced(tx)?;
            records::insert_execution(tx, &new)?;
            pen.insert_checkpoint(tx, &row)?;
            let draft = EventDraft::internal("execution.forked", json!({ "from": new.forked_from }));
            tx.append_event(&pen.scope, Some(&pen.execution), None, draft).map(drop)
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
        Ok(self.store.read(move |read| records::pending(read, &tenant, &execution.id)).await?)
    }

    /// Says what became of an act of unknown outcome. Takes the thread's lease.
    ///
    /// # Errors
    /// [`DurableError::NotPending`], [`DurableError::NoExecution`], [`DurableError::Lease`], [`DurableError::Store`].
    pub async fn reconcile(&self, scope: &Scope, step: &StepId, settlement: Settlement) -> Result<(), DurableError> {
        let execution = self.execution(scope, &step.execution).await?;
        let lease = Lease::acquire(&self.store, scope, &execution.thread, self.lease_ttl).await?;
        let pen = Pen { scope: execution.scope, execution: execution.id, token: lease.token().clone() };
        let step = step.clone();
        let written = self.store.write(move |tx| {
            pen.fenced(tx)?;
            let pending = records::pending(tx, &pen.scope.scope.tenant, &pen.execution)?;
            if !pending.iter().any(|effect| effect.step == step) {
                return Err(DurableError::NotPending { step });
            }
            let outcome = match settlement {
                Settlement::Happened(result) => {
                    pen.insert_step(tx, &step, ("once", None), &result.to_string(), 0)?;
                    "happened"
                }
                Settlement::DidNotHappen => {
                    pen.delete_intent(tx, &step)?;
                    "did_not_happen"
                }
            };
            let draft = EventDraft::internal("effect.reconciled", json!({ "outcome": outcome }));
            tx.append_event(&pen.scope, Some(&pen.execution), Some(&step.within()), draft)?;
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
        let lease = Lease::acquire(&self.store, scope, thread, self.lease_ttl).await?;
        let unfinished = self.find(scope, thread).await?.filter(|execution| !execution.status.is_finished());
        let found = unfinished.is_some();
        if let Some(execution) = unfinished {
            let pen = Pen { scope: execution.scope, execution: execution.id, token: lease.token().clone() };
            let written = self.store.write(move |tx| {
                pen.fenced(tx)?;
                pen.set_status(tx, Status::Abandoned, None, "execution.abandoned", 0)
            });
            written.await?;
        }
        lease.release().await?;
        Ok(found)
    }

    async fn execution(&self, scope: &Scope, id: &ExecutionId) -> Result<Execution, DurableError> {
        let (reader, wanted) = (scope.clone(), id.clone());
        let found = self.store.read(move |read| records::by_id(read, &reader, &wanted)).await?;
        found.ok_or_else(|| DurableError::NoExecution { execution: id.clone() })
    }

    /// State and position after this superstep, or after the last one.
    pub(crate) async fn load<S: GraphState>(
        &self,
        scope: &Scope,
        execution: &ExecutionId,
        superstep: Option<u64>,
    ) -> Result<(S, Position), DurableError> {
        let (reader, id) = (scope.clone(), execution.clone());
        let rows = self.store.read(move |read| {
            if records::by_id(read, &reader, &id)?.is_none() {
                return Err(DurableError::NoExecution { execution: id });
            }
            Ok(records::checkpoints(read, &reader.tenant, &id, superstep.unwrap_or(u64::MAX))?)
        });
        let rows = rows.await?;
        let missing = |superstep| DurableError::NoCheckpoint { execution: execution.clone(), superstep };
        let last = rows.last().ok_or_else(|| missing(superstep.unwrap_or(0)))?;
        if let Some(asked) = superstep.filter(|asked| *asked != last.superstep) {
            return Err(missing(asked));
        }
        let position = position_of(last.superstep, &last.next);
        Ok((checkpoint::replay(execution, &rows)?, position))
    }
}

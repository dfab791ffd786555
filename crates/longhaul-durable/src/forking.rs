//! Going on from an earlier moment, and copies of threads.
//!
//! Invariant: the origin's checkpoints are never changed; what it recorded after the moment, of unfinished tasks too,
//! does not come along.

use std::sync::Arc;

use longhaul_core::{EventDraft, ExecutionId, Scope, TaskScope, ThreadId, TimeMs};
use longhaul_store::{Lease, StoreError, Tx};
use serde_json::json;

use crate::{
    DurableError, Execution, Form, Graph, GraphState, Outcome, Point, RunOptions, Runtime, Status,
    checkpoint::{self, Replayed},
    limits,
    records::{
        Pen,
        checkpoints::{self, NewCheckpoint},
        executions, whole,
    },
};

/// The rows of one frame of a fork.
struct ForkedFrame {
    ns: String,
    rows: Vec<NewCheckpoint>,
}

impl Runtime {
    /// Makes a stopped execution out of a checkpoint; [`Runtime::run`] on its thread goes on from there. The thread is
    /// a new one, or the origin's own: then the fork becomes the thread's newest execution, and what was unfinished
    /// there is given up; it stays in the history and can be forked itself. What the origin recorded after the
    /// checkpoint does not come along, neither do results of a superstep that was not closed.
    ///
    /// # Errors
    /// [`DurableError::NoExecution`], [`DurableError::NoCheckpoint`], [`DurableError::ThreadTaken`] when it is another
    /// thread with executions of its own, [`DurableError::Lease`] when somebody is at work on it,
    /// [`DurableError::Diverged`], [`DurableError::Damaged`], [`DurableError::Store`].
    pub async fn fork<S: GraphState>(
        &self,
        scope: &TaskScope,
        execution: &ExecutionId,
        superstep: u64,
        thread: &ThreadId,
    ) -> Result<Execution, DurableError> {
        self.fork_inside::<S>(scope, &Point::new(execution, superstep), thread).await
    }

    /// Like [`Self::fork`], also from a moment inside a subgraph: the fork stands in the same superstep of each graph
    /// around it, in which only this task has begun. `S` is the state of the outermost graph.
    ///
    /// # Errors
    /// Those of [`Self::fork`].
    pub async fn fork_inside<S: GraphState>(
        &self,
        scope: &TaskScope,
        point: &Point,
        thread: &ThreadId,
    ) -> Result<Execution, DurableError> {
        let origin = self.execution(&scope.scope, &point.execution).await?;
        let missing = || DurableError::NoCheckpoint { execution: origin.id.clone(), superstep: point.superstep };
        let path = point.path().ok_or_else(missing)?;
        let id = ExecutionId::from_body(&self.ambient.ids.body());
        let mut frames = Vec::with_capacity(path.len());
        let mut is_done = false;
        for (ns, superstep) in path {
            if ns.is_empty() {
                let replayed: Replayed<S> = self.load(&scope.scope, &origin.id, Some(superstep)).await?;
                is_done = replayed.position.frontier.is_empty();
                frames.push(outermost(&id, superstep, &replayed)?);
            } else {
                frames.push(self.inner(scope, &origin.id, &id, ns, superstep).await?.ok_or_else(missing)?);
            }
        }
        let lease = Lease::acquire(self.store()?, &scope.scope, thread, self.lease_ttl).await?;
        let known = self.branches(&scope.scope, thread).await?;
        if *thread != origin.thread && !known.is_empty() {
            return Err(DurableError::ThreadTaken { thread: thread.clone() });
        }
        let now = known
            .first()
            .map_or(self.ambient.clock.now(), |newest| self.ambient.clock.now().max(TimeMs(newest.started_at.0 + 1)));
        let fork = Execution {
            id,
            scope: scope.clone(),
            thread: thread.clone(),
            status: if is_done { Status::Completed } else { Status::Stopped },
            cancel: None,
            parent_step: None,
            closed_at: is_done.then_some(now),
            error: None,
            forked_from: Some(point.to_string()),
            started_at: now,
            updated_at: now,
            ..origin
        };
        let (new, token) = (fork.clone(), lease.token().clone());
        let written = self.store()?.write(move |tx| {
            for old in known.into_iter().filter(|old| !old.status.is_finished()) {
                let pen = Pen::new(old.scope, old.id, token.clone());
                pen.fenced(tx)?;
                pen.end_family(tx, Status::Abandoned)?;
                pen.set_status(tx, Status::Abandoned, None, "execution.abandoned", 0)?;
            }
            let pen = Pen::new(new.scope.clone(), new.id.clone(), token);
            pen.fenced(tx)?;
            executions::insert(tx, &new)?;
            for ForkedFrame { ns, rows } in frames {
                rows.into_iter().try_for_each(|row| pen.insert_checkpoint(tx, &ns, row))?;
            }
            let draft = EventDraft::internal("execution.forked", json!({ "from": new.forked_from }));
            tx.append_event(pen.scope(), Some(pen.execution()), None, draft).map(drop)
        });
        let written = written.await;
        lease.release().await?;
        written?;
        Ok(fork)
    }

    /// Runs again from this moment, on a new branch of the same thread; from the last checkpoint of a completed
    /// execution there is nothing to do, and nothing is done.
    ///
    /// # Errors
    /// Those of [`Self::fork`] and of [`Self::run`].
    pub async fn replay<S: GraphState>(
        &self,
        graph: &Graph<S>,
        scope: &TaskScope,
        point: &Point,
        options: RunOptions<S>,
    ) -> Result<Outcome<S>, DurableError> {
        let origin = self.execution(&scope.scope, &point.execution).await?;
        if point.ns.is_empty() {
            let at: Replayed<S> = self.load(&scope.scope, &origin.id, Some(point.superstep)).await?;
            if at.position.frontier.is_empty() {
                return Ok(Outcome::Completed(at.state));
            }
        }
        self.fork_inside::<S>(scope, point, &origin.thread).await?;
        // The fork goes on from its own first row; what it would begin with is never looked at.
        let state = self.state(&scope.scope, &origin.thread).await?;
        let missing = || DurableError::NoCheckpoint { execution: origin.id.clone(), superstep: point.superstep };
        let initial = state.ok_or_else(missing)?;
        self.run(graph, scope, &origin.thread, initial, options).await
    }

    /// The rows of a frame inside a task up to this superstep, as they are in the fork.
    async fn inner(
        &self,
        scope: &TaskScope,
        origin: &ExecutionId,
        fork: &ExecutionId,
        ns: String,
        superstep: u64,
    ) -> Result<Option<ForkedFrame>, DurableError> {
        let (tenant, id, name) = (scope.scope.tenant.clone(), origin.clone(), ns.clone());
        let read = self.store()?.read(move |read| checkpoints::log(read, &tenant, &id, &name, superstep, true));
        let log = read.await.map_err(|error: StoreError| error)?;
        if log.rows.last().is_none_or(|last| last.superstep != superstep) {
            return Ok(None);
        }
        checkpoint::check_log(origin, &ns, &log).map_err(|superstep| DurableError::Damaged {
            execution: origin.clone(),
            ns: ns.clone(),
            superstep,
        })?;
        let mut chain = checkpoint::chain_start(fork, &ns);
        let rows = log.rows.into_iter().map(|row| {
            // The rows of the origin's tasks stay where they are.
            let form = if row.form == Form::Tasks { Form::Delta } else { row.form };
            chain = checkpoint::chain_next(&chain, form, &row.data, &row.frontier);
            let (nodes, chain) = ("fork".to_owned(), *chain.as_bytes());
            NewCheckpoint { superstep: row.superstep, nodes, frontier: row.frontier, form, data: row.data, chain }
        });
        Ok(Some(ForkedFrame { rows: rows.collect(), ns }))
    }

    /// Copies a thread with all its executions, branches, recorded steps and waits to a new thread. What is unfinished
    /// there can be gone on with, independently of the original; open waits of the copy are answered under ids of
    /// their own. Gives the copies, oldest first.
    ///
    /// # Errors
    /// [`DurableError::ThreadTaken`], [`DurableError::Lease`] when somebody is at work on the new thread,
    /// [`DurableError::Damaged`], [`DurableError::Store`].
    pub async fn copy_thread(
        &self,
        scope: &Scope,
        from: &ThreadId,
        to: &ThreadId,
    ) -> Result<Vec<Execution>, DurableError> {
        let lease = Lease::acquire(self.store()?, scope, to, self.lease_ttl).await?;
        let (of, from, to, token) = (scope.clone(), from.clone(), to.clone(), lease.token().clone());
        let written = self.store()?.write(move |tx| {
            tx.check_lease(&token)?;
            if executions::newest(tx, &of, &to)?.is_some() {
                return Err(DurableError::ThreadTaken { thread: to });
            }
            let mut copies = Vec::new();
            for origin in executions::of_thread(tx, &of, &from)?.into_iter().rev() {
                copies.push(copied(tx, origin, &to)?);
            }
            Ok(copies)
        });
        let copies = written.await;
        lease.release().await?;
        copies
    }
}

/// The first row of a fork's outermost frame.
fn outermost<S: GraphState>(
    fork: &ExecutionId,
    superstep: u64,
    replayed: &Replayed<S>,
) -> Result<ForkedFrame, DurableError> {
    limits::check_state::<S>(&replayed.state)?;
    let data = serde_json::to_string(&replayed.state).map_err(Arc::new)?;
    let frontier = serde_json::to_string(&replayed.position).map_err(Arc::new)?;
    let chain = checkpoint::chain_next(&checkpoint::chain_start(fork, ""), Form::Full, &data, &frontier);
    let (nodes, chain) = ("fork".to_owned(), *chain.as_bytes());
    let row = NewCheckpoint { superstep, nodes, frontier, form: Form::Full, data, chain };
    Ok(ForkedFrame { ns: String::new(), rows: vec![row] })
}

fn copied(tx: &mut Tx<'_>, origin: Execution, to: &ThreadId) -> Result<Execution, DurableError> {
    let copy = Execution {
        id: ExecutionId::from_body(&tx.ambient().ids.body()),
        thread: to.clone(),
        // Nobody runs the copy.
        status: if origin.status == Status::Running { Status::Stopped } else { origin.status },
        cancel: None,
        parent_step: None,
        ..origin.clone()
    };
    executions::insert(tx, &copy)?;
    let tenant = copy.scope.scope.tenant.clone();
    if let Err((ns, superstep)) = whole::copy(tx, &tenant, &origin.id, &copy.id)? {
        return Err(DurableError::Damaged { execution: origin.id, ns, superstep });
    }
    let draft = EventDraft::internal("execution.copied", json!({ "from": origin.id }));
    tx.append_event(&copy.scope, Some(&copy.id), None, draft)?;
    Ok(copy)
}

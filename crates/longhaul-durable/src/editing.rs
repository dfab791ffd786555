//! Changing a thread by hand: its state, or its being there at all.
//!
//! Invariant: nothing is changed on a thread that somebody is at work on.

use std::sync::Arc;

use longhaul_core::{EventDraft, ExecutionId, Scope, ThreadId};
use longhaul_store::{Lease, Tx};
use serde_json::json;

use crate::{
    DurableError, Execution, Form, Graph, GraphState, Planned, Point, RouteError, Runtime, Status,
    checkpoint::{self, Replayed},
    flow::Route,
    limits,
    machine::{self, Finished, Position},
    records::{
        Pen,
        checkpoints::{self, NewCheckpoint},
        executions, family, whole,
    },
};

impl Runtime {
    /// Changes the state of the thread's newest execution by hand, as a checkpoint of its own (form
    /// [`Form::Edited`]). With `as_node` the execution goes on as if that node had just answered so: along its edges,
    /// branch and fan-out; a completed execution is unfinished again if they lead anywhere. Without, it goes on with
    /// the nodes that were next anyway. What tasks of the open superstep have recorded counts no more; their open
    /// waits are cancelled, and executions that they began as children are given up.
    ///
    /// # Errors
    /// [`DurableError::Lease`] while somebody is at work on the thread; [`DurableError::NoThread`];
    /// [`DurableError::Ended`]; [`DurableError::GraphChanged`]; [`DurableError::NoNode`];
    /// [`DurableError::ActsRecorded`] when a node of the open superstep has done what must not happen twice;
    /// [`DurableError::Limit`], [`DurableError::Route`], [`DurableError::State`], [`DurableError::Store`].
    pub async fn update_state<S: GraphState>(
        &self,
        graph: &Graph<S>,
        scope: &Scope,
        thread: &ThreadId,
        update: S::Update,
        as_node: Option<&str>,
        actor: &str,
    ) -> Result<Point, DurableError> {
        limits::check_update::<S>(&update)?;
        if let Some(node) = as_node.filter(|node| !graph.shape().nodes.contains_key(*node)) {
            return Err(DurableError::NoNode { graph: graph.shape().name.clone(), node: node.to_owned() });
        }
        let data = serde_json::to_string(&[[&update]]).map_err(Arc::new)?;
        let lease = Lease::acquire(self.store()?, scope, thread, self.lease_ttl).await?;
        let edit = Edit {
            graph: graph.clone(),
            scope: scope.clone(),
            thread: thread.clone(),
            data,
            as_node: as_node.map(str::to_owned),
            actor: actor.to_owned(),
        };
        let token = lease.token().clone();
        let written = self.store()?.write(move |tx| {
            tx.check_lease(&token)?;
            let execution = executions::newest(tx, &edit.scope, &edit.thread)?
                .ok_or_else(|| DurableError::NoThread { thread: edit.thread.clone() })?;
            let pen = Pen::new(execution.scope.clone(), execution.id.clone(), token);
            edit.write(tx, &pen, &execution)
        });
        let written = written.await;
        lease.release().await?;
        written
    }

    /// Removes everything that was recorded of the thread's executions; tells how many there were. Blobs that only
    /// they referred to can be swept afterwards. The event log keeps what happened.
    ///
    /// # Errors
    /// [`DurableError::Lease`] while somebody is at work on the thread; [`DurableError::Store`].
    pub async fn delete_thread(&self, scope: &Scope, thread: &ThreadId) -> Result<usize, DurableError> {
        self.delete(scope, thread, None).await
    }

    /// Removes everything that was recorded of one execution.
    ///
    /// # Errors
    /// [`DurableError::NoExecution`]; [`DurableError::Lease`] while somebody is at work on its thread;
    /// [`DurableError::Store`].
    pub async fn delete_execution(&self, scope: &Scope, execution: &ExecutionId) -> Result<(), DurableError> {
        let thread = self.execution(scope, execution).await?.thread;
        self.delete(scope, &thread, Some(execution.clone())).await.map(drop)
    }

    async fn delete(&self, scope: &Scope, thread: &ThreadId, only: Option<ExecutionId>) -> Result<usize, DurableError> {
        let lease = Lease::acquire(self.store()?, scope, thread, self.lease_ttl).await?;
        let (of, name, token) = (scope.clone(), thread.clone(), lease.token().clone());
        let written = self.store()?.write(move |tx| {
            tx.check_lease(&token)?;
            let mut gone = executions::of_thread(tx, &of, &name)?;
            gone.retain(|execution| only.as_ref().is_none_or(|only| *only == execution.id));
            gone.iter().try_for_each(|execution| delete_one(tx, execution))?;
            Ok::<_, DurableError>(gone.len())
        });
        // Also after a refusal nobody should have to wait for the lease to run out.
        let gone = written.await;
        lease.release().await?;
        gone
    }
}

/// Removes an execution and what it began as children, with an event that says so.
pub(crate) fn delete_one(tx: &mut Tx<'_>, execution: &Execution) -> Result<(), DurableError> {
    let tenant = &execution.scope.scope.tenant;
    for member in family::members(tx, tenant, &execution.id)? {
        whole::delete(tx, tenant, &member)?;
    }
    let data = json!({ "thread": execution.thread, "graph": execution.graph, "status": execution.status.as_str() });
    tx.append_event(&execution.scope, Some(&execution.id), None, EventDraft::internal("execution.deleted", data))?;
    Ok(())
}

struct Edit<S: GraphState> {
    graph: Graph<S>,
    scope: Scope,
    thread: ThreadId,
    /// The update, in the form of a delta.
    data: String,
    as_node: Option<String>,
    actor: String,
}

impl<S: GraphState> Edit<S> {
    fn write(self, tx: &mut Tx<'_>, pen: &Pen, execution: &Execution) -> Result<Point, DurableError> {
        if execution.cancel.is_some() || matches!(execution.status, Status::Cancelled | Status::Abandoned) {
            return Err(DurableError::Ended { execution: execution.id.clone(), status: execution.status });
        }
        self.graph.check_same(execution)?;
        let log = checkpoints::log(tx, pen.tenant(), pen.execution(), "", u64::MAX, false)?;
        let replayed = checkpoint::replay::<S>(&execution.id, "", &log, None)?
            .ok_or_else(|| DurableError::NoCheckpoint { execution: execution.id.clone(), superstep: 0 })?;
        let Replayed { mut state, position: before, chain, .. } = replayed;
        let superstep = before.superstep + 1;
        let acts = whole::acts(tx, pen.tenant(), pen.execution(), superstep)?;
        if !acts.is_empty() {
            return Err(DurableError::ActsRecorded { execution: execution.id.clone(), superstep, acts });
        }
        for update in checkpoint::read_updates::<S>(&self.data).map_err(Arc::new)? {
            state.apply(update);
        }
        limits::check_state::<S>(&state)?;
        let position = self.position(before, &state)?;
        let is_done = position.frontier.is_empty();
        let frontier = serde_json::to_string(&position).map_err(Arc::new)?;
        let chain = checkpoint::chain_next(&chain, Form::Edited, &self.data, &frontier);
        let nodes = self.as_node.clone().unwrap_or_else(|| "edited".to_owned());
        let (data, chain) = (self.data, *chain.as_bytes());
        pen.insert_checkpoint(tx, "", NewCheckpoint { superstep, nodes, frontier, form: Form::Edited, data, chain })?;
        pen.end_family(tx, Status::Abandoned)?;
        let (status, kind) = match is_done {
            true => (Status::Completed, "execution.completed"),
            false => (Status::Stopped, "execution.stopped"),
        };
        let draft = json!({ "superstep": superstep, "actor": self.actor, "as_node": self.as_node });
        let draft = EventDraft::internal("execution.edited", draft);
        tx.append_event(pen.scope(), Some(pen.execution()), None, draft)?;
        if execution.status != status {
            pen.set_status(tx, status, None, kind, superstep)?;
        }
        Ok(Point::new(&execution.id, superstep))
    }

    fn position(&self, before: Position, state: &S) -> Result<Position, RouteError> {
        let Some(node) = &self.as_node else { return Ok(Position { superstep: before.superstep + 1, ..before }) };
        let routes = self.graph.routes(node, &Route::default(), state)?;
        let planned = Planned { node: node.as_str().into(), input: None };
        let as_if = Position { frontier: vec![planned], ..before };
        machine::close(self.graph.shape(), &as_if, &[Finished { task: 0, routes }])
    }
}

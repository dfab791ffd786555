//! The driver: carries out what `position` decides, one superstep after the other, under a lease.
//!
//! It owns the order of I/O around a node's code, and nothing of what nodes mean. Invariants: closing a superstep is
//! one fenced transaction; between two transactions the process may die at any point and the next run goes on.

use std::{any::Any, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures::FutureExt;
use longhaul_core::{Ambient, Digest, EventDraft, ExecutionId, TaskScope, ThreadId, limits::SUPERSTEPS_MAX};
use longhaul_store::{Lease, Store, StoreError};
use serde_json::json;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use crate::{
    DurableError, Execution, Graph, GraphState, News, NodeContext, NodeError, PendingEffect, Progress, Resources,
    Status,
    checkpoint::{self, Sealed},
    context::{AtClose, Inner},
    flow::{Answer, Planned},
    machine::{self, Action, Finished, Position, Signals},
    records::{self, CheckpointRow, Form, Pen},
    shape::{END, START},
};

/// How a run behaves.
#[derive(Clone)]
pub struct RunOptions<S> {
    /// Ends the run at once: the node in flight is dropped, what it recorded stays.
    pub cancel: CancellationToken,
    /// The live objects that nodes need.
    pub resources: Resources,
    /// Asked at each boundary between supersteps, also before the first: ends the run where it says so.
    pub stop_when: Option<StopWhen<S>>,
    /// Most supersteps of the execution, all runs together.
    pub supersteps_max: u64,
}

/// A state at which a run ends.
pub type StopWhen<S> = Arc<dyn Fn(&S) -> bool + Send + Sync>;

impl<S> Default for RunOptions<S> {
    fn default() -> Self {
        Self {
            cancel: CancellationToken::new(),
            resources: Resources::new(),
            stop_when: None,
            supersteps_max: SUPERSTEPS_MAX,
        }
    }
}

/// How a run ended. All but `Completed` go on with the next run.
#[derive(Debug, Clone)]
pub enum Outcome<S> {
    /// The execution is complete.
    Completed(S),
    /// `stop_when` said so.
    Stopped(S),
    /// The run was cancelled.
    Cancelled,
    /// Acts of unknown outcome: say of each what happened, with [`Runtime::reconcile`].
    NeedsReconcile(Vec<PendingEffect>),
    /// A node failed; the next run tries it again.
    Failed {
        /// The node.
        node: String,
        /// Its superstep.
        superstep: u64,
        /// Why.
        error: NodeError,
    },
}

/// Runs graphs on a store. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Runtime {
    pub(crate) store: Store,
    pub(crate) ambient: Ambient,
    pub(crate) lease_ttl: Duration,
    progress: broadcast::Sender<Progress>,
}

/// An execution in the hands of a run.
struct Run<S> {
    pen: Pen,
    thread: ThreadId,
    position: Position,
    state: S,
}

/// What one superstep came to.
enum Superstep<S> {
    Closed(S, Position),
    Cancelled,
    NeedsReconcile(Vec<PendingEffect>),
    Failed(NodeError),
}

impl Runtime {
    /// A runtime on this store, opened with [`crate::MIGRATIONS`].
    #[must_use]
    pub fn new(store: Store, ambient: Ambient) -> Self {
        let (progress, _) = broadcast::channel(1024);
        Self { store, ambient, lease_ttl: Duration::from_secs(30), progress }
    }

    /// Live news of this runtime's runs. A watcher that lags behind misses some.
    #[must_use]
    pub fn progress(&self) -> broadcast::Receiver<Progress> {
        self.progress.subscribe()
    }

    /// Goes on with the unfinished execution of the thread, or starts one with `initial` where there is none. Holds
    /// the thread's lease meanwhile. Dropping the future is like a crash: nothing recorded is lost.
    ///
    /// # Errors
    /// [`DurableError::Lease`] when somebody else is at work on the thread, [`DurableError::GraphChanged`],
    /// [`DurableError::Diverged`], [`DurableError::Limit`], [`DurableError::Supersteps`], [`DurableError::Store`].
    pub async fn run<S: GraphState>(
        &self,
        graph: &Graph<S>,
        scope: &TaskScope,
        thread: &ThreadId,
        initial: S,
        options: RunOptions<S>,
    ) -> Result<Outcome<S>, DurableError> {
        let lease = Lease::acquire(&self.store, &scope.scope, thread, self.lease_ttl).await?;
        let outcome = self.run_leased(graph, scope, thread, initial, &options, &lease).await;
        let released = lease.release().await;
        let outcome = outcome?;
        released?;
        Ok(outcome)
    }

    async fn run_leased<S: GraphState>(
        &self,
        graph: &Graph<S>,
        scope: &TaskScope,
        thread: &ThreadId,
        initial: S,
        options: &RunOptions<S>,
        lease: &Lease,
    ) -> Result<Outcome<S>, DurableError> {
        let (of, name) = (scope.scope.clone(), thread.clone());
        let newest = self.store.read(move |read| records::newest(read, &of, &name)).await?;
        let mut run = match newest.filter(|execution| !execution.status.is_finished()) {
            Some(execution) => self.resume(graph, execution, lease).await?,
            None => self.start(graph, scope, thread, initial, lease).await?,
        };
        loop {
            let signals = Signals {
                cancelled: options.cancel.is_cancelled(),
                stop: options.stop_when.as_ref().is_some_and(|stop| stop(&run.state)),
                supersteps_max: options.supersteps_max,
            };
            let (superstep, node) = match machine::plan(&run.position, signals) {
                Action::Run(superstep) => (superstep, next_of(&run.position).to_owned()),
                Action::Complete => return Ok(Outcome::Completed(run.state)),
                Action::Stop => {
                    self.end(&run, Status::Stopped, None).await?;
                    return Ok(Outcome::Stopped(run.state));
                }
                Action::Cancel => {
                    self.end(&run, Status::Stopped, None).await?;
                    return Ok(Outcome::Cancelled);
                }
                Action::Exhausted => {
                    let supersteps_max = options.supersteps_max;
                    let error = DurableError::Supersteps { execution: run.pen.execution.clone(), supersteps_max };
                    self.end(&run, Status::Failed, Some(error.to_string())).await?;
                    return Err(error);
                }
            };
            match self.superstep(graph, &run, superstep, &node, options).await? {
                Superstep::Closed(state, position) => (run.state, run.position) = (state, position),
                Superstep::Cancelled => {
                    self.end(&run, Status::Stopped, None).await?;
                    return Ok(Outcome::Cancelled);
                }
                Superstep::NeedsReconcile(pending) => {
                    self.end(&run, Status::Stopped, None).await?;
                    return Ok(Outcome::NeedsReconcile(pending));
                }
                Superstep::Failed(error) => {
                    // Without the lease nothing may be written, not even that.
                    self.end(&run, Status::Failed, Some(chain(&error))).await?;
                    return Ok(Outcome::Failed { node, superstep, error });
                }
            }
        }
    }

    async fn start<S: GraphState>(
        &self,
        graph: &Graph<S>,
        scope: &TaskScope,
        thread: &ThreadId,
        initial: S,
        lease: &Lease,
    ) -> Result<Run<S>, DurableError> {
        let Sealed { state, json, digest } = checkpoint::seal_initial(&initial)?;
        let position = graph.start(&state)?;
        let now = self.ambient.clock.now();
        let execution = Execution {
            id: ExecutionId::from_body(&self.ambient.ids.body()),
            scope: scope.clone(),
            thread: thread.clone(),
            graph: graph.shape().name.clone(),
            graph_version: graph.shape().version,
            fingerprint: graph.shape().fingerprint(),
            status: Status::Running,
            error: None,
            forked_from: None,
            started_at: now,
            updated_at: now,
        };
        let pen = Pen { scope: scope.clone(), execution: execution.id.clone(), token: lease.token().clone() };
        let first = CheckpointRow {
            superstep: 0,
            node: START.to_owned(),
            next: next_of(&position).to_owned(),
            form: Form::Full,
            data: json,
            digest,
        };
        let writer = pen.clone();
        let event = json!({ "graph": execution.graph, "version": execution.graph_version, "thread": thread });
        self.store
            .write(move |tx| {
                writer.fenced(tx)?;
                records::insert_execution(tx, &execution)?;
                writer.insert_checkpoint(tx, &first)?;
                let draft = EventDraft::internal("execution.started", event);
                tx.append_event(&writer.scope, Some(&writer.execution), None, draft).map(drop)
            })
            .await?;
        Ok(Run { pen, thread: thread.clone(), position, state })
    }

    async fn resume<S: GraphState>(
        &self,
        graph: &Graph<S>,
        execution: Execution,
        lease: &Lease,
    ) -> Result<Run<S>, DurableError> {
        if execution.fingerprint != graph.shape().fingerprint() {
            return Err(DurableError::GraphChanged {
                thread: execution.thread,
                recorded: graph_name(&execution.graph, execution.graph_version, &execution.fingerprint),
                current: graph_name(&graph.shape().name, graph.shape().version, &graph.shape().fingerprint()),
            });
        }
        let (state, position) = self.load::<S>(&execution.scope.scope, &execution.id, None).await?;
        let Execution { id, scope, thread, .. } = execution;
        let pen = Pen { scope, execution: id, token: lease.token().clone() };
        let (writer, superstep) = (pen.clone(), position.superstep);
        self.store
            .write(move |tx| {
                writer.fenced(tx)?;
                writer.set_status(tx, Status::Running, None, "execution.resumed", superstep)
            })
            .await?;
        Ok(Run { pen, thread, position, state })
    }

    async fn superstep<S: GraphState>(
        &self,
        graph: &Graph<S>,
        run: &Run<S>,
        superstep: u64,
        node: &str,
        options: &RunOptions<S>,
    ) -> Result<Superstep<S>, DurableError> {
        let reader = run.pen.clone();
        let (recorded, pending) = self
            .store
            .read(move |read| {
                let tenant = &reader.scope.scope.tenant;
                let recorded = records::steps(read, tenant, &reader.execution, superstep)?;
                Ok::<_, StoreError>((recorded, records::pending(read, tenant, &reader.execution)?))
            })
            .await?;
        if !pending.is_empty() {
            return Ok(Superstep::NeedsReconcile(pending));
        }
        let context = NodeContext::new(Inner {
            store: self.store.clone(),
            ambient: self.ambient.clone(),
            pen: run.pen.clone(),
            thread: run.thread.clone(),
            node: node.to_owned(),
            superstep,
            cancel: options.cancel.clone(),
            resources: options.resources.clone(),
            progress: self.progress.clone(),
            recorded,
            asked: Default::default(),
        });
        context.tell(News::NodeStarted);
        let update = tokio::select! {
            biased;
            () = options.cancel.cancelled() => return Ok(Superstep::Cancelled),
            update = run_node(graph, node, &context, &run.state) => update,
        };
        let (at_close, update) = match (update, context.finish()) {
            // A panic tells more than the dropped step that it leaves behind; after that, what the node may not swallow.
            (Err(error @ NodeError::Panicked { .. }), _) | (_, Err(error)) | (Err(error), Ok(_)) => {
                return Ok(Superstep::Failed(error));
            }
            (Ok(update), Ok(at_close)) => (at_close, update),
        };
        let closed = self.close(graph, run, node, update, at_close).await;
        if matches!(closed, Ok(Superstep::Closed(..))) {
            context.tell(News::NodeFinished);
        }
        closed
    }

    /// Reduces the update and commits it with the position and whatever the node adds.
    async fn close<S: GraphState>(
        &self,
        graph: &Graph<S>,
        run: &Run<S>,
        node: &str,
        update: S::Update,
        at_close: Vec<AtClose>,
    ) -> Result<Superstep<S>, DurableError> {
        let reduced = checkpoint::seal_update(node, &run.state, &update).and_then(|sealed| {
            let routes = graph.routes(node, &Default::default(), &sealed.state)?;
            let position = machine::close(graph.shape(), &run.position, &[Finished { task: 0, routes }])?;
            Ok((sealed, position))
        });
        let (Sealed { state, json, digest }, position) = match reduced {
            Ok(reduced) => reduced,
            Err(error) => return Ok(Superstep::Failed(error)),
        };
        let row = checkpoint_row(&position, node, json, digest);
        let (pen, superstep, complete) = (run.pen.clone(), position.superstep, position.frontier.is_empty());
        let written = self.store.write(move |tx| {
            pen.fenced(tx)?;
            for add in at_close {
                add(tx)?;
            }
            pen.insert_checkpoint(tx, &row)?;
            if complete {
                pen.set_status(tx, Status::Completed, None, "execution.completed", superstep)?;
            }
            Ok::<_, StoreError>(())
        });
        written.await?;
        Ok(Superstep::Closed(state, position))
    }

    /// Says how the run ended.
    async fn end<S>(&self, run: &Run<S>, status: Status, error: Option<String>) -> Result<(), DurableError> {
        let (pen, superstep) = (run.pen.clone(), run.position.superstep);
        let kind = if status == Status::Failed { "execution.failed" } else { "execution.stopped" };
        self.store
            .write(move |tx| {
                pen.fenced(tx)?;
                pen.set_status(tx, status, error.as_deref(), kind, superstep)
            })
            .await
            .map_err(DurableError::Store)
    }
}

/// One node only: a place holder for the driving half, which keeps the whole frontier.
pub(crate) fn next_of(position: &Position) -> &str {
    position.frontier.first().map_or(END, |planned| &*planned.node)
}

/// The other way round.
pub(crate) fn position_of(superstep: u64, next: &str) -> Position {
    let frontier = if next == END { Vec::new() } else { vec![Planned { node: next.into(), input: None }] };
    Position { superstep, frontier, ..Position::default() }
}

/// `harness 1 (3fa2b41c)`: two graphs of one version may still differ in shape.
fn graph_name(name: &str, version: u32, fingerprint: &Digest) -> String {
    let hex = fingerprint.hex();
    format!("{name} {version} ({})", hex.split_at(8).0)
}

fn checkpoint_row(position: &Position, node: &str, json: String, digest: Digest) -> CheckpointRow {
    CheckpointRow {
        superstep: position.superstep,
        node: node.to_owned(),
        next: next_of(position).to_owned(),
        form: Form::Delta,
        data: json,
        digest,
    }
}

async fn run_node<S: GraphState>(
    graph: &Graph<S>,
    node: &str,
    context: &NodeContext,
    state: &S,
) -> Result<S::Update, NodeError> {
    // Unwind safety: the node's copies of state and context are dropped with it.
    let call = AssertUnwindSafe(async {
        match graph.run(node, context.clone(), Arc::new(state.clone()), None) {
            Some(work) => work.await.map(|Answer { mut updates, .. }| updates.remove(0)),
            // A checked graph leads only to its own nodes, and its fingerprint to no other graph's.
            None => Err(NodeError::Panicked { message: format!("there is no node {node}") }),
        }
    });
    call.catch_unwind().await.unwrap_or_else(|panic| Err(NodeError::Panicked { message: words_of(&*panic) }))
}

fn words_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}

/// An error and what lies beneath it, in one line.
fn chain(error: &NodeError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text.chars().take(4000).collect()
}

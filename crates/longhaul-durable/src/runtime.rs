//! Running graphs: how a run begins, what it may come to, how it ends.
//!
//! It owns the lease around a run and the last word on an execution; what happens in between is the frame's. Invariant:
//! a run that has not said how it ended can be gone on with by the next, on any machine.

use std::{sync::Arc, time::Duration};

use longhaul_core::{Ambient, ExecutionId, TaskScope, ThreadId, limits::SUPERSTEPS_MAX};
use longhaul_store::{Lease, Store};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::{
    DurableError, GivenAnswer, Graph, GraphState, NodeError, PendingEffect, Progress, Resources, Status, WaitInfo,
    active::Active,
    beginning::{Begun, Plan},
    checkpoint,
    ending::Next,
    frame::{self, Beginning, Frame, How, Loaded, LoopEnd, Role},
    observe::{self, Observed, Owner, Watching},
    queue::QUEUE_MAX,
    records::Pen,
    replay::Script,
    run::{Journal, Run},
    timers,
};

/// How a run behaves.
#[derive(Clone)]
pub struct RunOptions<S> {
    /// Ends the run at once: the nodes in flight are dropped, what they recorded stays.
    pub cancel: CancellationToken,
    /// Ends the run at the next boundary between supersteps.
    pub stop: CancellationToken,
    /// The live objects that nodes need.
    pub resources: Resources,
    /// Asked at each boundary between supersteps, also before the first: ends the run where it says so.
    pub stop_when: Option<StopWhen<S>>,
    /// Most supersteps of the execution, all runs together, and of each subgraph.
    pub supersteps_max: u64,
    /// An answer for one of the thread's waits, accepted in the transaction with which the run begins. Repeated after
    /// the execution's end, it begins no other.
    pub answer: Option<GivenAnswer>,
    /// When there is nothing left but timers to wait for, waits for them and goes on, keeping the thread, instead of
    /// ending with [`Outcome::Waiting`].
    pub await_timers: bool,
}

/// A state at which a run ends.
pub type StopWhen<S> = Arc<dyn Fn(&S) -> bool + Send + Sync>;

impl<S> Default for RunOptions<S> {
    fn default() -> Self {
        Self {
            cancel: CancellationToken::new(),
            stop: CancellationToken::new(),
            resources: Resources::new(),
            stop_when: None,
            supersteps_max: SUPERSTEPS_MAX,
            answer: None,
            await_timers: false,
        }
    }
}

/// How a run ended. All but `Completed` go on with the next run, unless the execution itself was cancelled.
#[derive(Debug, Clone)]
pub enum Outcome<S> {
    /// The execution is complete.
    Completed(S),
    /// `stop_when` said so, or the runtime is draining.
    Stopped(S),
    /// The run was cancelled, or the execution with [`Runtime::cancel`].
    Cancelled,
    /// Nothing can go on before one of these is answered.
    Waiting(Vec<WaitInfo>),
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

/// Runs graphs. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Runtime {
    pub(crate) store: Option<Store>,
    pub(crate) ambient: Ambient,
    pub(crate) lease_ttl: Duration,
    pub(crate) active: Active,
    pub(crate) queue_max: u32,
    pub(crate) observers: Vec<Watching>,
    /// What stands in for the outside world, in a replay of a case.
    pub(crate) script: Option<Arc<Script>>,
    progress: broadcast::Sender<Progress>,
}

impl Runtime {
    /// A runtime that records everything in this store, opened with [`crate::MIGRATIONS`].
    #[must_use]
    pub fn new(store: Store, ambient: Ambient) -> Self {
        Self::with(Some(store), ambient)
    }

    /// A runtime that keeps nothing: steps just run, a run that has ended cannot be gone on with, and what needs a
    /// store is refused. For the same guarantees within one process take a store in memory.
    #[must_use]
    pub fn ephemeral(ambient: Ambient) -> Self {
        Self::with(None, ambient)
    }

    fn with(store: Option<Store>, ambient: Ambient) -> Self {
        let (progress, _) = broadcast::channel(1024);
        Self {
            store,
            ambient,
            lease_ttl: Duration::from_secs(30),
            active: Active::default(),
            queue_max: QUEUE_MAX,
            observers: Vec::new(),
            script: None,
            progress,
        }
    }

    /// The same runtime with another time after which a silent host loses its threads; 30 s unless stated.
    #[must_use]
    pub fn with_lease_ttl(mut self, ttl: Duration) -> Self {
        self.lease_ttl = ttl;
        self
    }

    /// The same runtime with another bound on the entries that one tenant may have in the queue, whatever they wait for;
    /// [`crate::QUEUE_MAX`] unless stated.
    #[must_use]
    pub fn with_queue_max(mut self, entries_max: u32) -> Self {
        self.queue_max = entries_max;
        self
    }

    /// Live news of this runtime's runs. A watcher that lags behind misses some.
    #[must_use]
    pub fn progress(&self) -> broadcast::Receiver<Progress> {
        self.progress.subscribe()
    }

    /// Lets every run of this runtime and its clones finish the supersteps they are in, and begins nothing new. Returns
    /// once all have ended, with [`Outcome::Stopped`] unless they came to another end.
    pub async fn drain(&self) {
        self.active.drain().await;
    }

    pub(crate) fn store(&self) -> Result<&Store, DurableError> {
        self.store.as_ref().ok_or(DurableError::KeepsNothing)
    }

    /// Goes on with the unfinished execution of the thread, or starts one with `initial` where there is none. Holds
    /// the thread's lease meanwhile. Dropping the future is like a crash: nothing recorded is lost.
    ///
    /// After an error the execution may have completed all the same, if the store's last answer did not arrive; another
    /// `run` would then start the next one. Whoever must not begin twice asks [`Self::find`] first, or enqueues with a
    /// key.
    ///
    /// # Errors
    /// [`DurableError::Lease`] when somebody else is at work on the thread, [`DurableError::ThreadTaken`] when another
    /// user has an unfinished execution there, [`DurableError::MissingResources`], [`DurableError::GraphChanged`],
    /// [`DurableError::Damaged`], [`DurableError::Diverged`], [`DurableError::Limit`], [`DurableError::Supersteps`],
    /// [`DurableError::Draining`], [`DurableError::Store`]; those of [`Self::continue_with`] for an answer.
    pub async fn run<S: GraphState>(
        &self,
        graph: &Graph<S>,
        scope: &TaskScope,
        thread: &ThreadId,
        initial: S,
        options: RunOptions<S>,
    ) -> Result<Outcome<S>, DurableError> {
        let missing = graph.missing_resources(&options.resources);
        // In a replay of a case nothing live is used, unless a node does so outside of its steps.
        if !missing.is_empty() && self.script.is_none() {
            return Err(DurableError::MissingResources { missing });
        }
        match &self.store {
            Some(store) => {
                let plan = Plan::new(self, graph, scope, thread, initial, options.answer.clone());
                Box::pin(self.run_recorded(store, graph, plan, options)).await
            }
            None => Box::pin(self.run_unrecorded(graph, scope, thread, initial, options)).await,
        }
    }

    async fn run_unrecorded<S: GraphState>(
        &self,
        graph: &Graph<S>,
        scope: &TaskScope,
        thread: &ThreadId,
        initial: S,
        options: RunOptions<S>,
    ) -> Result<Outcome<S>, DurableError> {
        if options.answer.is_some() {
            return Err(DurableError::KeepsNothing);
        }
        let execution = ExecutionId::from_body(&self.ambient.ids.body());
        let place = self.active.enter(execution.clone(), &options.cancel)?;
        let beginning = frame::begin(None, graph, initial, false)?;
        let span = observe::execution_span(Owner { scope, execution: &execution }, &graph.shape().name, thread);
        let run = self.shared(scope.clone(), execution, thread.clone(), None, &options, &place);
        let mut frame = Frame::begun(run, graph.clone(), "".into(), beginning, Role::Root);
        frame.stop_when = options.stop_when.clone();
        let LoopEnd { how, .. } = frame.drive().instrument(span).await?;
        Ok(match how {
            How::Complete { .. } => Outcome::Completed(Arc::unwrap_or_clone(frame.state)),
            How::Stopped => Outcome::Stopped(Arc::unwrap_or_clone(frame.state)),
            How::Cancelled => Outcome::Cancelled,
            How::Suspended => Outcome::Waiting(Vec::new()),
            How::Exhausted => return Err(frame.exhausted()),
            How::Failed { node, superstep, error } => Outcome::Failed { node, superstep, error },
        })
    }

    pub(crate) async fn run_recorded<S: GraphState>(
        &self,
        store: &Store,
        graph: &Graph<S>,
        plan: Plan<S>,
        options: RunOptions<S>,
    ) -> Result<Outcome<S>, DurableError> {
        self.active.check_open()?;
        let (lease, begun) = plan.begin(store).await?;
        self.go_on(store, graph, lease, begun, options).await
    }

    /// Runs what has been begun to its end.
    pub(crate) async fn go_on<S: GraphState>(
        &self,
        store: &Store,
        graph: &Graph<S>,
        lease: Lease,
        begun: Begun<S>,
        options: RunOptions<S>,
    ) -> Result<Outcome<S>, DurableError> {
        let (pen, thread, loaded) = match begun {
            Begun::Running { pen, thread, loaded } => (pen, thread, loaded),
            Begun::Cancelled => return Ok(Outcome::Cancelled),
            Begun::NeedsReconcile(pending) => return Ok(Outcome::NeedsReconcile(pending)),
            Begun::Finished(known) if known.status == Status::Completed => {
                return Ok(Outcome::Completed(self.load(&known.scope.scope, &known.id, None).await?.state));
            }
            Begun::Finished(_) => return Ok(Outcome::Cancelled),
            Begun::Refused(error) => return Err(*error),
        };
        let execution = pen.execution().clone();
        let span =
            observe::execution_span(Owner { scope: pen.scope(), execution: &execution }, &graph.shape().name, &thread);
        self.tell_observers(|| Observed::Began { thread: thread.clone(), execution: execution.clone() });
        let driving = Box::pin(self.drive(store, graph, pen, thread.clone(), *loaded, options));
        let outcome = driving.instrument(span.clone()).await;
        let word = observe::outcome(&outcome);
        observe::mark_ended(&span, word);
        self.tell_observers(|| Observed::Ended { thread: thread.clone(), execution: execution.clone(), outcome: word });
        if outcome.is_err() {
            // The run's own error is the one worth telling; a lease that was lost or lies in a dead store cannot be given back.
            let _ = lease.release().await;
        }
        outcome
    }

    async fn drive<S: GraphState>(
        &self,
        store: &Store,
        graph: &Graph<S>,
        pen: Pen,
        thread: ThreadId,
        loaded: Result<Beginning<S>, Loaded>,
        options: RunOptions<S>,
    ) -> Result<Outcome<S>, DurableError> {
        let place = self.active.enter(pen.execution().clone(), &options.cancel)?;
        self.active.watch(store, &pen.scope().scope.tenant);
        let journal = Journal { store: store.clone(), pen: pen.clone() };
        let (scope, execution) = (pen.scope().clone(), pen.execution().clone());
        let run = self.shared(scope, execution.clone(), thread, Some(journal.clone()), &options, &place);
        let mut frame = match loaded {
            Ok(beginning) => Frame::begun(run.clone(), graph.clone(), "".into(), beginning, Role::Root),
            Err(loaded) => {
                let replayed = checkpoint::replay(&execution, "", &loaded.log, None)?
                    .ok_or_else(|| DurableError::NoCheckpoint { execution: execution.clone(), superstep: 0 })?;
                Frame::resumed(run.clone(), graph.clone(), "".into(), replayed, loaded.open, Role::Root)
            }
        };
        loop {
            frame.stop_when = options.stop_when.clone();
            let end = frame.drive().await?;
            match frame.end(&journal, &place, end, options.await_timers).await? {
                Next::Ended(outcome) => return outcome,
                // An answer came while others of the superstep were still at work.
                Next::Again => {}
                Next::At(due) => {
                    timers::until_or_asked(store, due, [place.cancel(), self.active.stopping(), &options.stop]).await;
                }
            }
            frame = frame.read_again(&journal).await?;
        }
    }

    fn tell_observers(&self, seen: impl Fn() -> Observed) {
        self.observers.iter().for_each(|watching| watching.tell(seen()));
    }

    fn shared<S>(
        &self,
        scope: TaskScope,
        execution: ExecutionId,
        thread: ThreadId,
        journal: Option<Journal>,
        options: &RunOptions<S>,
        place: &crate::active::Entered,
    ) -> Arc<Run> {
        Arc::new(Run {
            scope,
            execution,
            thread,
            ambient: self.ambient.clone(),
            runtime: self.clone(),
            journal,
            cancel: place.cancel().clone(),
            stopping: [self.active.stopping().clone(), options.stop.clone()],
            resources: options.resources.clone(),
            progress: self.progress.clone(),
            supersteps_max: options.supersteps_max,
        })
    }
}

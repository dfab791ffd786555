//! A level of a graph in flight: the graph itself, or a subgraph inside a task.
//!
//! It owns the loop of supersteps: what `machine` plans is run, what the tasks came to is recorded and closed. Which
//! execution it is, and how a run begins and ends, is the business of `runtime`. Invariants: closing a superstep is one
//! fenced transaction; between two transactions the process may die at any point and the next run goes on.

use std::sync::Arc;

use futures::future::BoxFuture;
use longhaul_core::Digest;
use longhaul_store::{ReadTx, StoreError};
use tracing::Instrument;

use crate::{
    DurableError, Form, Graph, GraphState, NodeContext, NodeError, StopWhen,
    checkpoint::{self, Replayed, Weight},
    limits,
    machine::{self, Action, Position, Signals},
    observe,
    open::Open,
    pausing::Unanswered,
    records::{
        Pen,
        checkpoints::{self, Log, NewCheckpoint},
    },
    run::Run,
    shape::START,
};

/// A frame in the hands of a run.
pub(crate) struct Frame<S: GraphState> {
    pub(crate) run: Arc<Run>,
    pub(crate) graph: Graph<S>,
    pub(crate) ns: Arc<str>,
    pub(crate) state: Arc<S>,
    pub(crate) position: Position,
    pub(crate) chain: Digest,
    pub(crate) weight: Weight,
    /// What earlier runs recorded of the superstep that was open when this run began.
    pub(crate) open: Open,
    pub(crate) stop_when: Option<StopWhen<S>>,
    pub(crate) role: Role,
}

/// What a frame is for.
pub(crate) enum Role {
    /// It is the execution: with its last superstep the execution is complete.
    Root,
    /// It is inside a task.
    Inner {
        /// Its first row, until that is written together with the first superstep.
        first: Option<NewCheckpoint>,
        /// The updates of all its supersteps, if the task wants them.
        kept: Option<Vec<String>>,
        /// Its last row and what belongs to it: recorded with the task around it.
        last: Vec<crate::context::AtClose>,
    },
}

/// How the loop ended.
pub(crate) enum How {
    /// Nothing is left; a root's last transaction has said so and given the lease back, unless nothing had to be done.
    Complete { recorded: bool },
    /// Asked to, at a boundary.
    Stopped,
    /// Asked to, at once.
    Cancelled,
    /// Too many supersteps.
    Exhausted,
    /// Nothing can go on before an answer comes.
    Suspended,
    /// A node failed.
    Failed { node: String, superstep: u64, error: NodeError },
}

/// The end of a loop, and all that is waited for.
pub(crate) struct LoopEnd {
    pub(crate) how: How,
    pub(crate) waits: Vec<Unanswered>,
}

impl From<How> for LoopEnd {
    fn from(how: How) -> Self {
        Self { how, waits: Vec::new() }
    }
}

/// What a resumed frame is made of.
pub(crate) struct Loaded {
    pub(crate) log: Log,
    pub(crate) open: Open,
}

impl Loaded {
    /// Reads a frame; `whole` asks for all its updates. A frame inside a task may have steps before it has a row.
    pub(crate) fn read(read: &ReadTx<'_>, pen: &Pen, ns: &str, whole: bool) -> Result<Self, StoreError> {
        let log = checkpoints::log(read, pen.tenant(), pen.execution(), ns, u64::MAX, whole)?;
        let superstep = log.rows.last().map_or(0, |last| last.superstep);
        let open = Open::read(read, pen, ns, superstep + 1)?;
        Ok(Self { log, open })
    }
}

/// The beginning of a frame: its state as it is read back, where it stands, and its first row.
pub(crate) struct Beginning<S> {
    pub(crate) state: S,
    pub(crate) position: Position,
    pub(crate) row: Option<NewCheckpoint>,
}

/// Begins a frame with this state. A frame that is kept gets a first row; one that `shares` its parent's state does not
/// repeat it there.
pub(crate) fn begin<S: GraphState>(
    run: Option<(&longhaul_core::ExecutionId, &str)>,
    graph: &Graph<S>,
    initial: S,
    shares: bool,
) -> Result<Beginning<S>, DurableError> {
    let Some((execution, ns)) = run else {
        let position = graph.start(&initial)?;
        return Ok(Beginning { state: initial, position, row: None });
    };
    let (state, data, form) = if shares {
        (initial, String::new(), Form::Parent)
    } else {
        let json = serde_json::to_string(&initial).map_err(Arc::new)?;
        let state: S = serde_json::from_str(&json).map_err(Arc::new)?;
        limits::check_state::<S>(&state)?;
        (state, json, Form::Full)
    };
    let position = graph.start(&state)?;
    let frontier = serde_json::to_string(&position).map_err(Arc::new)?;
    let chain = checkpoint::chain_next(&checkpoint::chain_start(execution, ns), form, &data, &frontier);
    let row = NewCheckpoint { superstep: 0, nodes: START.to_owned(), frontier, form, data, chain: *chain.as_bytes() };
    Ok(Beginning { state, position, row: Some(row) })
}

impl<S: GraphState> Frame<S> {
    /// A frame that begins now.
    pub(crate) fn begun(run: Arc<Run>, graph: Graph<S>, ns: Arc<str>, beginning: Beginning<S>, role: Role) -> Self {
        let (chain, bytes) = match &beginning.row {
            Some(row) => (Digest::from(row.chain), row.data.len()),
            None => (checkpoint::chain_start(&run.execution, &ns), 0),
        };
        Self {
            run,
            graph,
            ns,
            state: Arc::new(beginning.state),
            position: beginning.position,
            chain,
            weight: Weight::of_whole(bytes),
            open: Open::default(),
            stop_when: None,
            role,
        }
    }

    /// A frame that goes on.
    pub(crate) fn resumed(
        run: Arc<Run>,
        graph: Graph<S>,
        ns: Arc<str>,
        replayed: Replayed<S>,
        open: Open,
        role: Role,
    ) -> Self {
        let Replayed { state, position, chain, weight, .. } = replayed;
        Self { run, graph, ns, state: Arc::new(state), position, chain, weight, open, stop_when: None, role }
    }

    /// Whether this is a replay, and its case has nothing of the next superstep.
    fn is_beyond_script(&self) -> bool {
        let next = self.position.superstep + 1;
        !self.position.frontier.is_empty()
            && self.run.script().is_some_and(|script| script.stops_before(&self.run.execution, &self.ns, next))
    }

    /// Runs supersteps until nothing is left or nothing can go on.
    ///
    /// # Errors
    /// Those of the store; nothing of the open superstep is closed then.
    pub(crate) async fn drive(&mut self) -> Result<LoopEnd, DurableError> {
        let mut recorded = false;
        loop {
            let signals = Signals {
                cancelled: self.run.cancel.is_cancelled(),
                stop: self.run.is_stopping()
                    || self.stop_when.as_ref().is_some_and(|stop| stop(&self.state))
                    || self.is_beyond_script(),
                supersteps_max: self.run.supersteps_max,
            };
            let superstep = match machine::plan(&self.position, signals) {
                Action::Run(superstep) => superstep,
                Action::Complete => return Ok(How::Complete { recorded }.into()),
                Action::Stop => return Ok(How::Stopped.into()),
                Action::Cancel => return Ok(How::Cancelled.into()),
                Action::Exhausted => return Ok(How::Exhausted.into()),
            };
            let span = observe::superstep_span(self.run.owner(), &self.ns, superstep);
            if let Some(end) = self.superstep(superstep).instrument(span).await? {
                return Ok(end);
            }
            recorded = true;
        }
    }
}

/// What a subgraph came to.
pub(crate) struct FrameEnd<C: GraphState> {
    /// Its last state.
    pub(crate) state: C,
    /// The updates of all its tasks in the order in which they were applied; only if asked for.
    pub(crate) updates: Vec<C::Update>,
}

impl NodeContext {
    /// Runs a subgraph to its end inside this task; `keep_updates` asks for [`FrameEnd::updates`], and says that
    /// `initial` is the state of the frame around it.
    pub(crate) fn run_frame<C: GraphState>(
        &self,
        child: Graph<C>,
        initial: C,
        keep_updates: bool,
    ) -> BoxFuture<'static, Result<FrameEnd<C>, NodeError>> {
        let context = self.clone();
        Box::pin(async move {
            let frame = context.frame(child, initial, keep_updates).await;
            let mut frame = frame.map_err(|source| context.fatal(in_frame(source)))?;
            let end = frame.drive().await;
            let LoopEnd { how, waits } = end.map_err(|source| context.fatal(in_frame(source)))?;
            context.add_waits(waits);
            match how {
                How::Complete { .. } => frame.into_end(&context),
                How::Suspended => Err(context.fatal(NodeError::Suspended)),
                How::Stopped => Err(context.fatal(NodeError::Stopped)),
                // The node around it is dropped for the same reason.
                How::Cancelled => std::future::pending().await,
                How::Exhausted => {
                    let execution = context.execution().clone();
                    let supersteps_max = context.0.run.supersteps_max;
                    Err(context.fatal(in_frame(DurableError::Supersteps { execution, supersteps_max })))
                }
                How::Failed { error: error @ (NodeError::NeedsReconcile { .. } | NodeError::Store(_)), .. } => {
                    Err(context.fatal(error))
                }
                How::Failed { node, superstep, error } => {
                    Err(context.fatal(NodeError::Subgraph { node, superstep, source: Arc::new(error) }))
                }
            }
        })
    }

    async fn frame<C: GraphState>(
        &self,
        graph: Graph<C>,
        initial: C,
        keep_updates: bool,
    ) -> Result<Frame<C>, DurableError> {
        let (run, ns) = (self.0.run.clone(), self.0.place.inner());
        let mut kept = keep_updates.then(Vec::new);
        let mut open = Open::default();
        if let Some(journal) = self.journal().filter(|_| self.0.earlier.resumed) {
            let (pen, name) = (journal.pen.clone(), ns.clone());
            let loaded = journal.store.read(move |read| Loaded::read(read, &pen, &name, keep_updates)).await?;
            let parent = keep_updates.then(|| initial.clone());
            if let Some(mut replayed) = checkpoint::replay(self.execution(), &ns, &loaded.log, parent)? {
                if let Some(kept) = &mut kept {
                    kept.append(&mut replayed.updates);
                }
                let role = Role::Inner { first: None, kept, last: Vec::new() };
                return Ok(Frame::resumed(run, graph, ns, replayed, loaded.open, role));
            }
            open = loaded.open;
        }
        let place = run.journal.as_ref().map(|_| (&run.execution, &*ns));
        let beginning = begin(place, &graph, initial, keep_updates)?;
        let role = Role::Inner { first: beginning.row.clone(), kept, last: Vec::new() };
        // The row itself is written with the first superstep.
        let mut frame = Frame::begun(run, graph, ns, beginning, role);
        frame.open = open;
        Ok(frame)
    }
}

impl<C: GraphState> Frame<C> {
    /// What the task around the frame gets; what belongs to the frame's last superstep is recorded with that task.
    fn into_end(self, context: &NodeContext) -> Result<FrameEnd<C>, NodeError> {
        let mut updates = Vec::new();
        if let Role::Inner { kept, last, .. } = self.role {
            for add in last {
                context.add_at_close(add);
            }
            for data in kept.unwrap_or_default() {
                let unfit = |source| NodeError::Update { node: context.node().to_owned(), source: Arc::new(source) };
                updates.extend(checkpoint::read_updates::<C>(&data).map_err(unfit)?);
            }
        }
        Ok(FrameEnd { state: Arc::unwrap_or_clone(self.state), updates })
    }
}

fn in_frame(source: DurableError) -> NodeError {
    if let DurableError::Store(error) = source {
        return NodeError::Store(error);
    }
    NodeError::Frame { source: Arc::new(source) }
}

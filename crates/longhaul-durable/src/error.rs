//! What can go wrong inside a node, and around it.

use std::{error::Error, sync::Arc};

use longhaul_core::{ExecutionId, TenantId, ThreadId, TimeMs};
use longhaul_store::{LeaseError, StoreError};

use crate::{
    AnswerSchemaError, ConflictError, EntryId, EntryStatus, LimitError, Misfit, MissingResource, RouteError, Status,
    StepId, WaitId, WaitInfo, WaitStatus,
};

/// Why a node did not finish. Nothing of its superstep was closed; recorded steps stay recorded, and the next run tries
/// again from the first step that is not.
#[derive(Debug, Clone, thiserror::Error)]
pub enum NodeError {
    /// A step's work failed.
    #[error("step {step} failed")]
    Step {
        /// The step.
        step: Box<StepId>,
        /// Why.
        #[source]
        source: Arc<dyn Error + Send + Sync>,
    },
    /// The node asks for another step than was recorded at this place.
    #[error(
        "step {ordinal} of {node} (superstep {superstep}) was recorded as {recorded:?}, but the code now asks for \
         {asked:?}: finish this execution with the release that began it, or fork an earlier checkpoint"
    )]
    Replay {
        /// The node.
        node: String,
        /// Its superstep.
        superstep: u64,
        /// Number of the step.
        ordinal: u32,
        /// The recorded name.
        recorded: String,
        /// The name asked for.
        asked: String,
    },
    /// The node finished without asking for a step that was recorded.
    #[error(
        "step {ordinal} of {node} (superstep {superstep}) was recorded as {recorded:?}, but the code now ends before \
         it: finish this execution with the release that began it, or fork an earlier checkpoint"
    )]
    ReplayShort {
        /// The node.
        node: String,
        /// Its superstep.
        superstep: u64,
        /// Number of the step.
        ordinal: u32,
        /// The recorded name.
        recorded: String,
    },
    /// A case is replayed, and it has no result for this step: nothing outside is called then.
    #[error("step {step} is not in the case that is replayed: the code now asks for more than was recorded")]
    Unrecorded {
        /// The step.
        step: Box<StepId>,
    },
    /// A case is replayed, and what was recorded ends before this step.
    #[error("the recording ends before step {step}")]
    RecordingEnds {
        /// The step.
        step: Box<StepId>,
    },
    /// A step was begun while another was being run.
    #[error("step {step} was begun while another step of the node was running: await one before the next")]
    Overlap {
        /// The second step.
        step: Box<StepId>,
    },
    /// The node's code dropped a step before it had ended.
    #[error("step {step} was dropped before it had ended: put limits of time inside the step's work")]
    Dropped {
        /// The step.
        step: Box<StepId>,
    },
    /// A step's name is empty or too long.
    #[error("{name:?} cannot name a step: use 1 to {chars_max} characters")]
    StepName {
        /// The name.
        name: String,
        /// The limit.
        chars_max: usize,
    },
    /// A step's result is too large to be recorded.
    #[error(
        "the result of step {step} takes {bytes} bytes, at most {bytes_max} are allowed: keep the content as a record \
         or blob and return its reference"
    )]
    ResultTooLarge {
        /// The step.
        step: Box<StepId>,
        /// Its size as JSON.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// A step's result cannot be written as JSON or read back from it.
    #[error("the result of step {step} is not what its type can be written to and read from")]
    Result {
        /// The step.
        step: Box<StepId>,
        /// Why.
        #[source]
        source: Arc<serde_json::Error>,
    },
    /// The node's update cannot be written as JSON, or the state it makes cannot.
    #[error("the update of {node} is not what its type can be written to and read from")]
    Update {
        /// The node.
        node: String,
        /// Why.
        #[source]
        source: Arc<serde_json::Error>,
    },
    /// The state would become too large.
    #[error("the update of {node} is refused")]
    Limit {
        /// The node.
        node: String,
        /// What is too large.
        #[source]
        source: LimitError,
    },
    /// The node's branch, or the node itself, chose a way that the graph does not have.
    #[error(transparent)]
    Route(#[from] RouteError),
    /// Two tasks of one superstep set the same field, of which only the last value is kept.
    #[error("superstep {superstep} cannot be closed")]
    Conflict {
        /// The superstep.
        superstep: u64,
        /// The field and the tasks.
        #[source]
        source: ConflictError,
    },
    /// The run was not given a live object that the node needs.
    #[error("the run was given no {resource}: add it to its resources")]
    MissingResource {
        /// Name and Rust type.
        resource: String,
    },
    /// The node took longer than its policy allows.
    #[error("{node} took longer than {limit_ms} ms{}", if *.idle { " without a sign of life: call ctx.heartbeat()" } else { "" })]
    TimedOut {
        /// The node.
        node: String,
        /// The limit.
        limit_ms: u64,
        /// Whether the limit is that on silence.
        idle: bool,
    },
    /// The node waits for an answer from outside. To be passed on with `?`; the run ends with
    /// [`crate::Outcome::Waiting`] once nothing else can go on.
    #[error("the node waits for an answer")]
    Suspended,
    /// The wait's execution was cancelled.
    #[error("the wait {wait} was cancelled")]
    WaitCancelled {
        /// The wait.
        wait: WaitId,
    },
    /// The answer fits the wait's schema and cannot be read as what the node asks for. The wait is open again.
    #[error("the answer to {wait} is not what the node asks for: answer again")]
    AnswerUnfit {
        /// The wait.
        wait: WaitId,
        /// Where and why.
        #[source]
        source: AnswerSchemaError,
    },
    /// A node of a child execution did not finish.
    #[error("the node {node} of the child {step} failed in superstep {superstep}")]
    Child {
        /// The step that runs the child.
        step: Box<StepId>,
        /// The node inside.
        node: String,
        /// Its superstep there.
        superstep: u64,
        /// Why.
        #[source]
        source: Arc<NodeError>,
    },
    /// Somebody cancelled a child execution, or gave it up.
    #[error("the child {step} was cancelled")]
    ChildCancelled {
        /// The step that runs the child.
        step: Box<StepId>,
    },
    /// A child execution could not be begun or gone on with.
    #[error("the child {step} cannot be run")]
    ChildRun {
        /// The step that runs the child.
        step: Box<StepId>,
        /// Why.
        #[source]
        source: Arc<DurableError>,
    },
    /// A wait was declared with a schema that is none, or with a default that does not fit it.
    #[error("the schema or the default answer of the wait {name:?} cannot be used")]
    WaitSchema {
        /// The wait's name.
        name: String,
        /// Where and why.
        #[source]
        source: AnswerSchemaError,
    },
    /// A subgraph ended at a boundary because the run was asked to stop.
    #[error("the run was asked to stop")]
    Stopped,
    /// An act inside has an unknown outcome, and nothing can be asked about it.
    #[error("nobody knows whether step {step} took place: say what happened, with reconcile")]
    NeedsReconcile {
        /// The step.
        step: Box<StepId>,
    },
    /// A node of a subgraph did not finish.
    #[error("the node {node} of the subgraph failed in superstep {superstep}")]
    Subgraph {
        /// The node inside.
        node: String,
        /// Its superstep there.
        superstep: u64,
        /// Why.
        #[source]
        source: Arc<NodeError>,
    },
    /// A subgraph could not be begun or gone on with.
    #[error("the subgraph cannot be run")]
    Frame {
        /// Why.
        #[source]
        source: Arc<DurableError>,
    },
    /// The runtime records nothing, so this cannot be done.
    #[error("this runtime keeps nothing: {what} needs a runtime with a store")]
    KeepsNothing {
        /// What was asked for.
        what: &'static str,
    },
    /// The node's code panicked.
    #[error("the code of the node panicked: {message}; this is a defect, please report it")]
    Panicked {
        /// The panic's message.
        message: String,
    },
    /// The store failed, or the lease was lost.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The node's own reason.
    #[error("the node gave up")]
    GaveUp {
        /// The reason.
        #[source]
        source: Arc<dyn Error + Send + Sync>,
    },
}

impl NodeError {
    /// Whether another attempt might succeed: a step failed, the node gave up or took too long.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Step { .. } | Self::GaveUp { .. } | Self::TimedOut { .. } => true,
            Self::Subgraph { source, .. } | Self::Child { source, .. } => source.may_pass(),
            // Somebody else is at work on it.
            Self::ChildRun { source, .. } => matches!(**source, DurableError::Lease(_)),
            Self::Replay { .. }
            | Self::ReplayShort { .. }
            | Self::Unrecorded { .. }
            | Self::RecordingEnds { .. }
            | Self::Overlap { .. }
            | Self::Dropped { .. }
            | Self::StepName { .. }
            | Self::ResultTooLarge { .. }
            | Self::Result { .. }
            | Self::Update { .. }
            | Self::Limit { .. }
            | Self::Route(_)
            | Self::Conflict { .. }
            | Self::MissingResource { .. }
            | Self::Suspended
            | Self::WaitCancelled { .. }
            | Self::WaitSchema { .. }
            | Self::AnswerUnfit { .. }
            | Self::ChildCancelled { .. }
            | Self::Stopped
            | Self::NeedsReconcile { .. }
            | Self::Frame { .. }
            | Self::KeepsNothing { .. }
            | Self::Panicked { .. }
            | Self::Store(_) => false,
        }
    }

    /// The node's own reason for not finishing.
    pub fn gave_up(reason: impl Error + Send + Sync + 'static) -> Self {
        Self::GaveUp { source: Arc::new(reason) }
    }
}

/// Why an execution could not be started, resumed or looked at.
#[derive(Debug, Clone, thiserror::Error)]
pub enum DurableError {
    /// Somebody else is at work on the thread.
    #[error(transparent)]
    Lease(#[from] LeaseError),
    /// The store failed, or the lease was lost.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The unfinished execution was begun by another graph, or by another version of this one.
    #[error(
        "thread {thread} was begun with {recorded}, but this is {current}: finish it with the release that began it, \
         add a migration or `compatible_with`, or abandon it{}", listed(.misfits)
    )]
    GraphChanged {
        /// The thread.
        thread: ThreadId,
        /// Name, version, shape and version of the state that began it: `harness 1 (3fa2b41c), state 1`.
        recorded: String,
        /// The same of the graph given now.
        current: String,
        /// What of the execution has no place in the graph given now.
        misfits: Vec<Misfit>,
    },
    /// The run was not given live objects that nodes of the graph declare. Nothing was begun or changed.
    #[error(
        "the run was not begun, as it is not given what its nodes need:{}\nadd them to its resources",
        .missing.iter().map(|one| format!("\n  {} needs {}", one.node, one.resource)).collect::<String>()
    )]
    MissingResources {
        /// What is missing, and which nodes need it.
        missing: Vec<MissingResource>,
    },
    /// What was recorded, or what a migration made of it, has no place in the graph.
    #[error("thread {thread} does not fit the graph{}: correct the migration, nothing was changed", listed(.misfits))]
    Misfits {
        /// The thread.
        thread: ThreadId,
        /// What has no place.
        misfits: Vec<Misfit>,
    },
    /// The graph's own migration refused.
    #[error("the migration of thread {thread} failed, nothing was changed")]
    Migration {
        /// The thread.
        thread: ThreadId,
        /// The migration's own reason.
        #[source]
        source: Arc<dyn Error + Send + Sync>,
    },
    /// The state that a migration is to change cannot be read, or not without losing something.
    #[error(
        "the state of {execution} as it was recorded cannot be read{}: give the migration the type that the state had, \
         with `migrate_from`; nothing was changed",
        .lost.as_ref().map_or_else(String::new, |path| format!(" without losing {path}"))
    )]
    OldState {
        /// The execution.
        execution: ExecutionId,
        /// What would be lost, if it can be read at all.
        lost: Option<String>,
    },
    /// Replaying the deltas does not give the state that was recorded: `apply` has changed, or the store is damaged.
    #[error(
        "the state of {execution} at superstep {superstep} cannot be rebuilt: the graph's code has changed or the \
         store is damaged; finish it with the release that began it, or fork an earlier checkpoint"
    )]
    Diverged {
        /// The execution.
        execution: ExecutionId,
        /// The superstep.
        superstep: u64,
    },
    /// A stored checkpoint is not what was written.
    #[error(
        "the checkpoint {superstep} of {execution}{} is damaged: restore a backup, or fork an earlier checkpoint",
        if .ns.is_empty() { String::new() } else { format!(" at {}", .ns) }
    )]
    Damaged {
        /// The execution.
        execution: ExecutionId,
        /// The frame; empty for the outermost.
        ns: String,
        /// The superstep.
        superstep: u64,
    },
    /// The initial state is too large.
    #[error("the initial state is refused")]
    Limit(
        #[from]
        #[source]
        LimitError,
    ),
    /// The branch at the start chose a way that the graph does not have.
    #[error(transparent)]
    Route(#[from] RouteError),
    /// The initial state cannot be written as JSON or read back.
    #[error("the initial state is not what its type can be written to and read from")]
    State(
        #[from]
        #[source]
        Arc<serde_json::Error>,
    ),
    /// The execution has taken too many supersteps.
    #[error("{execution} has taken {supersteps_max} supersteps, the most allowed: raise the limit if that is no loop")]
    Supersteps {
        /// The execution.
        execution: ExecutionId,
        /// The limit.
        supersteps_max: u64,
    },
    /// The thread has no execution.
    #[error("nothing has been run on thread {thread}")]
    NoThread {
        /// The thread.
        thread: ThreadId,
    },
    /// The execution was ended for good.
    #[error("{execution} is {}: fork it to go on from one of its checkpoints", .status.as_str())]
    Ended {
        /// The execution.
        execution: ExecutionId,
        /// How it ended.
        status: Status,
    },
    /// The graph has no such node.
    #[error("the graph {graph} has no node {node}: name one of its own")]
    NoNode {
        /// The graph.
        graph: String,
        /// The node asked for.
        node: String,
    },
    /// Changing the state now could make what must not happen twice happen again.
    #[error(
        "superstep {superstep} of {execution} is open and has acts in the ledger that must not happen twice ({}): run \
         it to its end first, or fork",
        .acts.join(", ")
    )]
    ActsRecorded {
        /// The execution.
        execution: ExecutionId,
        /// The open superstep.
        superstep: u64,
        /// The names of the acts.
        acts: Vec<String>,
    },
    /// There is no such execution for this user.
    #[error("there is no execution {execution}")]
    NoExecution {
        /// The id asked for.
        execution: ExecutionId,
    },
    /// There is no such checkpoint.
    #[error("{execution} has no checkpoint {superstep}")]
    NoCheckpoint {
        /// The execution.
        execution: ExecutionId,
        /// The superstep asked for.
        superstep: u64,
    },
    /// The thread has an execution already.
    #[error("thread {thread} has an execution already: use another thread")]
    ThreadTaken {
        /// The thread.
        thread: ThreadId,
    },
    /// There is no effect of unknown outcome under this id.
    #[error("step {step} is not waiting to be reconciled")]
    NotPending {
        /// The step.
        step: StepId,
    },
    /// There is no such wait for this tenant.
    #[error("there is no wait {wait}")]
    NoWait {
        /// The id asked for.
        wait: WaitId,
    },
    /// The wait was answered by another request, or ended without an answer.
    #[error(
        "the wait {wait} is {} since {}{}: nothing was changed",
        .status.as_str(), .at.0, .actor.as_ref().map_or_else(String::new, |actor| format!(", by {actor}"))
    )]
    AlreadyAnswered {
        /// The wait.
        wait: WaitId,
        /// How it ended.
        status: WaitStatus,
        /// Who answered, if somebody did.
        actor: Option<String>,
        /// The request that answered, if one did.
        request_id: Option<String>,
        /// When it ended.
        at: TimeMs,
    },
    /// The answer does not fit the wait's schema.
    #[error("the answer to {wait} does not fit: correct it and answer again")]
    AnswerRefused {
        /// The wait.
        wait: WaitId,
        /// Where and why.
        #[source]
        source: AnswerSchemaError,
    },
    /// The token belongs to no wait, or no longer to one.
    #[error("this token answers nothing: it was replaced, or never given out")]
    NoToken,
    /// The event's id was used for another event.
    #[error("the event {event_id:?} was delivered before with another name, correlation or payload: use a new id")]
    AnotherEvent {
        /// The id.
        event_id: String,
    },
    /// The thread has no unfinished execution.
    #[error("nothing is unfinished on {thread}")]
    NothingUnfinished {
        /// The thread.
        thread: ThreadId,
    },
    /// What is to be added to an execution is too large.
    #[error(
        "the intervention takes {bytes} bytes, at most {bytes_max} are allowed: keep the content elsewhere and name it"
    )]
    InterventionTooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// A node asks for another child than it began at this place.
    #[error(
        "the child was begun as {recorded}, but the code now asks for {asked}: finish with the release that began it"
    )]
    AnotherChild {
        /// The recorded step.
        recorded: String,
        /// The step asked for.
        asked: String,
    },
    /// Nothing, or more than one thing, waits on the thread, so that it must be said which is meant.
    #[error("{} waits are open on {thread}: name the one that is meant", .waits.len())]
    WhichWait {
        /// The thread.
        thread: ThreadId,
        /// All open waits.
        waits: Vec<WaitInfo>,
    },
    /// The tenant has as many entries in the queue as it may.
    #[error("the queue holds {entries_max} entries of {tenant}, the most allowed: wait until some are done")]
    QueueFull {
        /// The tenant.
        tenant: TenantId,
        /// The limit.
        entries_max: u32,
    },
    /// The thread is in the queue already.
    #[error("thread {thread} is in the queue already, as {entry}: wait until it is done, or use another thread")]
    ThreadQueued {
        /// The thread.
        thread: ThreadId,
        /// Its entry.
        entry: EntryId,
    },
    /// There is no such entry in the queue for this user.
    #[error("there is no entry {entry} in the queue")]
    NoEntry {
        /// The id asked for.
        entry: EntryId,
    },
    /// Only an entry that is parked can be put back, and only one that was never begun can be withdrawn.
    #[error("the entry {entry} is {}: nothing was changed", .status.as_str())]
    EntryStatus {
        /// The entry.
        entry: EntryId,
        /// How it is.
        status: EntryStatus,
    },
    /// The runtime is ending its runs.
    #[error("this runtime is ending and begins nothing new: run it elsewhere")]
    Draining,
    /// The runtime records nothing, so this cannot be done.
    #[error("this runtime keeps nothing: use a runtime with a store")]
    KeepsNothing,
}

/// `; node x …; join y …`, or nothing.
fn listed(misfits: &[Misfit]) -> String {
    misfits.iter().map(|misfit| format!("; {misfit}")).collect()
}

//! What can go wrong inside a node, and around it.

use std::{error::Error, sync::Arc};

use longhaul_core::{ExecutionId, ThreadId};
use longhaul_store::{LeaseError, StoreError};

use crate::{limits::LimitError, machine::RouteError, step::StepId};

/// Why a node did not finish. Nothing of its superstep was closed; recorded steps stay recorded, and the next run tries
/// again from the first step that is not.
#[derive(Debug, Clone, thiserror::Error)]
pub enum NodeError {
    /// A step's work failed.
    #[error("step {step} failed")]
    Step {
        /// The step.
        step: StepId,
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
    /// A step was begun while another was being run.
    #[error("step {step} was begun while another step of the node was running: await one before the next")]
    Overlap {
        /// The second step.
        step: StepId,
    },
    /// The node's code dropped a step before it had ended.
    #[error("step {step} was dropped before it had ended: put limits of time inside the step's work")]
    Dropped {
        /// The step.
        step: StepId,
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
        step: StepId,
        /// Its size as JSON.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// A step's result cannot be written as JSON or read back from it.
    #[error("the result of step {step} is not what its type can be written to and read from")]
    Result {
        /// The step.
        step: StepId,
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
    /// The node's branch chose a node outside its targets.
    #[error(transparent)]
    Route(#[from] RouteError),
    /// The run was not given a live object that the node needs.
    #[error("the run was given no {resource}: add it to its resources")]
    MissingResource {
        /// Name and Rust type.
        resource: String,
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
         or abandon it"
    )]
    GraphChanged {
        /// The thread.
        thread: ThreadId,
        /// Name, version and shape that began it: `harness 1 (3fa2b41c)`.
        recorded: String,
        /// The same of the graph given now.
        current: String,
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
    /// The initial state is too large.
    #[error("the initial state is refused")]
    Limit(#[from] LimitError),
    /// The branch at the start chose a node outside its targets.
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
    #[error("thread {thread} has an execution already: fork to a new thread")]
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
}

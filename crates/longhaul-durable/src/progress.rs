//! Live news of a run for whoever watches: it may be lost, and cannot influence anything.

use longhaul_core::{ExecutionId, ThreadId};

/// One piece of news.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// The thread.
    pub thread: ThreadId,
    /// The execution.
    pub execution: ExecutionId,
    /// The subgraphs around the node, as in [`crate::StepId::ns`]; empty for the graph itself.
    pub ns: String,
    /// The superstep.
    pub superstep: u64,
    /// Number of the node's run within the superstep, from 0.
    pub task: u32,
    /// The node.
    pub node: String,
    /// What happened.
    pub news: News,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// The node begins, perhaps not for the first time.
    NodeStarted,
    /// A step's work begins.
    StepStarted {
        /// The step's name.
        name: String,
    },
    /// A step's work is done and recorded.
    StepRecorded {
        /// The step's name.
        name: String,
        /// How long the work took.
        elapsed_ms: u64,
    },
    /// A step returned what was recorded before.
    StepReplayed {
        /// The step's name.
        name: String,
    },
    /// A step's work failed.
    StepFailed {
        /// The step's name.
        name: String,
    },
    /// The node waits for an answer from outside.
    NodeWaits,
    /// The node failed and is tried again after a while.
    NodeRetried {
        /// Number of the attempt that failed, from 1.
        attempt: u32,
        /// How long until the next.
        wait_ms: u64,
    },
    /// The node's answer is recorded.
    NodeFinished,
}

//! Live news of a run for whoever watches: it may be lost, and cannot influence anything.

use longhaul_core::{ExecutionId, ThreadId};

/// One piece of news.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// The thread.
    pub thread: ThreadId,
    /// The execution.
    pub execution: ExecutionId,
    /// The superstep.
    pub superstep: u64,
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
    /// The superstep is closed.
    NodeFinished,
}

//! What a step is called and what it may do to the outside world.

use std::{error::Error, fmt, str::FromStr, sync::Arc};

use longhaul_core::ExecutionId;
use serde::{Deserialize, Serialize};

/// Longest name of a step.
pub(crate) const STEP_NAME_CHARS_MAX: usize = 128;

/// What running a step's work twice would mean (invariant 4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Nothing: it only computes or reads, or what it changes is set back before a step runs again.
    Pure,
    /// The same as once, for a receiver that knows the key again.
    Idempotent {
        /// The key that the receiver is given; recorded with the result.
        key: String,
    },
    /// Something that must not happen twice: an intent is recorded before, a receipt after. A crash in between stops
    /// the execution until a person has said what happened.
    Once,
}

impl Effect {
    pub(crate) fn as_str(&self) -> &'static str {
        match self {
            Self::Pure => "pure",
            Self::Idempotent { .. } => "idempotent",
            Self::Once => "once",
        }
    }

    pub(crate) fn key(&self) -> Option<&str> {
        match self {
            Self::Idempotent { key } => Some(key),
            Self::Pure | Self::Once => None,
        }
    }
}

/// Names one step of one execution, for ever: `exec_01/session/3/tool:shell#12`. The same step has the same id
/// however often its node runs; it serves as an idempotency key and as a git trailer. Inside a subgraph, or in a
/// superstep of several tasks, the namespace stands before the node and the task behind the superstep:
/// `exec_01/7.0.research>look/1.3/fetch#2`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct StepId {
    /// The execution.
    pub execution: ExecutionId,
    /// The subgraphs around it, outermost first: empty, or `superstep.task.node>` for each.
    pub ns: String,
    /// The superstep as which the node runs.
    pub superstep: u64,
    /// Number of the node's run among those of the superstep, from 0.
    pub task: u32,
    /// The node.
    pub node: String,
    /// Its number within the node's run, from 1.
    pub ordinal: u32,
    /// What the node calls the step.
    pub name: String,
}

impl StepId {
    /// The id without its execution, as in [`longhaul_core::Event::step`]: `session/3/tool:shell#12`.
    #[must_use]
    pub fn within(&self) -> String {
        let Self { ns, superstep, task, node, ordinal, name, .. } = self;
        if ns.is_empty() && *task == 0 {
            format!("{node}/{superstep}/{name}#{ordinal}")
        } else {
            format!("{ns}{node}/{superstep}.{task}/{name}#{ordinal}")
        }
    }
}

impl fmt::Display for StepId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.execution, self.within())
    }
}

/// A text that is not the id of a step.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a step id: expected `exec_…/node/superstep/name#number`")]
pub struct StepIdError(String);

impl FromStr for StepId {
    type Err = StepIdError;
    fn from_str(text: &str) -> Result<Self, StepIdError> {
        let parse = || {
            let mut parts = text.splitn(4, '/');
            let (execution, path, number) = (parts.next()?, parts.next()?, parts.next()?);
            let (name, ordinal) = parts.next()?.rsplit_once('#')?;
            let (ns, node) = path.split_at(path.rfind('>').map_or(0, |end| end + 1));
            let (superstep, task) = number.split_once('.').unwrap_or((number, "0"));
            let id = Self {
                execution: execution.parse().ok()?,
                ns: ns.to_owned(),
                superstep: superstep.parse().ok()?,
                task: task.parse().ok()?,
                node: node.to_owned(),
                ordinal: ordinal.parse().ok()?,
                name: name.to_owned(),
            };
            // One id has one text.
            (id.to_string() == text).then_some(id)
        };
        parse().ok_or_else(|| StepIdError(text.chars().take(200).collect()))
    }
}

impl TryFrom<String> for StepId {
    type Error = StepIdError;
    fn try_from(text: String) -> Result<Self, StepIdError> {
        text.parse()
    }
}

impl From<StepId> for String {
    fn from(id: StepId) -> String {
        id.to_string()
    }
}

/// A step's work failed. Every error becomes one with `?`. Nothing is recorded: the next run tries again. A failure
/// that is part of the story (a command's exit code, a refusal) is a result instead.
#[derive(Debug)]
pub struct StepError {
    pub(crate) source: Arc<dyn Error + Send + Sync>,
    pub(crate) nothing_happened: bool,
}

impl StepError {
    /// For a step declared [`Effect::Once`]: its act certainly did not take place, so that it may be tried again
    /// without asking anybody.
    #[must_use]
    pub fn nothing_happened(error: impl Error + Send + Sync + 'static) -> Self {
        Self { source: Arc::new(error), nothing_happened: true }
    }

    /// What went wrong.
    #[must_use]
    pub fn into_source(self) -> Arc<dyn Error + Send + Sync> {
        self.source
    }
}

impl<E: Error + Send + Sync + 'static> From<E> for StepError {
    fn from(error: E) -> Self {
        Self { source: Arc::new(error), nothing_happened: false }
    }
}

/// What a probe found out about an act that was begun and never heard of again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Probed<T> {
    /// It took place; this is its result.
    Happened(T),
    /// It did not take place: it may be tried.
    DidNotHappen,
    /// It cannot be told: a person must say.
    Unknown,
}

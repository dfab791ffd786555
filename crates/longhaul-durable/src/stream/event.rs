//! What people are told of an execution: a closed, versioned list.
//!
//! It owns what each entry of the log means to a user interface. Invariant: what is not on the list is never shown;
//! news for developers ([`crate::Progress`]) and entries of the log ([`longhaul_core::Event`]) have no way in.

use longhaul_core::{Event, ExecutionId, TimeMs, Visibility};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{EntryId, InterventionId, WaitId, WaitKind};

/// Version of the form of [`BusinessEvent`]; a later one may have more kinds.
pub const BUSINESS_EVENT_V: u32 = 1;

/// Something that happened to an execution and that people may be told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum BusinessEvent {
    /// It began.
    ExecutionStarted {
        /// The name of its graph.
        graph: String,
        /// Its version.
        graph_version: u32,
    },
    /// A run goes on with it.
    ExecutionResumed {
        /// The last closed superstep.
        superstep: u64,
    },
    /// Nothing can go on before something that it waits for has ended.
    ExecutionWaiting {
        /// The last closed superstep.
        superstep: u64,
    },
    /// Its run ended before it was complete; the next goes on.
    ExecutionStopped {
        /// The last closed superstep.
        superstep: u64,
    },
    /// It is complete.
    ExecutionCompleted {
        /// The last superstep.
        superstep: u64,
    },
    /// Its run failed; the next tries again.
    ExecutionFailed {
        /// The last closed superstep.
        superstep: u64,
        /// Why.
        error: String,
    },
    /// Somebody asked for its end.
    ExecutionCancelled,
    /// Somebody gave it up.
    ExecutionAbandoned,
    /// An answer is asked for, or a time waited for.
    WaitOpened {
        /// The wait.
        wait: WaitId,
        /// What for.
        kind: WaitKind,
        /// What it is called: for an approval, the question.
        name: String,
        /// When it ends without an answer.
        deadline_at: Option<TimeMs>,
    },
    /// Somebody answered.
    WaitAnswered {
        /// The wait.
        wait: WaitId,
        /// What it is called.
        name: String,
        /// Who.
        actor: String,
    },
    /// Its time has come without an answer.
    WaitExpired {
        /// The wait.
        wait: WaitId,
        /// What it is called.
        name: String,
    },
    /// The answer could not be used: another is asked for.
    WaitReopened {
        /// The wait.
        wait: WaitId,
        /// What it is called.
        name: String,
        /// What was wrong with the answer.
        problem: String,
    },
    /// Somebody left a note for the running execution.
    InterventionAdded {
        /// The note.
        intervention: InterventionId,
        /// Who.
        author: String,
    },
    /// Its entry in the queue has been set aside.
    Parked {
        /// The entry.
        entry: EntryId,
        /// Why.
        error: String,
    },
    /// What a node told with [`crate::NodeContext::emit`] as a business event.
    Custom {
        /// The node's name for it.
        kind: String,
        /// What the node has to say.
        data: Value,
    },
}

/// A business event with its place in the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StreamedEvent {
    /// [`BUSINESS_EVENT_V`] of the release that reads it.
    pub v: u32,
    /// Its place: to be given to [`crate::Runtime::stream`] to go on behind it. Rising, with gaps.
    pub seq: i64,
    /// When it was committed.
    pub at: TimeMs,
    /// The execution.
    pub execution: ExecutionId,
    /// Where in it: `session/3/tool:shell#12`, or `session/3.0` for a node.
    pub step: Option<String>,
    /// What happened.
    pub event: BusinessEvent,
}

/// What a user interface may be sent. Nobody outside of this crate can add to it.
pub trait ForUsers: Serialize + sealed::Sealed {}

impl ForUsers for BusinessEvent {}
impl ForUsers for StreamedEvent {}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::BusinessEvent {}
    impl Sealed for super::StreamedEvent {}
}

/// The JSON that a user interface is sent. It takes business events and nothing else:
///
/// ```compile_fail,E0277
/// # fn show(internal: longhaul_core::Event) {
/// let sent = longhaul_durable::to_ui_json(&internal); // an entry of the log
/// # }
/// ```
///
/// ```compile_fail,E0277
/// # fn show(news: longhaul_durable::DevView) {
/// let sent = longhaul_durable::to_ui_json(&news); // news for developers
/// # }
/// ```
///
/// ```
/// # use longhaul_durable::{BusinessEvent, to_ui_json};
/// let event = BusinessEvent::ExecutionCompleted { superstep: 3 };
/// assert_eq!(to_ui_json(&event)?, r#"{"type":"execution_completed","superstep":3}"#);
/// # Ok::<_, serde_json::Error>(())
/// ```
///
/// # Errors
/// Never for the events of this release; those of a node's own data cannot fail, being JSON already.
pub fn to_ui_json<E: ForUsers>(event: &E) -> Result<String, serde_json::Error> {
    serde_json::to_string(event)
}

impl BusinessEvent {
    /// What people are told of an entry of the log, if anything.
    #[must_use]
    pub fn of(event: &Event) -> Option<Self> {
        let Event { kind, visibility, data, .. } = event;
        read(kind, data).or_else(|| {
            let custom = *visibility == Visibility::Business && !is_ours(kind);
            custom.then(|| Self::Custom { kind: kind.clone(), data: data.clone() })
        })
    }
}

impl StreamedEvent {
    /// What people are told of an execution's entry of the log, if anything.
    pub(super) fn of(event: Event) -> Option<Self> {
        let told = BusinessEvent::of(&event)?;
        let Event { seq, at, execution, step, .. } = event;
        Some(Self { v: BUSINESS_EVENT_V, seq, at, execution: execution?, step, event: told })
    }
}

/// Kinds that this crate writes, whether or not people are told of them.
pub(super) fn is_ours(kind: &str) -> bool {
    ["execution.", "wait.", "intervention.", "queue.", "effect."].iter().any(|ours| kind.starts_with(ours))
}

fn read(kind: &str, data: &Value) -> Option<BusinessEvent> {
    let text = |name: &str| data[name].as_str().unwrap_or_default().to_owned();
    let superstep = data["superstep"].as_u64().unwrap_or(0);
    let wait = || data["wait"].as_str().and_then(|id| id.parse::<WaitId>().ok());
    Some(match kind {
        "execution.started" => BusinessEvent::ExecutionStarted {
            graph: text("graph"),
            graph_version: data["version"].as_u64().and_then(|version| version.try_into().ok()).unwrap_or(0),
        },
        "execution.resumed" => BusinessEvent::ExecutionResumed { superstep },
        "execution.waiting" => BusinessEvent::ExecutionWaiting { superstep },
        "execution.stopped" => BusinessEvent::ExecutionStopped { superstep },
        "execution.completed" => BusinessEvent::ExecutionCompleted { superstep },
        "execution.failed" => BusinessEvent::ExecutionFailed { superstep, error: text("error") },
        "execution.cancelled" => BusinessEvent::ExecutionCancelled,
        "execution.abandoned" => BusinessEvent::ExecutionAbandoned,
        "wait.opened" => BusinessEvent::WaitOpened {
            wait: wait()?,
            kind: serde_json::from_value(data["kind"].clone()).ok()?,
            name: text("name"),
            deadline_at: data["deadline_at"].as_i64().map(TimeMs),
        },
        "wait.answered" => BusinessEvent::WaitAnswered { wait: wait()?, name: text("name"), actor: text("actor") },
        "wait.expired" => BusinessEvent::WaitExpired { wait: wait()?, name: text("name") },
        "wait.reopened" => BusinessEvent::WaitReopened { wait: wait()?, name: text("name"), problem: text("problem") },
        "intervention.added" => BusinessEvent::InterventionAdded {
            intervention: text("intervention").parse().ok()?,
            author: text("author"),
        },
        "queue.parked" => BusinessEvent::Parked { entry: text("entry").parse().ok()?, error: text("error") },
        _ => return None,
    })
}

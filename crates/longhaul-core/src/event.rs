//! The one envelope for everything that happens (invariant 10).

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{EventId, ExecutionId, TaskScope, TimeMs};

/// Who may see an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Visibility {
    /// Stable, versioned, for user interfaces.
    Business,
    /// For developers and the runtime itself; its kinds and data may change with any release.
    Internal,
}

/// Something that happened, before the log has given it a number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EventDraft {
    /// Dotted name, the subject first: `feature.passed`.
    pub kind: String,
    /// Who may see it.
    pub visibility: Visibility,
    /// What happened, at most [`crate::limits::EVENT_DATA_BYTES_MAX`] when printed.
    pub data: Value,
}

impl EventDraft {
    /// A draft for user interfaces.
    #[must_use]
    pub fn business(kind: &str, data: Value) -> Self {
        Self { kind: kind.to_owned(), visibility: Visibility::Business, data }
    }

    /// A draft for the runtime and its developers.
    #[must_use]
    pub fn internal(kind: &str, data: Value) -> Self {
        Self { kind: kind.to_owned(), visibility: Visibility::Internal, data }
    }
}

/// One entry of the event log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Schema version of this envelope; 1 today.
    pub v: u32,
    /// Position in the store's log, rising; gaps are possible.
    pub seq: i64,
    /// Identity, unique for ever.
    pub id: EventId,
    /// When it was committed.
    pub at: TimeMs,
    /// Whose task it belongs to.
    pub scope: TaskScope,
    /// The execution that caused it, if one did.
    pub execution: Option<ExecutionId>,
    /// The step within the execution: `session/3/tool:shell#12`.
    pub step: Option<String>,
    /// Dotted name, the subject first.
    pub kind: String,
    /// Who may see it.
    pub visibility: Visibility,
    /// What happened.
    pub data: Value,
}

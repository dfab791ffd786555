//! What can go wrong with reviewed knowledge. Messages say what to do next.

use longhaul_memory::MemoryError;
use longhaul_store::StoreError;

use crate::WorkspaceError;

/// Why shared knowledge could not be proposed, decided on or read.
#[derive(Debug, thiserror::Error)]
pub enum ReviewError {
    /// The store failed.
    #[error("the store failed while handling shared knowledge")]
    Store(#[from] StoreError),
    /// Memory refused: no right to review, memory switched off.
    #[error(transparent)]
    Memory(MemoryError),
    /// Evidence that is not there, or a value that does not fit its schema.
    #[error(transparent)]
    Workspace(WorkspaceError),
    /// A field has a value outside its range.
    #[error("{field} is {value:?}: expected {expected}")]
    Field {
        /// Name of the field.
        field: &'static str,
        /// The value as given, cut.
        value: String,
        /// What it should be.
        expected: &'static str,
    },
    /// Nothing speaks for the proposal.
    #[error("a proposal needs evidence: name the records, messages or steps that show it")]
    NoEvidence,
    /// What spoke for it is gone.
    #[error("the evidence {id} of {proposal} is gone since it was proposed; reject it, or have it proposed anew")]
    EvidenceGone {
        /// The proposal.
        proposal: String,
        /// What is gone.
        id: String,
    },
    /// A value is too large for an entry.
    #[error("a value of {bytes} bytes is over the limit of {bytes_max}; ingest it, keep the ref")]
    ValueTooLong {
        /// Its size printed, in bytes.
        bytes: usize,
        /// The limit in bytes.
        bytes_max: usize,
    },
    /// Nobody has defined the schema.
    #[error("there is no schema {id:?} for shared knowledge; define it first; there are: {}", if known.is_empty() { "none".to_owned() } else { known.join(", ") })]
    NoSchema {
        /// As asked for.
        id: String,
        /// Those there are, at most 50.
        known: Vec<String>,
    },
    /// A schema does not change.
    #[error("the schema {id:?} is defined otherwise already; entries rely on it, so give the new one an id of its own")]
    SchemaTaken {
        /// The schema.
        id: String,
    },
    /// No such proposal, or none that the user may see.
    #[error("there is no proposal {id} that you may see; `longhaul review list` shows which there are")]
    NoProposal {
        /// As asked for.
        id: String,
    },
    /// It has been decided already.
    #[error("the proposal {id} is {state} already; to undo what was applied, roll its entry back")]
    Decided {
        /// The proposal.
        id: String,
        /// What became of it.
        state: &'static str,
    },
    /// The same was rejected, on the same evidence.
    #[error("the same was rejected as {id}{}; propose it again with other evidence", .note.as_ref().map(|note| format!(" ({note})")).unwrap_or_default())]
    RejectedBefore {
        /// The earlier proposal.
        id: String,
        /// Why it was.
        note: Option<String>,
    },
    /// Too many wait.
    #[error("{waiting} proposals wait for a decision; decide on some with `longhaul review` first")]
    TooMany {
        /// How many.
        waiting: u64,
    },
    /// The entry has changed since it was proposed.
    #[error("{key} is at version {now} and {id} was proposed on version {base}; look at both, reject it, propose anew")]
    Outdated {
        /// The proposal.
        id: String,
        /// The entry.
        key: String,
        /// The version that was known when it was proposed.
        base: u32,
        /// The newest.
        now: u32,
    },
    /// Only a person decides.
    #[error("{actor} may not decide on shared knowledge: a person does, as themselves")]
    NotAPerson {
        /// Who tried.
        actor: String,
    },
    /// No such entry or version.
    #[error("there is no version {version} of {key:?}; the newest is {newest}")]
    NoVersion {
        /// The entry.
        key: String,
        /// As asked for.
        version: u32,
        /// The newest there is; 0 when there is no such entry.
        newest: u32,
    },
}

impl From<MemoryError> for ReviewError {
    fn from(error: MemoryError) -> Self {
        match error {
            MemoryError::Store(error) => Self::Store(error),
            other => Self::Memory(other),
        }
    }
}

impl From<WorkspaceError> for ReviewError {
    fn from(error: WorkspaceError) -> Self {
        match error {
            WorkspaceError::Store(error) => Self::Store(error),
            other => Self::Workspace(other),
        }
    }
}

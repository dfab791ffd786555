//! What can go wrong with records, links and milestones.

use std::sync::Arc;

use longhaul_core::{Digest, MilestoneId, RecordId, TaskId, UserId};
use longhaul_memory::MemoryError;
use longhaul_store::{Cause, StoreError};

/// Why something of the workspace could not be kept, read or found.
#[derive(Debug, Clone, thiserror::Error)]
pub enum WorkspaceError {
    /// The store failed.
    #[error("the store failed while the workspace used it")]
    Store(#[from] StoreError),
    /// The index of records failed, or refused.
    #[error("the index of records failed")]
    Index(#[source] Arc<MemoryError>),
    /// No such record, or none that the caller may read.
    #[error("there is no record {0} that you may read; `longhaul records TASK` lists those of a task")]
    NoSuchRecord(RecordId),
    /// A record without a summary or a source says nothing to whoever finds it.
    #[error("a record needs a {0}: say in a few words what it is and where it came from")]
    Missing(&'static str),
    /// A value that cannot be kept.
    #[error("{name} may not be {value:?}: expected {expected}")]
    Field {
        /// What was given: `collection`.
        name: &'static str,
        /// Its beginning.
        value: String,
        /// What may be given.
        expected: String,
    },
    /// Something of this name exists in the task.
    #[error(
        "{task} already has a record {name:?}, version {version} ({record}): nothing is overwritten; say `revise: true` to make the next version"
    )]
    NameTaken {
        /// The task.
        task: TaskId,
        /// The name.
        name: String,
        /// The newest version.
        version: u32,
        /// The record that has it.
        record: RecordId,
    },
    /// A milestone of this name exists in the task.
    #[error(
        "{task} has already reached {name:?}, version {version} ({milestone}); say `revise: true` to make the next version"
    )]
    MilestoneTaken {
        /// The task.
        task: TaskId,
        /// The name.
        name: String,
        /// The newest version.
        version: u32,
        /// Its milestone.
        milestone: MilestoneId,
    },
    /// The task's records belong to somebody else.
    #[error("the records of {task} belong to {owner}, who can grant the right to use them")]
    NoAccess {
        /// The task.
        task: TaskId,
        /// Whose they are.
        owner: UserId,
    },
    /// What is kept under a record is not what was put there, or the ref names another content.
    #[error(
        "the content of {record} has the digest {found}, not {expected}: it was changed after it was kept; restore it from a backup"
    )]
    DigestMismatch {
        /// The record.
        record: RecordId,
        /// The digest that was expected.
        expected: Digest,
        /// The digest of what is there.
        found: Digest,
    },
    /// The content of a record is gone.
    #[error("the content of {record} is lost; restore the store from a backup")]
    ContentLost {
        /// The record.
        record: RecordId,
        /// Where it was looked for.
        #[source]
        source: Option<StoreError>,
    },
    /// An end of a link, or a ref of a milestone, names nothing that the caller may see.
    #[error("{id} names nothing that you may see: both ends of a link must exist when it is made")]
    NoSuchEnd {
        /// The id.
        id: String,
    },
    /// An id of a kind that nobody knows.
    #[error("{id:?} is no id of this store: known are those that begin with {}", .known.join(", "))]
    UnknownEnd {
        /// The id.
        id: String,
        /// What known ids begin with.
        known: Vec<String>,
    },
    /// The content does not fit the schema that came with it.
    #[error("the content does not fit its schema: {path}: {problem}")]
    Misfit {
        /// Where: `content.amount`.
        path: String,
        /// What is wrong there.
        problem: String,
    },
    /// The content could not be read to its end; nothing was kept.
    #[error("the content could not be read to its end; nothing was kept")]
    Unread(#[source] Cause),
    /// A stored value cannot be understood: the row was changed by something else.
    #[error("record {id} has an unreadable {column}; restore the store from a backup")]
    Unreadable {
        /// The record.
        id: String,
        /// The column.
        column: &'static str,
    },
}

impl From<MemoryError> for WorkspaceError {
    fn from(error: MemoryError) -> Self {
        match error {
            MemoryError::Store(error) => Self::Store(error),
            #[expect(clippy::wildcard_enum_match_arm, reason = "all others are the index's own")]
            other => Self::Index(Arc::new(other)),
        }
    }
}

/// For closures of other crates' transactions, which fail as the store does.
impl From<WorkspaceError> for StoreError {
    fn from(error: WorkspaceError) -> Self {
        if let WorkspaceError::Store(error) = error {
            return error;
        }
        Self::Constraint { detail: error.to_string() }
    }
}

/// A field that cannot be kept, with the beginning of what was given.
pub(crate) fn field(name: &'static str, value: &str, expected: impl Into<String>) -> WorkspaceError {
    WorkspaceError::Field { name, value: value.chars().take(80).collect(), expected: expected.into() }
}

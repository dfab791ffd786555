//! Why something that was asked of memory did not happen.

use std::{io, path::PathBuf};

use longhaul_core::{MemoryId, TaskId};
use longhaul_memory::{EmbedError, MemoryError, TransferError, when::WhenError};
use longhaul_milvus::MilvusError;
use longhaul_store::StoreError;
use longhaul_workspace::{context::ContextError, review::ReviewError, sessions::SessionError};

use crate::ErrorKind;

/// Why something that was asked of memory did not happen. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum MemoriesError {
    /// The folder holds no store.
    #[error(
        "there is no store in {dir}: name the folder or database that holds the memories, `--store DIR` or `--store postgres://…`"
    )]
    NoStore {
        /// The folder.
        dir: PathBuf,
    },
    /// Nothing has this id, for this user.
    #[error(
        "no memory {id} can be seen here; it may have expired or been forgotten, or belong to another namespace or tenant: `longhaul memory list` shows what there is"
    )]
    Unknown {
        /// The id.
        id: MemoryId,
    },
    /// Nothing is known of a task.
    #[error("nothing is kept of {task} here: no such task of yours, and no records of it")]
    NoTask {
        /// The task.
        task: TaskId,
    },
    /// A context pack cannot be built as it was asked for.
    #[error(transparent)]
    Context(ContextError),
    /// A condition that cannot be read.
    #[error(
        "--where {text}: {problem}; write key=value, key!=value, key>3, key>=3, key<3, key<=3, key=[\"a\",\"b\"], key or !key"
    )]
    Condition {
        /// As it was written, cut.
        text: String,
        /// What is wrong.
        problem: &'static str,
    },
    /// Metadata that cannot be read.
    #[error("--meta {text}: write key=value, as in --meta session=3 or --meta 'note=\"3\"'")]
    Meta {
        /// As it was written, cut.
        text: String,
    },
    /// A fact that is not whole.
    #[error("a fact needs both --subject and --attribute, as in --subject ada --attribute \"home town\"")]
    HalfAFact,
    /// Something that changes nothing.
    #[error("nothing to change was named; `longhaul memory edit --help` lists what can be")]
    NothingToChange,
    /// No rule says what becomes cold.
    #[error("no rule says what becomes cold: set memory.cold_unused_days, or name --unused-days")]
    NoRules,
    /// What should be forgotten was not said.
    #[error("say what to forget: ids, --query, --subject, --thread, --collection, --tag, --since or --until")]
    NothingToForget,
    /// A time that is none.
    #[error(transparent)]
    When(#[from] WhenError),
    /// A question for an evaluation that is none.
    #[error("{}:{line}: {problem}; write {{\"question\": \"…\", \"expect\": [\"…\"]}} on each line", path.display())]
    Question {
        /// The file.
        path: PathBuf,
        /// Its line, from 1.
        line: usize,
        /// What is wrong.
        problem: String,
    },
    /// A file that cannot be imported.
    #[error(transparent)]
    Transfer(TransferError),
    /// A file that cannot be read or written.
    #[error("cannot {action} {}", path.display())]
    File {
        /// What was being done: `read`, `write`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// The embedding model cannot be used.
    #[error(transparent)]
    Embed(#[from] EmbedError),
    /// The vector server that was named cannot be used as it is written.
    #[error(transparent)]
    Server(#[from] MilvusError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Memory refused.
    #[error(transparent)]
    Memory(MemoryError),
}

impl From<MemoryError> for MemoriesError {
    fn from(error: MemoryError) -> Self {
        match error {
            MemoryError::Store(error) => Self::Store(error),
            MemoryError::Embed(error) => Self::Embed(error),
            other => Self::Memory(other),
        }
    }
}

impl From<ContextError> for MemoriesError {
    fn from(error: ContextError) -> Self {
        match error {
            ContextError::Store(error) => Self::Store(error),
            ContextError::Memory(error) => error.into(),
            error @ (ContextError::NoGoal
            | ContextError::UnknownProfile { .. }
            | ContextError::Profile { .. }
            | ContextError::Tokenizer { .. }) => Self::Context(error),
        }
    }
}

/// Who can do something about an error of memory.
#[must_use]
pub fn memory_error_kind(error: &MemoryError) -> ErrorKind {
    if let MemoryError::Store(error) = error {
        return kind_of_store(error);
    }
    // Everything else is about what was asked for.
    let of_machine = matches!(error, MemoryError::Embed(_) | MemoryError::Cold(_));
    if of_machine { ErrorKind::Environment } else { ErrorKind::Usage }
}

fn kind_of_store(error: &StoreError) -> ErrorKind {
    if matches!(error, StoreError::DiskFull { .. } | StoreError::Io { .. }) {
        return ErrorKind::Environment;
    }
    if matches!(error, StoreError::Address { .. }) { ErrorKind::Usage } else { ErrorKind::Failed }
}

impl MemoriesError {
    /// Who can do something about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NoStore { .. }
            | Self::Unknown { .. }
            | Self::NoTask { .. }
            | Self::Context(_)
            | Self::Condition { .. }
            | Self::Meta { .. }
            | Self::HalfAFact
            | Self::NothingToChange
            | Self::NothingToForget
            | Self::NoRules
            | Self::When(_)
            | Self::Question { .. }
            | Self::Transfer(_)
            | Self::File { .. }
            | Self::Server(_) => ErrorKind::Usage,
            Self::Memory(error) => memory_error_kind(error),
            Self::Embed(_) => ErrorKind::Environment,
            Self::Store(error) => kind_of_store(error),
        }
    }
}

/// Who can do something about an error of conversations.
#[must_use]
pub fn session_error_kind(error: &SessionError) -> ErrorKind {
    match error {
        SessionError::Memory(error) => memory_error_kind(error),
        SessionError::Store(_) | SessionError::Unreadable { .. } => ErrorKind::Failed,
        SessionError::MemoChanged { .. } | SessionError::BeingDeleted { .. } => ErrorKind::Retry,
        SessionError::Empty
        | SessionError::MessageTooLong { .. }
        | SessionError::SessionFull { .. }
        | SessionError::MemoTooLong { .. }
        | SessionError::Field { .. }
        | SessionError::NoOpenCall { .. }
        | SessionError::NoRecord { .. }
        | SessionError::NoSession { .. }
        | SessionError::NotYours { .. }
        | SessionError::WindowTooSmall { .. }
        | SessionError::When(_) => ErrorKind::Usage,
    }
}

/// Who can do something about an error of shared knowledge.
#[must_use]
pub fn review_error_kind(error: &ReviewError) -> ErrorKind {
    match error {
        ReviewError::Memory(error) => memory_error_kind(error),
        ReviewError::Store(_) => ErrorKind::Failed,
        ReviewError::Workspace(_)
        | ReviewError::Field { .. }
        | ReviewError::NoEvidence
        | ReviewError::EvidenceGone { .. }
        | ReviewError::ValueTooLong { .. }
        | ReviewError::NoSchema { .. }
        | ReviewError::SchemaTaken { .. }
        | ReviewError::NoProposal { .. }
        | ReviewError::Decided { .. }
        | ReviewError::RejectedBefore { .. }
        | ReviewError::TooMany { .. }
        | ReviewError::Outdated { .. }
        | ReviewError::NotAPerson { .. }
        | ReviewError::NoVersion { .. } => ErrorKind::Usage,
    }
}

//! What the owners of records, links and memories refuse, as problems of the wire.

use axum::http::StatusCode;
use longhaul_memory::MemoryError;
use longhaul_workspace::{WorkspaceError, sessions::SessionError};

use crate::Problem;

impl From<WorkspaceError> for Problem {
    fn from(error: WorkspaceError) -> Self {
        let told = error.to_string();
        match error {
            WorkspaceError::Store(error) => error.into(),
            WorkspaceError::Index(error) => Self::internal(&*error),
            WorkspaceError::NoSuchRecord(record) => Self::missing("record", record.as_str()),
            WorkspaceError::Missing(field) => Self::invalid(field, told),
            WorkspaceError::Field { name, .. } => Self::invalid(name, told),
            WorkspaceError::NameTaken { .. } => Self::conflict("name_taken", told),
            WorkspaceError::MilestoneTaken { .. } => Self::conflict("milestone_taken", told),
            WorkspaceError::NoAccess { .. } => Self::new(StatusCode::FORBIDDEN, "forbidden", told),
            WorkspaceError::DigestMismatch { .. } => Self::conflict("digest_mismatch", told),
            WorkspaceError::ContentLost { record, .. } => {
                let detail = format!("the content of {record} is lost: the operator can restore it from a backup");
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, "content_lost", detail)
            }
            WorkspaceError::NoSuchEnd { .. } | WorkspaceError::UnknownEnd { .. } => Self::invalid("id", told),
            WorkspaceError::Misfit { path, .. } => Self::invalid(path, told),
            WorkspaceError::Unread(_) => Self::new(StatusCode::BAD_REQUEST, "broken_body", told),
            other @ WorkspaceError::Unreadable { .. } => Self::internal(&other),
        }
    }
}

impl From<SessionError> for Problem {
    fn from(error: SessionError) -> Self {
        let told = error.to_string();
        match error {
            SessionError::Store(error) => error.into(),
            SessionError::Memory(error) => error.into(),
            SessionError::Empty => Self::invalid("body.content", told),
            SessionError::MessageTooLong { .. } | SessionError::MemoTooLong { .. } => {
                Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", told)
            }
            SessionError::SessionFull { .. } => Self::conflict("session_full", told),
            SessionError::MemoChanged { .. } => Self::conflict("memo_changed", told),
            SessionError::Field { field, .. } => Self::invalid(field, told),
            SessionError::NoOpenCall { .. } => Self::conflict("no_open_call", told),
            SessionError::NoRecord { .. } => Self::invalid("body.attachments", told),
            SessionError::NoSession { session } => Self::missing("session", session.as_str()),
            // Whose it is instead is nobody's business.
            SessionError::NotYours { session } => Self::missing("session", session.as_str()),
            SessionError::BeingDeleted { .. } => Self::conflict("being_deleted", told),
            SessionError::WindowTooSmall { .. } => Self::invalid("tokens", told),
            SessionError::When(_) => Self::invalid("body.when", told),
            other @ SessionError::Unreadable { .. } => Self::internal(&other),
        }
    }
}

impl From<MemoryError> for Problem {
    fn from(error: MemoryError) -> Self {
        let told = error.to_string();
        match error {
            MemoryError::Store(error) => error.into(),
            MemoryError::Empty => Self::invalid("body.content", told),
            MemoryError::TooLong { .. } | MemoryError::MetaTooLong { .. } => {
                Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", told)
            }
            MemoryError::Field { field, .. } => Self::invalid(field, told),
            MemoryError::UnknownField { .. } => Self::invalid("filter", told),
            MemoryError::BadVector { .. } => Self::invalid("vector", told),
            MemoryError::NoAccess { .. } => Self::new(StatusCode::FORBIDDEN, "forbidden", told),
            MemoryError::Frozen { .. } => Self::conflict("read_only", told),
            MemoryError::NoPartition { namespace } => Self::missing("namespace", namespace.as_str()),
            MemoryError::User(error) => {
                tracing::debug!(error = %told, "user memory refused");
                Self::conflict("refused", error.to_string())
            }
            other @ (MemoryError::Remote { .. }
            | MemoryError::NotMoved { .. }
            | MemoryError::Embed(_)
            | MemoryError::Cold(_)) => Self::internal(&other),
        }
    }
}

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
            WorkspaceError::Index(error) => of_memory(&error),
            WorkspaceError::NoSuchRecord(record) => Self::missing("record", record.as_str()),
            WorkspaceError::Missing(field) => Self::invalid(field, told),
            // It says of a name, and there is none.
            WorkspaceError::Field { name: "revise", .. } => Self::conflict("nothing_to_revise", told).at("revise"),
            WorkspaceError::Field { name, .. } => Self::invalid(name, told),
            WorkspaceError::NameTaken { .. } => Self::conflict("name_taken", told),
            WorkspaceError::MilestoneTaken { .. } => Self::conflict("milestone_taken", told),
            WorkspaceError::NoAccess { .. } => Self::new(StatusCode::FORBIDDEN, "forbidden", told),
            WorkspaceError::DigestMismatch { .. } => Self::conflict("digest_mismatch", told),
            WorkspaceError::ContentLost { record, .. } => {
                let detail = format!("the content of {record} is lost: the operator can restore it from a backup");
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, "content_lost", detail)
            }
            WorkspaceError::NoSuchEnd { .. } | WorkspaceError::UnknownEnd { .. } => {
                Self::new(StatusCode::NOT_FOUND, "not_found", told)
            }
            WorkspaceError::Misfit { path, .. } => Self::conflict("misfit", told).at(path),
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
            SessionError::Empty => Self::conflict("says_nothing", told).at("body.content"),
            SessionError::MessageTooLong { .. } | SessionError::MemoTooLong { .. } => {
                Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", told)
            }
            SessionError::SessionFull { .. } => Self::conflict("session_full", told),
            SessionError::MemoChanged { .. } => Self::conflict("memo_changed", told),
            // What belongs together in a message is more than its form.
            SessionError::Field { field, .. } => Self::conflict("unfit", told).at(field),
            SessionError::NoOpenCall { .. } => Self::conflict("no_open_call", told),
            SessionError::NoRecord { .. } => Self::new(StatusCode::NOT_FOUND, "not_found", told).at("body.attachments"),
            SessionError::NoSession { session } => Self::missing("session", session.as_str()),
            // Whose it is instead is nobody's business.
            SessionError::NotYours { session } => Self::missing("session", session.as_str()),
            SessionError::BeingDeleted { .. } => Self::conflict("being_deleted", told),
            SessionError::WindowTooSmall { .. } => Self::invalid("tokens", told),
            SessionError::When(_) => Self::conflict("no_time", told).at("body.when"),
            other @ SessionError::Unreadable { .. } => Self::internal(&other),
        }
    }
}

impl From<MemoryError> for Problem {
    fn from(error: MemoryError) -> Self {
        match error {
            MemoryError::Store(error) => error.into(),
            #[expect(clippy::wildcard_enum_match_arm, reason = "all others are told apart there")]
            other => of_memory(&other),
        }
    }
}

fn of_memory(error: &MemoryError) -> Problem {
    let told = error.to_string();
    match error {
        MemoryError::Store(error) => error.clone().into(),
        MemoryError::Empty => Problem::invalid("body.content", told),
        MemoryError::TooLong { .. } | MemoryError::MetaTooLong { .. } => {
            Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", told)
        }
        MemoryError::Field { field, .. } => Problem::invalid(*field, told),
        MemoryError::UnknownField { .. } => Problem::invalid("filter", told),
        MemoryError::BadVector { .. } => Problem::invalid("vector", told),
        MemoryError::NoAccess { .. } => Problem::new(StatusCode::FORBIDDEN, "forbidden", told),
        MemoryError::Frozen { .. } => Problem::conflict("read_only", told),
        MemoryError::NoPartition { namespace } => Problem::missing("namespace", namespace.as_str()),
        MemoryError::User(_) => Problem::conflict("refused", told),
        MemoryError::Remote { .. } | MemoryError::NotMoved { .. } | MemoryError::Embed(_) | MemoryError::Cold(_) => {
            Problem::internal(error)
        }
    }
}

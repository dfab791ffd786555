//! What PostgreSQL's errors mean to the reader of a message.
//!
//! It owns the server's codes; no other file looks at them. Invariant: an error of the connection is told apart from an
//! error of a statement.

use std::{path::Path, sync::Arc};

use tokio_postgres::{Error, error::SqlState};

use crate::{
    StoreError,
    error::{Cause, cut},
};

/// Translates an error met while running `sql` on the database that is shown as `path`.
pub(crate) fn from_postgres(path: &Path, sql: &str, error: Error) -> StoreError {
    let path = path.to_owned();
    let detail = error.as_db_error().map(|db| {
        let rule = db.constraint().map_or_else(String::new, |name| format!(" ({name})"));
        format!("{}{rule}", db.message())
    });
    let code = error.code().cloned();
    let source: Cause = Arc::new(error);
    let (Some(code), Some(detail)) = (code, detail) else {
        // Not the server's words: the connection broke, or could not be made.
        return StoreError::Disconnected { path, source };
    };
    match code {
        SqlState::DATATYPE_MISMATCH
        | SqlState::NUMERIC_VALUE_OUT_OF_RANGE
        | SqlState::CHARACTER_NOT_IN_REPERTOIRE
        | SqlState::UNTRANSLATABLE_CHARACTER => StoreError::Constraint { detail },
        SqlState::DISK_FULL => StoreError::DiskFull { path, source },
        SqlState::LOCK_NOT_AVAILABLE
        | SqlState::QUERY_CANCELED
        | SqlState::T_R_DEADLOCK_DETECTED
        | SqlState::T_R_SERIALIZATION_FAILURE => StoreError::Locked { path, source },
        SqlState::READ_ONLY_SQL_TRANSACTION => StoreError::ReadOnly { sql: cut(sql) },
        SqlState::DATA_CORRUPTED | SqlState::INDEX_CORRUPTED => StoreError::Corrupt { path, source },
        SqlState::INVALID_PASSWORD | SqlState::INVALID_AUTHORIZATION_SPECIFICATION | SqlState::INVALID_CATALOG_NAME => {
            StoreError::Refused { path, detail }
        }
        SqlState::INSUFFICIENT_PRIVILEGE => StoreError::Refused { path, detail },
        SqlState::IN_FAILED_SQL_TRANSACTION => StoreError::RolledBack { path },
        // The session is gone, or was not to be had: shut down, crashed, cut, idle for too long, out of places.
        SqlState::ADMIN_SHUTDOWN
        | SqlState::CRASH_SHUTDOWN
        | SqlState::CANNOT_CONNECT_NOW
        | SqlState::DATABASE_DROPPED
        | SqlState::IDLE_SESSION_TIMEOUT
        | SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT
        | SqlState::TOO_MANY_CONNECTIONS => StoreError::Disconnected { path, source },
        _ => match code.code().get(..2) {
            Some("23") => StoreError::Constraint { detail },
            Some("08") => StoreError::Disconnected { path, source },
            Some("58") => StoreError::Io { path, source },
            _ => StoreError::Sql { sql: cut(sql), source },
        },
    }
}

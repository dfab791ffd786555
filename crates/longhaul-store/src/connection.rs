//! SQLite's connections and the files beneath them.
//!
//! It owns the modes of files and the pragmas of every connection. Invariant: whatever connection writes, its commits
//! survive a power cut.

use std::{
    fs::{DirBuilder, File, OpenOptions},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::Path,
    time::Duration,
};

use rusqlite::{Connection, OpenFlags};

use crate::{
    StoreError, StoreSettings,
    error::{from_io, from_sqlite},
};

pub(crate) fn connect(path: &Path, settings: &StoreSettings) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(|error| from_sqlite(path, "open", error))?;
    connection
        .busy_timeout(Duration::from_millis(settings.busy_ms_max))
        .map_err(|error| from_sqlite(path, "busy_timeout", error))?;
    connection.set_prepared_statement_cache_capacity(256);
    // A database in memory has no log and keeps its journal in memory. FULL makes every commit survive a power cut: what was acknowledged stays.
    for sql in [
        "PRAGMA journal_mode = WAL",
        "PRAGMA synchronous = FULL",
        "PRAGMA foreign_keys = ON",
        "SELECT count(*) FROM sqlite_schema",
    ] {
        pragma(&connection, path, sql).map_err(|error| {
            // These statements are right on every database: what is wrong is the file.
            if let StoreError::Sql { source, .. } = error {
                StoreError::Corrupt { path: path.to_owned(), source }
            } else {
                error
            }
        })?;
    }
    Ok(connection)
}

/// Runs a statement that may or may not answer with rows.
pub(crate) fn pragma(connection: &Connection, path: &Path, sql: &str) -> Result<(), StoreError> {
    connection.execute_batch(sql).map_err(|error| from_sqlite(path, sql, error))
}

pub(crate) fn private_dir(dir: &Path) -> Result<(), StoreError> {
    // A folder that exists keeps its mode: it may be shared on purpose, or be no folder of ours at all.
    if dir.is_dir() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(|error| from_io(dir, error))
}

/// Opens the file, made with mode 0600 where it does not exist. SQLite gives its side files the same mode.
pub(crate) fn private_file(path: &Path) -> Result<File, StoreError> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(|error| from_io(path, error))
}

//! Bringing a database's tables up to what this program knows, one component after the other.
//!
//! It owns the table of versions; each crate owns its own steps. Invariants: a step and its version are one
//! transaction; a step that has been released is never changed, only followed by another.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use crate::{StoreError, error::from_sqlite};

/// One crate's tables, as a list of steps. Version n is what stands after the first n steps.
#[derive(Debug, Clone, Copy)]
pub struct Migrations {
    /// The crate, without its `longhaul-` prefix.
    pub component: &'static str,
    /// SQL, one or more statements a step; only ever appended to.
    pub steps: &'static [&'static str],
}

const VERSIONS: &str = "CREATE TABLE IF NOT EXISTS schema_versions (
    component TEXT NOT NULL PRIMARY KEY, version INTEGER NOT NULL, applied_at INTEGER NOT NULL) STRICT";

/// Applies what is missing. Nothing is changed when any component is newer than this program.
pub(crate) fn apply(
    connection: &mut Connection,
    path: &Path,
    sets: &[Migrations],
    now_ms: i64,
) -> Result<(), StoreError> {
    connection.execute_batch(VERSIONS).map_err(|error| from_sqlite(path, VERSIONS, error))?;
    let mut behind = Vec::new();
    for set in sets {
        let found = version(connection, path, set.component)?;
        let known = u32::try_from(set.steps.len()).unwrap_or(u32::MAX);
        if found > known {
            return Err(StoreError::Newer { path: path.to_owned(), component: set.component.to_owned(), found, known });
        }
        behind.push((set, found));
    }
    for (set, found) in behind {
        for (step, version) in set.steps.iter().zip(1..).skip(found as usize) {
            step_to(connection, path, set.component, step, version, now_ms).map_err(|error| StoreError::Migration {
                component: set.component,
                version,
                source: Box::new(error),
            })?;
        }
    }
    Ok(())
}

fn version(connection: &Connection, path: &Path, component: &str) -> Result<u32, StoreError> {
    let sql = "SELECT version FROM schema_versions WHERE component = ?1";
    connection
        .query_row(sql, [component], |row| row.get(0))
        .optional()
        .map(Option::unwrap_or_default)
        .map_err(|error| from_sqlite(path, sql, error))
}

fn step_to(
    connection: &mut Connection,
    path: &Path,
    component: &str,
    step: &str,
    version: u32,
    now_ms: i64,
) -> Result<(), StoreError> {
    let wrong = |error| from_sqlite(path, step, error);
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(wrong)?;
    transaction.execute_batch(step).map_err(wrong)?;
    transaction
        .execute(
            "INSERT INTO schema_versions (component, version, applied_at) VALUES (?1, ?2, ?3)
             ON CONFLICT (component) DO UPDATE SET version = ?2, applied_at = ?3",
            params![component, version, now_ms],
        )
        .map_err(wrong)?;
    transaction.commit().map_err(wrong)
}

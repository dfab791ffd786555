//! Bringing a PostgreSQL database's tables up to what this program knows.
//!
//! It owns the order of looking and changing; the steps are each crate's own. Invariants: a step and its version are
//! one transaction under the writers' lock, so of two programs that open the same database each step is applied by
//! one; nothing is changed when any component is newer than this program.

use super::{dialect, session::Session, writer::LOCK};
use crate::{Migrations, StoreError, Value};

/// Tables that only PostgreSQL needs: receipts of commits, and blobs, which on SQLite are files.
pub(crate) const OWN: Migrations = Migrations {
    component: "store-postgres",
    steps: &[
        "CREATE TABLE store_writers (
            writer_id TEXT NOT NULL PRIMARY KEY,
            commits INTEGER NOT NULL,
            at INTEGER NOT NULL
        );
        CREATE TABLE blobs (
            tenant_id TEXT NOT NULL,
            digest TEXT NOT NULL,
            content BLOB NOT NULL,
            created_at INTEGER NOT NULL,
            PRIMARY KEY (tenant_id, digest)
        );",
        // Large content stands in rows of its own, which the server need not try to compress: it is already.
        "ALTER TABLE blobs ADD COLUMN encoding TEXT NOT NULL DEFAULT 'raw';
        ALTER TABLE blobs ADD COLUMN upload TEXT NOT NULL DEFAULT '';
        ALTER TABLE blobs ADD COLUMN stored INTEGER NOT NULL DEFAULT 0;
        CREATE TABLE blob_chunks (
            tenant_id TEXT NOT NULL,
            upload TEXT NOT NULL,
            n INTEGER NOT NULL,
            data BLOB NOT NULL,
            PRIMARY KEY (tenant_id, upload, n)
        );
        ALTER TABLE blob_chunks ALTER COLUMN data SET STORAGE EXTERNAL;
        ALTER TABLE blobs ALTER COLUMN content SET STORAGE EXTERNAL;",
    ],
};

const VERSIONS: &str = "CREATE TABLE IF NOT EXISTS schema_versions (
    component TEXT NOT NULL PRIMARY KEY, version INTEGER NOT NULL, applied_at INTEGER NOT NULL)";

/// Receipts older than this belong to nobody.
const RECEIPT_MS_MAX: i64 = 7 * 24 * 60 * 60 * 1000;

/// Applies what is missing.
pub(crate) fn apply(
    session: &Session,
    path: &std::path::Path,
    sets: &[Migrations],
    now_ms: i64,
) -> Result<(), StoreError> {
    session.control("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")?;
    let looked = missing(session, path, sets);
    session.control("ROLLBACK")?;
    match looked? {
        Missing::Nothing => {
            return session.control(&format!("DELETE FROM store_writers WHERE at < {}", now_ms - RECEIPT_MS_MAX));
        }
        Missing::Steps => {}
        Missing::Everything => locked(session, || session.control(&dialect::script(VERSIONS)))?,
    }
    for set in sets {
        for (step, version) in set.steps.iter().zip(1..) {
            locked(session, || step_to(session, set.component, step, version, now_ms)).map_err(|error| {
                StoreError::Migration { component: set.component, version, source: Box::new(error) }
            })?;
        }
    }
    Ok(())
}

enum Missing {
    Nothing,
    Steps,
    Everything,
}

/// Looks, and changes nothing.
fn missing(session: &Session, path: &std::path::Path, sets: &[Migrations]) -> Result<Missing, StoreError> {
    if !is_there(session)? {
        return Ok(Missing::Everything);
    }
    let mut missing = Missing::Nothing;
    for set in sets {
        let (found, known) = (version(session, set.component)?, known(set));
        if found > known {
            let component = set.component.to_owned();
            return Err(StoreError::Newer { path: path.to_owned(), component, found, known });
        }
        if found < known {
            missing = Missing::Steps;
        }
    }
    Ok(missing)
}

fn known(set: &Migrations) -> u32 {
    u32::try_from(set.steps.len()).unwrap_or(u32::MAX)
}

fn locked(session: &Session, work: impl FnOnce() -> Result<(), StoreError>) -> Result<(), StoreError> {
    let outcome = session.control(&format!("BEGIN; {LOCK}")).and_then(|()| work());
    match outcome {
        Ok(()) => session.control("COMMIT"),
        Err(error) => {
            // The first error is the one worth telling.
            let _ = session.control("ROLLBACK");
            Err(error)
        }
    }
}

/// Another program may have been first since we looked.
fn step_to(session: &Session, component: &str, step: &str, number: u32, now_ms: i64) -> Result<(), StoreError> {
    if version(session, component)? >= number {
        return Ok(());
    }
    session.control(&dialect::script(step))?;
    let values = [component.into(), number.into(), now_ms.into()];
    session
        .run(
            "INSERT INTO schema_versions (component, version, applied_at) VALUES (?1, ?2, ?3)
             ON CONFLICT (component) DO UPDATE SET version = ?2, applied_at = ?3",
            &values,
            &mut |_| Ok(true),
        )
        .map(drop)
}

fn is_there(session: &Session) -> Result<bool, StoreError> {
    session.run("SELECT 1 WHERE to_regclass('schema_versions') IS NOT NULL", &[], &mut |_| Ok(true)).map(|n| n == 1)
}

fn version(session: &Session, component: &str) -> Result<u32, StoreError> {
    let mut found = 0;
    session.run("SELECT version FROM schema_versions WHERE component = ?1", &[Value::from(component)], &mut |row| {
        found = row.try_get::<_, i64>(0).ok().and_then(|version| u32::try_from(version).ok()).unwrap_or(u32::MAX);
        Ok(true)
    })?;
    Ok(found)
}

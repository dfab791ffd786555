//! Erasing what is left of somebody: the store's own rows, blobs that nobody refers to any more, and receipts.
//!
//! Each component erases its own rows, by functions of its own or by statements that it has entered:
//!
//! ```sql
//! INSERT INTO erase_queries (component, subject, statement)
//! VALUES ('notes', 'task', 'DELETE FROM notes WHERE tenant_id = ?1 AND task_id = ?2');
//! ```
//!
//! where `subject` is `user`, `task` or `session`, and `?2` its id. The order among components is the caller's. It owns
//! that an erasure can be said again: one that was begun and not ended is found by what was asked, and goes on under its
//! id. Invariants: a receipt holds no content and no name; a blob goes only if no row refers to it and nobody has put it
//! since the last row that did.

use longhaul_core::{Digest, Scope, Subject, TenantId, TimeMs, UserId};

use crate::{ReadTx, Row, Store, StoreError, Tx, blobs::off_the_runtime, references::references, values};

/// Version of what a row holds.
const V: u32 = 1;

/// An erasure, as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Erasure {
    /// Its id, `erasure_…`.
    pub id: String,
    /// Who had it done.
    pub by: UserId,
    /// `user`, `task`, `session` or `subject`.
    pub asked: String,
    /// The digest of what was asked for; its name is not kept.
    pub asked_digest: String,
    /// When it was begun.
    pub begun_at: TimeMs,
    /// When it ended; one that did not has to be said again.
    pub ended_at: Option<TimeMs>,
    /// What it came to so far, in the caller's form.
    pub receipt: String,
}

/// What an erasure did to blobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ErasedBlobs {
    /// Removed.
    pub removed: u64,
    /// Left, as other rows of the tenant refer to the same content.
    pub shared: u64,
    /// Left, as somebody has put the same content since: a sweep removes it if no row comes to refer to it.
    pub put_again: u64,
}

/// Rows of the store's own tables that were erased.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ErasedRows {
    /// Events.
    pub events: u64,
    /// Tasks.
    pub tasks: u64,
    /// Sessions.
    pub sessions: u64,
    /// Users.
    pub users: u64,
    /// Rows erased by statements that components have entered.
    pub entered: u64,
}

const ERASURE: &str =
    "SELECT erasure_id, user_id, asked, asked_digest, begun_at, ended_at, receipt FROM erasures WHERE tenant_id = ?1";

fn erasure(row: &Row<'_>) -> Result<Erasure, StoreError> {
    Ok(Erasure {
        id: row.get(0)?,
        by: row.get(1)?,
        asked: row.get(2)?,
        asked_digest: row.get(3)?,
        begun_at: row.get(4)?,
        ended_at: row.get(5)?,
        receipt: row.get(6)?,
    })
}

/// Begins an erasure, or goes on with one of the same subject that was begun and not ended.
///
/// # Errors
/// Those of the database.
pub fn begin(tx: &mut Tx<'_>, scope: &Scope, subject: &Subject, receipt: &str) -> Result<Erasure, StoreError> {
    let digest = asked_digest(subject);
    let sql = format!("{ERASURE} AND asked_digest = ?2 AND ended_at IS NULL ORDER BY begun_at LIMIT 1");
    if let Some(begun) = tx.query_optional(&sql, &values![&scope.tenant, &digest], erasure)? {
        return Ok(begun);
    }
    let begun = Erasure {
        id: format!("erasure_{}", tx.ambient().ids.body()),
        by: scope.user.clone(),
        asked: subject.word().to_owned(),
        asked_digest: digest,
        begun_at: tx.now(),
        ended_at: None,
        receipt: receipt.to_owned(),
    };
    tx.execute(
        "INSERT INTO erasures (tenant_id, erasure_id, v, user_id, asked, asked_digest, begun_at, receipt)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        &values![
            &scope.tenant,
            &begun.id,
            V,
            &begun.by,
            &begun.asked,
            &begun.asked_digest,
            begun.begun_at,
            &begun.receipt
        ],
    )?;
    Ok(begun)
}

/// What stands for a subject where its name must not be kept.
#[must_use]
pub fn asked_digest(subject: &Subject) -> String {
    Digest::of_parts([subject.word().as_bytes(), subject.as_str().as_bytes()]).hex()
}

/// Keeps what an erasure came to so far, in the transaction of what it did; `ended` says that nothing is left to do.
///
/// # Errors
/// Those of the database.
pub fn keep(
    tx: &mut Tx<'_>,
    tenant: &TenantId,
    erasure: &str,
    receipt: &str,
    ended: Option<TimeMs>,
) -> Result<(), StoreError> {
    let sql = "UPDATE erasures SET receipt = ?3, ended_at = ?4 WHERE tenant_id = ?1 AND erasure_id = ?2";
    tx.execute(sql, &values![tenant, erasure, receipt, ended]).map(drop)
}

/// The tenant's erasures, newest first.
///
/// # Errors
/// Those of the database.
pub fn list(read: &ReadTx<'_>, tenant: &TenantId, limit: u32) -> Result<Vec<Erasure>, StoreError> {
    let sql = format!("{ERASURE} ORDER BY begun_at DESC, erasure_id DESC LIMIT ?2");
    read.query(&sql, &values![tenant, limit], erasure)
}

/// Enters blobs whose references are erased in this transaction, each with the time of the newest of these.
///
/// # Errors
/// Those of the database.
pub fn doom(tx: &mut Tx<'_>, tenant: &TenantId, erasure: &str, blobs: &[(Digest, TimeMs)]) -> Result<(), StoreError> {
    for (digest, referred_at) in blobs {
        tx.execute(
            "INSERT INTO erasure_blobs (tenant_id, erasure_id, digest, referred_at) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (tenant_id, erasure_id, digest) DO UPDATE SET referred_at =
                 CASE WHEN erasure_blobs.referred_at < ?4 THEN ?4 ELSE erasure_blobs.referred_at END",
            &values![tenant, erasure, digest, *referred_at],
        )?;
    }
    Ok(())
}

/// Forgets which blobs an erasure has entered, in the transaction that keeps what became of them.
///
/// # Errors
/// Those of the database.
pub fn forget_blobs(tx: &mut Tx<'_>, tenant: &TenantId, erasure: &str) -> Result<(), StoreError> {
    let sql = "DELETE FROM erasure_blobs WHERE tenant_id = ?1 AND erasure_id = ?2";
    tx.execute(sql, &values![tenant, erasure]).map(drop)
}

/// Erases the rows of components that have entered how, and the events.
///
/// # Errors
/// Those of the database; [`StoreError::Sql`] for a statement that was entered and does not run.
pub fn erase_entered(tx: &mut Tx<'_>, tenant: &TenantId, subject: &Subject) -> Result<ErasedRows, StoreError> {
    let mut erased = ErasedRows::default();
    let Some(column) = subject.column() else { return Ok(erased) };
    let params = values![tenant, subject.as_str()];
    let sql = "SELECT statement FROM erase_queries WHERE subject = ?1 ORDER BY component, statement";
    for statement in tx.query(sql, &values![subject.word()], |row| row.get::<String>(0))? {
        erased.entered += tx.execute(&statement, &params)?;
    }
    erased.events = tx.execute(&format!("DELETE FROM events WHERE tenant_id = ?1 AND {column} = ?2"), &params)?;
    Ok(erased)
}

/// Erases the rows that say that a task, a session or a user was there; to be called last. Sessions and users that
/// others' rows still need stay.
///
/// # Errors
/// Those of the database.
pub fn erase_identity(tx: &mut Tx<'_>, tenant: &TenantId, subject: &Subject) -> Result<ErasedRows, StoreError> {
    let mut erased = ErasedRows::default();
    let Some(column) = subject.column() else { return Ok(erased) };
    let params = values![tenant, subject.as_str()];
    erased.tasks = tx.execute(&format!("DELETE FROM tasks WHERE tenant_id = ?1 AND {column} = ?2"), &params)?;
    if matches!(subject, Subject::User(_) | Subject::Session(_)) {
        let sql = format!(
            "DELETE FROM sessions WHERE tenant_id = ?1 AND {column} = ?2 AND NOT EXISTS (
                 SELECT 1 FROM tasks t WHERE t.tenant_id = sessions.tenant_id AND t.session_id = sessions.session_id)"
        );
        erased.sessions = tx.execute(&sql, &params)?;
    }
    if matches!(subject, Subject::User(_)) {
        let sql = "DELETE FROM users WHERE tenant_id = ?1 AND user_id = ?2 AND NOT EXISTS (
            SELECT 1 FROM sessions s WHERE s.tenant_id = users.tenant_id AND s.user_id = users.user_id)";
        erased.users = tx.execute(sql, &params)?;
    }
    Ok(erased)
}

/// Erases the events of a task whose data name this id.
///
/// # Errors
/// Those of the database.
pub fn erase_events_naming(tx: &mut Tx<'_>, tenant: &TenantId, task: &str, id: &str) -> Result<u64, StoreError> {
    let sql = "DELETE FROM events WHERE tenant_id = ?1 AND task_id = ?2 AND data LIKE '%' || ?3 || '%'";
    tx.execute(sql, &values![tenant, task, id])
}

impl Store {
    /// Removes the blobs that an erasure has entered and that no row refers to, wherever they are. Waits for a backup
    /// that is under way. What was removed before an error stays removed; call it again, and afterwards [`forget_blobs`].
    ///
    /// # Errors
    /// Those of [`Store::sweep_blobs`].
    pub async fn erase_blobs(&self, tenant: &TenantId, erasure: &str) -> Result<ErasedBlobs, StoreError> {
        let (store, tenant, erasure) = (self.clone(), tenant.clone(), erasure.to_owned());
        off_the_runtime(move || {
            let blobs = store.blobs();
            let _alone = blobs.may_sweep()?;
            blobs.remove_abandoned()?;
            let params = values![&tenant, &erasure];
            let (doomed, needed) = store.read_now(|read| {
                let sql = "SELECT digest, referred_at FROM erasure_blobs WHERE tenant_id = ?1 AND erasure_id = ?2";
                let doomed = read.query(sql, &params, |row| Ok((row.get::<Digest>(0)?, row.get::<TimeMs>(1)?)))?;
                Ok((doomed, references(read)?.blobs))
            })?;
            let mut erased = ErasedBlobs::default();
            for (digest, referred_at) in doomed {
                // What was put up to the moment of the row that is gone was put for it.
                let count = if needed.contains(&(tenant.clone(), digest)) {
                    &mut erased.shared
                } else if blobs.erase(&tenant, &digest, TimeMs(referred_at.0.saturating_add(1)))? {
                    &mut erased.removed
                } else {
                    &mut erased.put_again
                };
                *count += 1;
            }
            Ok(erased)
        })
        .await
    }
}

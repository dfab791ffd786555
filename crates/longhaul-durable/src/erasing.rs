//! Erasing what was recorded of executions, as part of erasing whatever is left of a user, a task or a session.
//!
//! It owns which rows those are: checkpoints, snapshots, results of steps, acts, waits, answers, interventions, entries
//! of the queue, deliveries, and the cache of nodes. Invariant: nothing of an unfinished execution is erased.

use longhaul_core::{ExecutionId, Subject, TaskId, TenantId, ThreadId};
use longhaul_store::{ReadTx, Row, StoreError, Tx, values};

use crate::records::{family, whole};

/// Something that has not ended, and so stands in the way of an erasure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfinished {
    /// The execution, or the entry of the queue that will become one.
    pub id: String,
    /// Its thread.
    pub thread: ThreadId,
    /// How it is: `running`, `waiting`, `queued` ….
    pub status: String,
}

/// What was erased.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Erased {
    /// Executions.
    pub executions: u64,
    /// Rows of theirs: checkpoints, steps, waits ….
    pub rows: u64,
    /// Entries of the queue that had ended.
    pub entries: u64,
    /// Events that were delivered to waits.
    pub deliveries: u64,
    /// Cached results of nodes, all of the tenant: they do not say whose they are.
    pub cached: u64,
}

const ENDED: &str = "status IN ('completed', 'cancelled', 'abandoned')";

fn blocking(row: &Row<'_>) -> Result<Unfinished, StoreError> {
    Ok(Unfinished { id: row.get(0)?, thread: row.get(1)?, status: row.get(2)? })
}

/// Executions and entries of the queue that have not ended, of whatever kind of subject.
///
/// # Errors
/// Those of the store.
pub fn unfinished(read: &ReadTx<'_>, tenant: &TenantId, subject: &Subject) -> Result<Vec<Unfinished>, StoreError> {
    let Some(column) = subject.column() else { return Ok(Vec::new()) };
    unfinished_where(read, &format!("{column} = ?2"), &values![tenant, subject.as_str()])
}

/// The same of one task.
///
/// # Errors
/// Those of the store.
pub fn unfinished_of_task(read: &ReadTx<'_>, tenant: &TenantId, task: &TaskId) -> Result<Vec<Unfinished>, StoreError> {
    unfinished_where(read, "task_id = ?2", &values![tenant, task])
}

fn unfinished_where(
    read: &ReadTx<'_>,
    whose: &str,
    params: &[longhaul_store::Value],
) -> Result<Vec<Unfinished>, StoreError> {
    let executions = format!(
        "SELECT execution_id, thread_id, status FROM executions
         WHERE tenant_id = ?1 AND {whose} AND NOT ({ENDED}) ORDER BY execution_id"
    );
    let mut found = read.query(&executions, params, blocking)?;
    let entries = format!(
        "SELECT entry_id, thread_id, status FROM queue q
         WHERE tenant_id = ?1 AND {whose} AND status <> 'done' AND NOT EXISTS (
             SELECT 1 FROM executions e WHERE e.tenant_id = q.tenant_id AND e.thread_id = q.thread_id
                 AND NOT (e.{ENDED}))
         ORDER BY entry_id"
    );
    found.extend(read.query(&entries, params, blocking)?);
    Ok(found)
}

/// The executions that are to be erased.
///
/// # Errors
/// Those of the store.
pub fn executions(read: &ReadTx<'_>, tenant: &TenantId, subject: &Subject) -> Result<Vec<ExecutionId>, StoreError> {
    let Some(column) = subject.column() else { return Ok(Vec::new()) };
    let sql = format!("SELECT execution_id FROM executions WHERE tenant_id = ?1 AND {column} = ?2 ORDER BY 1");
    read.query(&sql, &values![tenant, subject.as_str()], |row| row.get(0))
}

/// Erases executions with everything that was recorded of them and of what they began. Those that have not ended, or
/// have begun again, are left.
///
/// # Errors
/// Those of the store.
pub fn erase_executions(tx: &mut Tx<'_>, tenant: &TenantId, executions: &[ExecutionId]) -> Result<Erased, StoreError> {
    let mut erased = Erased::default();
    for execution in executions {
        let sql = format!("SELECT thread_id FROM executions WHERE tenant_id = ?1 AND execution_id = ?2 AND {ENDED}");
        let thread = tx.query_optional(&sql, &values![tenant, execution], |row| row.get::<ThreadId>(0))?;
        let Some(thread) = thread else { continue };
        for member in family::members(tx, tenant, execution)? {
            erased.executions += 1;
            erased.rows += whole::delete(tx, tenant, &member)?.saturating_sub(1);
        }
        forget_thread(tx, tenant, &thread)?;
    }
    Ok(erased)
}

/// A thread's name may say something, too: it goes with its last execution, unless somebody holds it.
fn forget_thread(tx: &mut Tx<'_>, tenant: &TenantId, thread: &ThreadId) -> Result<(), StoreError> {
    let now = tx.now();
    tx.execute(
        "DELETE FROM leases WHERE tenant_id = ?1 AND thread_id = ?2 AND expires_at <= ?3 AND NOT EXISTS (
             SELECT 1 FROM executions e WHERE e.tenant_id = ?1 AND e.thread_id = ?2)",
        &values![tenant, thread, now],
    )
    .map(drop)
}

/// Erases what else says something of the subject: entries of the queue that have ended, deliveries, the cache.
///
/// # Errors
/// Those of the store.
pub fn erase_rest(tx: &mut Tx<'_>, tenant: &TenantId, subject: &Subject) -> Result<Erased, StoreError> {
    let mut erased =
        Erased { cached: tx.execute("DELETE FROM cache WHERE tenant_id = ?1", &values![tenant])?, ..Erased::default() };
    let Some(column) = subject.column() else { return Ok(erased) };
    let params = values![tenant, subject.as_str()];
    let sql = format!("DELETE FROM queue WHERE tenant_id = ?1 AND {column} = ?2 AND status = 'done'");
    erased.entries = tx.execute(&sql, &params)?;
    if matches!(subject, Subject::User(_)) {
        erased.deliveries = tx.execute("DELETE FROM deliveries WHERE tenant_id = ?1 AND user_id = ?2", &params)?;
    }
    Ok(erased)
}

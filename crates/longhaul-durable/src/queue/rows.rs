//! The rows of the queue.
//!
//! It owns the SQL, and what an entry becomes when its execution changes. Invariant: the number of a tenant's entries
//! that are not done stands in `queue_tenants`, and changes with them.

use longhaul_core::{EventDraft, Scope, TaskScope, TenantId, ThreadId, TimeMs};
use longhaul_store::{ReadTx, Row, StoreError, Tx, Value, values};

use super::{Enqueue, Enqueued, Entry, EntryFilter, EntryId, EntryStatus, QUEUED};
use crate::{
    DurableError, Status,
    records::{Pen, V},
};

/// The tables of the queue; a step of this crate's migrations.
pub(crate) const TABLES: &str = "
CREATE TABLE queue (
    tenant_id TEXT NOT NULL,
    entry_id TEXT NOT NULL,
    v INTEGER NOT NULL,
    user_id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    trace_id TEXT NOT NULL,
    thread_id TEXT NOT NULL,
    graph TEXT NOT NULL,
    initial TEXT NOT NULL,
    status TEXT NOT NULL,
    priority INTEGER NOT NULL,
    ready_at INTEGER NOT NULL,
    dedupe_key TEXT,
    attempts INTEGER NOT NULL,
    attempts_max INTEGER NOT NULL,
    retry_ms INTEGER NOT NULL,
    error TEXT,
    execution_id TEXT,
    worker TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, entry_id)
) STRICT;
CREATE UNIQUE INDEX queue_by_thread ON queue (tenant_id, thread_id) WHERE status <> 'done';
CREATE UNIQUE INDEX queue_by_key ON queue (tenant_id, dedupe_key) WHERE dedupe_key IS NOT NULL;
CREATE INDEX queue_by_order ON queue (tenant_id, status, priority DESC, ready_at, entry_id);
CREATE INDEX queue_by_time ON queue (tenant_id, status, ready_at);
CREATE TABLE queue_tenants (
    tenant_id TEXT NOT NULL PRIMARY KEY,
    v INTEGER NOT NULL,
    turn INTEGER NOT NULL,
    unfinished INTEGER NOT NULL
) STRICT;
";

/// Longest pause after a failure.
const RETRY_MS_MAX: u64 = 300_000;

/// An entry in the hands of a run.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    pub(crate) id: EntryId,
    /// This one included.
    pub(crate) attempts: u32,
    pub(crate) attempts_max: u32,
    pub(crate) retry_ms: u64,
}

impl Held {
    pub(crate) fn of(entry: &Entry) -> Self {
        Self {
            id: entry.id.clone(),
            attempts: entry.attempts + 1,
            attempts_max: entry.attempts_max,
            retry_ms: entry.retry_ms,
        }
    }
}

/// An entry to be made.
pub(super) struct New {
    pub(super) scope: TaskScope,
    pub(super) graph: String,
    pub(super) thread: ThreadId,
    pub(super) initial: String,
    pub(super) how: Enqueue,
}

const COLUMNS: &str = "SELECT tenant_id, user_id, session_id, task_id, trace_id, entry_id, thread_id, graph, status,
    priority, ready_at, attempts, attempts_max, retry_ms, error, execution_id, worker, created_at, updated_at FROM queue";

fn entry(row: &Row<'_>) -> Result<Entry, StoreError> {
    let unknown = |column: usize, expected: &'static str| StoreError::Column {
        column,
        expected,
        found: row.get::<String>(column).unwrap_or_default(),
    };
    Ok(Entry {
        scope: TaskScope {
            scope: Scope { tenant: row.get(0)?, user: row.get(1)? },
            session: row.get(2)?,
            task: row.get(3)?,
            trace: row.get(4)?,
        },
        id: row.text(5)?.parse().map_err(|_| unknown(5, "the id of an entry"))?,
        thread: row.get(6)?,
        graph: row.get(7)?,
        status: EntryStatus::parse(row.text(8)?).ok_or_else(|| unknown(8, "the status of an entry"))?,
        priority: row.get(9)?,
        ready_at: row.get(10)?,
        attempts: row.get(11)?,
        attempts_max: row.get(12)?,
        retry_ms: row.get(13)?,
        error: row.get(14)?,
        execution: row.get(15)?,
        worker: row.get(16)?,
        created_at: row.get(17)?,
        updated_at: row.get(18)?,
    })
}

/// Makes an entry, unless there is one for the key.
pub(super) fn insert(tx: &mut Tx<'_>, new: New, entries_max: u32) -> Result<Enqueued, DurableError> {
    let New { scope, graph, thread, initial, how } = new;
    let tenant = &scope.scope.tenant;
    let id_of = |row: &Row<'_>| Ok(EntryId(row.get(0)?));
    if let Some(key) = &how.dedupe_key {
        let known = tx.query_optional(
            "SELECT entry_id FROM queue WHERE tenant_id = ?1 AND dedupe_key = ?2",
            &values![tenant, key],
            id_of,
        )?;
        if let Some(known) = known {
            return Ok(Enqueued::Repeated(known));
        }
    }
    let taken = tx.query_optional(
        "SELECT entry_id FROM queue WHERE tenant_id = ?1 AND thread_id = ?2 AND status <> 'done'",
        &values![tenant, &thread],
        id_of,
    )?;
    if let Some(entry) = taken {
        return Err(DurableError::ThreadQueued { thread, entry });
    }
    let held =
        tx.query_optional("SELECT unfinished FROM queue_tenants WHERE tenant_id = ?1", &values![tenant], |row| {
            row.get::<u32>(0)
        })?;
    if held.is_some_and(|held| held >= entries_max) {
        return Err(DurableError::QueueFull { tenant: tenant.clone(), entries_max });
    }
    tx.execute(
        "INSERT INTO queue_tenants (tenant_id, v, turn, unfinished) VALUES (?1, ?2, 0, 1)
         ON CONFLICT (tenant_id) DO UPDATE SET unfinished = queue_tenants.unfinished + 1",
        &values![tenant, V],
    )?;
    let (id, now) = (EntryId::from_body(&tx.ambient().ids.body()), tx.now());
    let initial = tx.seal(|| format!("{tenant}/{}", id.as_str()), initial)?;
    tx.execute(
        "INSERT INTO queue (tenant_id, entry_id, v, user_id, session_id, task_id, trace_id, thread_id, graph, initial,
             status, priority, ready_at, dedupe_key, attempts, attempts_max, retry_ms, created_at, updated_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, 'queued', ?11, ?12, ?13, 0, ?14, ?15, ?16, ?16)",
        &values![
            tenant,
            id.as_str(),
            V,
            &scope.scope.user,
            &scope.session,
            &scope.task,
            &scope.trace,
            &thread,
            &graph,
            initial,
            how.priority,
            how.ready_at.unwrap_or(now),
            how.dedupe_key.as_deref(),
            how.attempts_max.max(1),
            how.retry_ms,
            now,
        ],
    )?;
    tx.notify(QUEUED, "")?;
    Ok(Enqueued::New(id))
}

pub(super) fn list(read: &ReadTx<'_>, scope: &Scope, filter: &EntryFilter) -> Result<Vec<Entry>, StoreError> {
    read.query(
        &format!(
            "{COLUMNS} WHERE tenant_id = ?1 AND user_id = ?2 AND (?3 = '' OR status = ?3) AND (?4 = '' OR graph = ?4)
                 AND entry_id > ?5
             ORDER BY entry_id LIMIT ?6"
        ),
        &values![
            &scope.tenant,
            &scope.user,
            filter.status.map_or("", EntryStatus::as_str),
            filter.graph.as_deref().unwrap_or(""),
            filter.after.as_ref().map_or("", EntryId::as_str),
            filter.limit,
        ],
        entry,
    )
}

pub(super) fn of_user(read: &ReadTx<'_>, scope: &Scope, id: &EntryId) -> Result<Option<Entry>, StoreError> {
    Ok(by_id(read, &scope.tenant, id)?.filter(|entry| entry.scope.scope.user == scope.user))
}

pub(super) fn by_id(read: &ReadTx<'_>, tenant: &TenantId, id: &EntryId) -> Result<Option<Entry>, StoreError> {
    read.query_optional(
        &format!("{COLUMNS} WHERE tenant_id = ?1 AND entry_id = ?2"),
        &values![tenant, id.as_str()],
        entry,
    )
}

/// The state with which the entry's execution begins.
pub(crate) fn initial(read: &ReadTx<'_>, entry: &Entry) -> Result<String, StoreError> {
    read.query_one(
        "SELECT initial FROM queue WHERE tenant_id = ?1 AND entry_id = ?2",
        &values![&entry.scope.scope.tenant, entry.id.as_str()],
        |row| read.unseal(|| format!("{}/{}", entry.scope.scope.tenant, entry.id.as_str()), row.get(0)?),
    )
}

/// `?n, ?n+1 …` for the names of graphs, behind `params`.
fn names(params: &mut Vec<Value>, graphs: &[String]) -> String {
    let mut list = String::new();
    for graph in graphs {
        params.push(graph.into());
        list.push_str(if list.is_empty() { "?" } else { ", ?" });
        list.push_str(&params.len().to_string());
    }
    list
}

/// The tenants that have something ready at this time and may have more at work, those first whose turn was longest ago.
pub(super) fn tenants(
    read: &ReadTx<'_>,
    now: TimeMs,
    graphs: &[String],
    tenant_max: u32,
    limit: u32,
) -> Result<Vec<TenantId>, StoreError> {
    let mut params = values![now, tenant_max, limit].to_vec();
    let list = names(&mut params, graphs);
    read.query(
        &format!(
            "SELECT t.tenant_id FROM queue_tenants t
             WHERE t.unfinished > 0
                 AND EXISTS (SELECT 1 FROM queue q WHERE q.tenant_id = t.tenant_id AND q.status = 'queued'
                     AND q.ready_at <= ?1 AND q.graph IN ({list}))
                 AND (SELECT COUNT(*) FROM queue c WHERE c.tenant_id = t.tenant_id AND c.status = 'claimed') < ?2
             ORDER BY t.turn, t.tenant_id LIMIT ?3"
        ),
        &params,
        |row| row.get(0),
    )
}

/// The entries of a tenant that are ready, in the order in which they are to be run.
pub(super) fn ready(
    read: &ReadTx<'_>,
    tenant: &TenantId,
    graphs: &[String],
    limit: u32,
) -> Result<Vec<Entry>, StoreError> {
    let mut params = values![tenant, read.now(), limit].to_vec();
    let list = names(&mut params, graphs);
    read.query(
        &format!(
            "{COLUMNS} WHERE tenant_id = ?1 AND status = 'queued' AND ready_at <= ?2 AND graph IN ({list})
             ORDER BY priority DESC, ready_at, entry_id LIMIT ?3"
        ),
        &params,
        entry,
    )
}

/// When the next entry will be ready that is not at this time.
pub(super) fn next_due(read: &ReadTx<'_>, now: TimeMs, graphs: &[String]) -> Result<Option<TimeMs>, StoreError> {
    let mut params = values![now].to_vec();
    let list = names(&mut params, graphs);
    read.query_one(
        &format!(
            "SELECT MIN(q.ready_at) FROM queue_tenants t
             JOIN queue q ON q.tenant_id = t.tenant_id AND q.status = 'queued' AND q.ready_at > ?1
             WHERE t.unfinished > 0 AND q.graph IN ({list})"
        ),
        &params,
        |row| row.get(0),
    )
}

/// The entries that somebody is at work on, or was when it died.
pub(super) fn claimed(read: &ReadTx<'_>, graphs: &[String]) -> Result<Vec<Entry>, StoreError> {
    let mut params = Vec::new();
    let list = names(&mut params, graphs);
    read.query(
        &format!(
            "{COLUMNS} WHERE status = 'claimed' AND graph IN ({list})
                 AND tenant_id IN (SELECT t.tenant_id FROM queue_tenants t WHERE t.unfinished > 0)
             ORDER BY updated_at LIMIT 1000"
        ),
        &params,
        entry,
    )
}

/// Names of graphs of ready entries that are not among these.
pub(super) fn unserved(read: &ReadTx<'_>, graphs: &[String]) -> Result<Vec<String>, StoreError> {
    let mut params = values![read.now()].to_vec();
    let list = names(&mut params, graphs);
    read.query(
        &format!(
            "SELECT DISTINCT q.graph FROM queue_tenants t
             JOIN queue q ON q.tenant_id = t.tenant_id AND q.status = 'queued' AND q.ready_at <= ?1
             WHERE t.unfinished > 0 AND q.graph NOT IN ({list})"
        ),
        &params,
        |row| row.get(0),
    )
}

/// Says that a worker is at work on the entry, and that its tenant has had its turn.
pub(super) fn take(
    tx: &mut Tx<'_>,
    entry: &Entry,
    held: &Held,
    execution: &str,
    worker: &str,
) -> Result<(), StoreError> {
    let (tenant, now) = (&entry.scope.scope.tenant, tx.now());
    tx.execute(
        "UPDATE queue SET status = 'claimed', attempts = ?3, execution_id = ?4, worker = ?5, updated_at = ?6
         WHERE tenant_id = ?1 AND entry_id = ?2",
        &values![tenant, entry.id.as_str(), held.attempts, execution, worker, now],
    )?;
    tx.execute(
        "UPDATE queue_tenants SET turn = 1 + (SELECT MAX(turn) FROM queue_tenants) WHERE tenant_id = ?1",
        &values![tenant],
    )
    .map(drop)
}

/// The entry follows what became of its execution.
pub(crate) fn follow(tx: &mut Tx<'_>, pen: &Pen, status: Status, error: Option<&str>) -> Result<(), StoreError> {
    let tenant = pen.tenant();
    let Some(held) = pen.entry() else {
        // Whoever ends an execution for good need not know of the queue.
        if matches!(status, Status::Cancelled | Status::Abandoned) {
            let entry = tx.query_optional(
                "SELECT entry_id FROM queue WHERE tenant_id = ?1 AND execution_id = ?2 AND status <> 'done'",
                &values![tenant, pen.execution()],
                |row| Ok(EntryId(row.get(0)?)),
            )?;
            if let Some(entry) = entry {
                finish(tx, tenant, &entry)?;
            }
        }
        return Ok(());
    };
    match status {
        Status::Running => Ok(()),
        Status::Completed | Status::Cancelled | Status::Abandoned => finish(tx, tenant, &held.id),
        Status::Waiting => {
            let now = tx.now();
            tx.execute(
                "UPDATE queue SET status = 'waiting', attempts = 0, error = NULL, updated_at = ?3
                 WHERE tenant_id = ?1 AND entry_id = ?2",
                &values![tenant, held.id.as_str(), now],
            )?;
            tell_of_room(tx, tenant)
        }
        Status::Stopped => put_back(tx, tenant, &held.id, held.attempts - 1, None, 0),
        Status::Failed => fail(tx, tenant, held, error.unwrap_or("")),
    }
}

/// Puts the entry back, or parks it where it has failed too often.
pub(super) fn fail(tx: &mut Tx<'_>, tenant: &TenantId, held: &Held, error: &str) -> Result<(), StoreError> {
    if held.attempts >= held.attempts_max {
        return park(tx, tenant, &held.id, error);
    }
    let doublings = (held.attempts - 1).min(20);
    let pause = held.retry_ms.saturating_mul(1 << doublings).min(RETRY_MS_MAX);
    put_back(tx, tenant, &held.id, held.attempts, Some(error), pause)
}

fn put_back(
    tx: &mut Tx<'_>,
    tenant: &TenantId,
    id: &EntryId,
    attempts: u32,
    error: Option<&str>,
    pause_ms: u64,
) -> Result<(), StoreError> {
    let now = tx.now();
    let ready_at = now.0.saturating_add(i64::try_from(pause_ms).unwrap_or(i64::MAX));
    tx.execute(
        "UPDATE queue SET status = 'queued', attempts = ?3, error = ?4, ready_at = ?5, updated_at = ?6
         WHERE tenant_id = ?1 AND entry_id = ?2",
        &values![tenant, id.as_str(), attempts, error, ready_at, now],
    )?;
    tx.notify(QUEUED, "")
}

/// Notes a failure that its execution does not tell of, unless somebody else has the entry by now.
pub(crate) fn note_failure(
    tx: &mut Tx<'_>,
    tenant: &TenantId,
    held: &Held,
    worker: &str,
    error: Option<&str>,
) -> Result<(), StoreError> {
    let ours = by_id(tx, tenant, &held.id)?
        .is_some_and(|entry| entry.status == EntryStatus::Claimed && entry.worker.as_deref() == Some(worker));
    match (ours, error) {
        (false, _) => Ok(()),
        (true, Some(error)) => fail(tx, tenant, held, error),
        (true, None) => put_back(tx, tenant, &held.id, held.attempts - 1, None, 0),
    }
}

/// Sets an entry aside until somebody says [`crate::Runtime::retry`].
pub(crate) fn park(tx: &mut Tx<'_>, tenant: &TenantId, id: &EntryId, error: &str) -> Result<(), StoreError> {
    let now = tx.now();
    let entry = by_id(tx, tenant, id)?;
    tx.execute(
        "UPDATE queue SET status = 'parked', error = ?3, updated_at = ?4
         WHERE tenant_id = ?1 AND entry_id = ?2 AND status <> 'done'",
        &values![tenant, id.as_str(), error, now],
    )?;
    if let Some(entry) = entry {
        let data = serde_json::json!({ "entry": id.as_str(), "error": error });
        let draft = EventDraft::internal("queue.parked", data);
        tx.append_event(&entry.scope, entry.execution.as_ref(), None, draft)?;
    }
    tell_of_room(tx, tenant)
}

/// Puts a parked entry back.
pub(super) fn unpark(tx: &mut Tx<'_>, tenant: &TenantId, id: &EntryId) -> Result<(), StoreError> {
    put_back(tx, tenant, id, 0, None, 0)
}

/// Leaves an entry alone for a while whose thread somebody else has.
pub(super) fn postpone(tx: &mut Tx<'_>, entry: &Entry, ms: i64) -> Result<(), StoreError> {
    let ready_at = TimeMs(tx.now().0.saturating_add(ms));
    tx.execute(
        "UPDATE queue SET ready_at = ?3 WHERE tenant_id = ?1 AND entry_id = ?2",
        &values![&entry.scope.scope.tenant, entry.id.as_str(), ready_at],
    )
    .map(drop)
}

/// Ends an entry. One with a key is kept, so that the key is known.
pub(super) fn finish(tx: &mut Tx<'_>, tenant: &TenantId, id: &EntryId) -> Result<(), StoreError> {
    let (key, now) = (values![tenant, id.as_str()], tx.now());
    let mut changed =
        tx.execute("DELETE FROM queue WHERE tenant_id = ?1 AND entry_id = ?2 AND dedupe_key IS NULL", &key)?;
    if changed == 0 {
        changed = tx.execute(
            "UPDATE queue SET status = 'done', initial = '', error = NULL, updated_at = ?3
             WHERE tenant_id = ?1 AND entry_id = ?2 AND status <> 'done'",
            &values![tenant, id.as_str(), now],
        )?;
    }
    if changed > 0 {
        tx.execute("UPDATE queue_tenants SET unfinished = unfinished - 1 WHERE tenant_id = ?1", &values![tenant])?;
        tell_of_room(tx, tenant)?;
    }
    Ok(())
}

/// Wakes workers that may have left something of this tenant alone because too much of it was at work.
fn tell_of_room(tx: &mut Tx<'_>, tenant: &TenantId) -> Result<(), StoreError> {
    let now = tx.now();
    let more = tx.query_optional(
        "SELECT 1 FROM queue WHERE tenant_id = ?1 AND status = 'queued' AND ready_at <= ?2 LIMIT 1",
        &values![tenant, now],
        |_| Ok(()),
    )?;
    more.map_or(Ok(()), |()| tx.notify(QUEUED, ""))
}

/// Something that the thread's execution waited for has ended: its entry, if it has one, is ready.
pub(crate) fn wake(tx: &mut Tx<'_>, tenant: &TenantId, thread: &ThreadId) -> Result<(), StoreError> {
    let now = tx.now();
    let changed = tx.execute(
        "UPDATE queue SET status = 'queued', ready_at = ?3, updated_at = ?3
         WHERE tenant_id = ?1 AND thread_id = ?2 AND status = 'waiting'",
        &values![tenant, thread, now],
    )?;
    if changed > 0 { tx.notify(QUEUED, "") } else { Ok(()) }
}

//! Whose records a task's are, who else may see them, and where their index is.
//!
//! It owns `record_tasks`. Invariant: within a tenant a record is seen by its own user, by the user who owns the task's
//! records, and by whoever has a grant on the task's partition of the index; by nobody else.

use longhaul_core::{Digest, Scope, TaskId, UserId};
use longhaul_memory::{Memory, Namespace};
use longhaul_store::{ReadTx, StoreError, Tx, values};

use crate::{Record, WorkspaceError};

/// What partitions of tasks are made for, as their row says.
pub(crate) const PURPOSE: &str = "workspace";
/// Longest body of an id that is taken over as it is.
const BODY_CHARS_MAX: usize = 100;

/// The partition of the index that holds a task's records: `ws:` and the body of its id, or a digest's beginning where
/// the body has letters that a partition's name cannot have.
#[must_use]
pub fn partition_of(task: &TaskId) -> Namespace {
    named("ws:", task.as_str())
}

/// The partition of the index that holds a user's conversations, `talk:…`: named by memory, which keeps it for its user.
#[must_use]
pub fn talk_partition_of(user: &UserId) -> Namespace {
    longhaul_memory::user::talks_of(user)
}

fn named(prefix: &str, id: &str) -> Namespace {
    let body = id.split_once('_').map_or(id, |(_, body)| body);
    let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let name = if body.len() <= BODY_CHARS_MAX && body.bytes().all(fits) && !body.starts_with("x-") {
        format!("{prefix}{body}")
    } else {
        format!("{prefix}x-{}", &Digest::of(body).hex()[..32])
    };
    name.parse().unwrap_or_default()
}

/// The row of a task that records were kept for.
#[derive(Debug, Clone)]
pub(crate) struct TaskRow {
    pub(crate) user: UserId,
    pub(crate) last_seq: i64,
}

pub(crate) fn task_row(read: &ReadTx<'_>, scope: &Scope, task: &TaskId) -> Result<Option<TaskRow>, StoreError> {
    read.query_optional(
        "select user_id, last_seq from record_tasks where tenant_id = ?1 and task_id = ?2",
        &values![&scope.tenant, task],
        |row| Ok(TaskRow { user: row.get(0)?, last_seq: row.get(1)? }),
    )
}

/// Whether the user may see this record.
pub(crate) fn may_see(read: &ReadTx<'_>, memory: &Memory, scope: &Scope, record: &Record) -> Result<bool, StoreError> {
    if record.owner.scope.user == scope.user {
        return Ok(true);
    }
    may_see_task(read, memory, scope, &record.owner.task)
}

/// Whether the user may see all records of this task.
pub(crate) fn may_see_task(
    read: &ReadTx<'_>,
    memory: &Memory,
    scope: &Scope,
    task: &TaskId,
) -> Result<bool, StoreError> {
    let is_owner = task_row(read, scope, task)?.is_some_and(|row| row.user == scope.user);
    Ok(is_owner || memory.may_read(read, scope, &partition_of(task))?)
}

/// Makes sure that the user may write records of this task, and gives the first of `count` numbers for new ones. Whoever
/// writes first owns them; where the task has a row, that is its user.
pub(crate) fn next(
    tx: &mut Tx<'_>,
    memory: &Memory,
    scope: &Scope,
    task: &TaskId,
    count: usize,
) -> Result<i64, WorkspaceError> {
    let namespace = partition_of(task);
    let row = task_row(tx, scope, task)?;
    let owner = match &row {
        Some(row) => Some(row.user.clone()),
        None => tx.query_optional(
            "select user_id from tasks where tenant_id = ?1 and task_id = ?2",
            &values![&scope.tenant, task],
            |row| row.get::<UserId>(0),
        )?,
    };
    if let Some(owner) = owner.filter(|owner| *owner != scope.user)
        && !memory.may_write(tx, scope, &namespace)?
    {
        return Err(WorkspaceError::NoAccess { task: task.clone(), owner });
    }
    let first = row.as_ref().map_or(0, |row| row.last_seq) + 1;
    let last = first + i64::try_from(count).unwrap_or(i64::MAX) - 1;
    if row.is_none_or(|row| row.user == scope.user) {
        memory.create_partition(tx, scope, &namespace, PURPOSE)?;
    }
    let now = tx.now();
    tx.execute(
        "insert into record_tasks (tenant_id, task_id, user_id, namespace, last_seq, written_at)
         values (?1, ?2, ?3, ?4, ?5, ?6)
         on conflict (tenant_id, task_id) do update set namespace = excluded.namespace, last_seq = excluded.last_seq,
             written_at = excluded.written_at",
        &values![&scope.tenant, task, &scope.user, namespace.as_str(), last, now],
    )?;
    Ok(first)
}

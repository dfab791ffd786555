//! The rows that say whose work is whose: tenants, users, sessions, tasks.
//!
//! It owns identity only; what a task is about is its owner's, in the `data` column. Invariant: a thread id names at
//! most one task of a tenant.

use longhaul_core::{Scope, SessionId, TaskId, TaskScope, ThreadId, TimeMs, TraceId, UserId};
use serde_json::Value as Json;

use crate::{ReadTx, Row, StoreError, Tx, Value, values};

/// A task to be created.
#[derive(Debug, Clone, PartialEq)]
pub struct NewTask {
    /// The name of its state, unique within the tenant.
    pub thread: ThreadId,
    /// What kind of work it is, by the crate that does it: `harness`.
    pub kind: String,
    /// What a person calls it.
    pub title: String,
    /// The folder it works in, absolute.
    pub dir: Option<String>,
    /// The model chosen for it, as a model spec.
    pub model: Option<String>,
    /// The owner's details.
    pub data: Json,
}

/// A stored task.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// Tenant, user, session, task, and the trace of the request that created it.
    pub scope: TaskScope,
    /// The name of its state.
    pub thread: ThreadId,
    /// What kind of work it is.
    pub kind: String,
    /// What a person calls it.
    pub title: String,
    /// The folder it works in.
    pub dir: Option<String>,
    /// The model chosen for it.
    pub model: Option<String>,
    /// The owner's details.
    pub data: Json,
    /// When it was created.
    pub created_at: TimeMs,
    /// When it was last changed.
    pub updated_at: TimeMs,
}

/// Makes sure that a session is known, with its tenant and user where they are new. Gives whose it is: the scope's user,
/// unless another one of the tenant began it.
///
/// # Errors
/// Those of the database.
pub fn begin_session(tx: &mut Tx<'_>, scope: &Scope, session: &SessionId) -> Result<UserId, StoreError> {
    let (tenant, user, now) = (&scope.tenant, &scope.user, tx.now());
    tx.execute(
        "INSERT INTO tenants (tenant_id, name, created_at) VALUES (?1, ?1, ?2) ON CONFLICT DO NOTHING",
        &values![tenant, now],
    )?;
    tx.execute(
        "INSERT INTO users (tenant_id, user_id, created_at) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
        &values![tenant, user, now],
    )?;
    tx.execute(
        "INSERT INTO sessions (tenant_id, session_id, user_id, created_at) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT DO NOTHING",
        &values![tenant, session, user, now],
    )?;
    tx.query_one(
        "SELECT user_id FROM sessions WHERE tenant_id = ?1 AND session_id = ?2",
        &values![tenant, session],
        |row| row.get(0),
    )
}

/// Creates a task, with its tenant and user where they are new, in the given session or a new one.
///
/// # Errors
/// [`StoreError::Constraint`] when the thread already names a task or the session is another user's; those of the
/// database.
pub fn create(tx: &mut Tx<'_>, scope: &Scope, session: Option<&SessionId>, task: NewTask) -> Result<Task, StoreError> {
    let trace = TraceId::from_body(&tx.ambient().ids.body());
    create_within(tx, scope, session, &trace, task)
}

/// The same for a request that has a trace already.
///
/// # Errors
/// Those of [`create`].
pub fn create_within(
    tx: &mut Tx<'_>,
    scope: &Scope,
    session: Option<&SessionId>,
    trace: &TraceId,
    task: NewTask,
) -> Result<Task, StoreError> {
    let now = tx.now();
    let body = || tx.ambient().ids.body();
    let scope = TaskScope {
        scope: scope.clone(),
        session: session.cloned().unwrap_or_else(|| SessionId::from_body(&body())),
        task: TaskId::from_body(&body()),
        trace: trace.clone(),
    };
    let (tenant, user) = (&scope.scope.tenant, &scope.scope.user);
    let owner = begin_session(tx, &scope.scope, &scope.session)?;
    if owner != *user {
        return Err(StoreError::Constraint { detail: format!("session {} is another user's", scope.session) });
    }
    tx.execute(
        "INSERT INTO tasks (tenant_id, task_id, user_id, session_id, thread_id, trace_id, kind, title, dir, model,
             data, created_at, updated_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?12)",
        &values![
            tenant,
            &scope.task,
            user,
            &scope.session,
            &task.thread,
            &scope.trace,
            &task.kind,
            &task.title,
            task.dir.as_deref(),
            task.model.as_deref(),
            &task.data,
            now,
        ],
    )?;
    let NewTask { thread, kind, title, dir, model, data } = task;
    Ok(Task { scope, thread, kind, title, dir, model, data, created_at: now, updated_at: now })
}

/// The task of this id.
///
/// # Errors
/// Those of the database.
pub fn get(read: &ReadTx<'_>, scope: &Scope, task: &TaskId) -> Result<Option<Task>, StoreError> {
    one(read, scope, "task_id", task.as_str())
}

/// The task whose state this thread names.
///
/// # Errors
/// Those of the database.
pub fn by_thread(read: &ReadTx<'_>, scope: &Scope, thread: &ThreadId) -> Result<Option<Task>, StoreError> {
    one(read, scope, "thread_id", thread.as_str())
}

/// The newest task that works in this folder.
///
/// # Errors
/// Those of the database.
pub fn by_dir(read: &ReadTx<'_>, scope: &Scope, dir: &str) -> Result<Option<Task>, StoreError> {
    one(read, scope, "dir", dir)
}

/// The user's tasks, newest first, at most `limit`.
///
/// # Errors
/// Those of the database.
pub fn list(read: &ReadTx<'_>, scope: &Scope, limit: u32) -> Result<Vec<Task>, StoreError> {
    read.query(
        &format!("{COLUMNS} WHERE tenant_id = ?1 AND user_id = ?2 ORDER BY created_at DESC, task_id DESC LIMIT ?3"),
        &values![&scope.tenant, &scope.user, limit],
        task,
    )
}

/// Which of a user's tasks.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// Those of this conversation.
    pub session: Option<SessionId>,
    /// Those made before this one.
    pub before: Option<TaskId>,
    /// At most so many.
    pub limit: u32,
}

/// The user's tasks in the order of their ids, which is that in which they were made, newest first.
///
/// # Errors
/// Those of the database.
pub fn page(read: &ReadTx<'_>, scope: &Scope, page: &Page) -> Result<Vec<Task>, StoreError> {
    let mut sql = format!("{COLUMNS} WHERE tenant_id = ?1 AND user_id = ?2");
    let mut params = values![&scope.tenant, &scope.user].to_vec();
    for (condition, value) in
        [("task_id <", page.before.as_ref().map(Value::from)), ("session_id =", page.session.as_ref().map(Value::from))]
    {
        if let Some(value) = value {
            params.push(value);
            sql.push_str(&format!(" AND {condition} ?{}", params.len()));
        }
    }
    sql.push_str(&format!(" ORDER BY task_id DESC LIMIT {}", page.limit));
    read.query(&sql, &params, task)
}

/// Replaces the folder, the model and the owner's details of a task.
///
/// # Errors
/// [`StoreError::NoRow`] when the user has no such task; those of the database.
pub fn update(
    tx: &mut Tx<'_>,
    scope: &Scope,
    task: &TaskId,
    dir: Option<&str>,
    model: Option<&str>,
    data: &Json,
) -> Result<(), StoreError> {
    let sql = "UPDATE tasks SET dir = ?4, model = ?5, data = ?6, updated_at = ?7
               WHERE tenant_id = ?1 AND user_id = ?2 AND task_id = ?3";
    let now = tx.now();
    match tx.execute(sql, &values![&scope.tenant, &scope.user, task, dir, model, data, now])? {
        0 => Err(StoreError::NoRow { sql: sql.to_owned() }),
        _ => Ok(()),
    }
}

const COLUMNS: &str = "SELECT tenant_id, user_id, session_id, task_id, trace_id, thread_id, kind, title, dir, model,
    data, created_at, updated_at FROM tasks";

fn one(read: &ReadTx<'_>, scope: &Scope, column: &'static str, value: &str) -> Result<Option<Task>, StoreError> {
    read.query_optional(
        &format!(
            "{COLUMNS} WHERE tenant_id = ?1 AND user_id = ?2 AND {column} = ?3
             ORDER BY created_at DESC, task_id DESC LIMIT 1"
        ),
        &values![&scope.tenant, &scope.user, value],
        task,
    )
}

fn task(row: &Row<'_>) -> Result<Task, StoreError> {
    Ok(Task {
        scope: TaskScope {
            scope: Scope { tenant: row.get(0)?, user: row.get(1)? },
            session: row.get(2)?,
            task: row.get(3)?,
            trace: row.get(4)?,
        },
        thread: row.get(5)?,
        kind: row.get(6)?,
        title: row.get(7)?,
        dir: row.get(8)?,
        model: row.get(9)?,
        data: row.get(10)?,
        created_at: row.get(11)?,
        updated_at: row.get(12)?,
    })
}

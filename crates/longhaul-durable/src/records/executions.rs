//! The rows of executions.

use longhaul_core::{Digest, EventDraft, ExecutionId, Scope, TaskScope, TenantId, ThreadId, TimeMs};
use longhaul_store::{ReadTx, Row, StoreError, Tx, give_back, values};
use serde_json::json;

use super::{Pen, V};
use crate::{StepId, queue};

/// How an execution is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status {
    /// A run is at work on it, or was when its process died.
    Running,
    /// Its last run ended at a boundary or was cancelled; the next goes on.
    Stopped,
    /// It waits for an answer from outside; a run after the answer goes on.
    Waiting,
    /// Its last run failed; the next tries again.
    Failed,
    /// It is finished.
    Completed,
    /// Somebody asked for its end; what it recorded is kept.
    Cancelled,
    /// Somebody gave it up; the thread is free for another.
    Abandoned,
}

impl Status {
    const ALL: [(Self, &'static str); 7] = [
        (Self::Running, "running"),
        (Self::Stopped, "stopped"),
        (Self::Waiting, "waiting"),
        (Self::Failed, "failed"),
        (Self::Completed, "completed"),
        (Self::Cancelled, "cancelled"),
        (Self::Abandoned, "abandoned"),
    ];

    /// As it is stored and printed.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(status, _)| *status == self).map_or("", |(_, name)| name)
    }

    /// Whether the next run begins anew rather than going on.
    #[must_use]
    pub fn is_finished(self) -> bool {
        match self {
            Self::Completed | Self::Cancelled | Self::Abandoned => true,
            Self::Running | Self::Stopped | Self::Waiting | Self::Failed => false,
        }
    }
}

/// One durable run of a graph, as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Execution {
    /// Identity.
    pub id: ExecutionId,
    /// On whose behalf.
    pub scope: TaskScope,
    /// The thread.
    pub thread: ThreadId,
    /// Name of the graph.
    pub graph: String,
    /// Version of the graph.
    pub graph_version: u32,
    /// Fingerprint of the graph's shape.
    pub fingerprint: Digest,
    /// Version of the state's form, as the graph states it.
    pub state_version: u32,
    /// How it is.
    pub status: Status,
    /// Why the last run failed, if it did.
    pub error: Option<String>,
    /// The checkpoint it was forked from: `exec_…@12`.
    pub forked_from: Option<String>,
    /// The step of another execution that began it as its child.
    pub parent_step: Option<String>,
    /// Who asked for its end, when and why, if somebody did.
    pub cancel: Option<CancelRequest>,
    /// When it began.
    pub started_at: TimeMs,
    /// When it last changed.
    pub updated_at: TimeMs,
    /// When it was finished.
    pub closed_at: Option<TimeMs>,
}

impl Execution {
    /// The execution that began it as its child.
    #[must_use]
    pub fn parent(&self) -> Option<ExecutionId> {
        let step: StepId = self.parent_step.as_deref()?.parse().ok()?;
        Some(step.execution)
    }
}

/// Somebody's wish that an execution end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CancelRequest {
    /// When.
    pub at: TimeMs,
    /// Who.
    pub by: String,
    /// Why.
    pub reason: String,
}

const EXECUTION: &str = "SELECT tenant_id, user_id, session_id, task_id, trace_id, execution_id, thread_id, graph,
    graph_version, fingerprint, state_version, status, error, forked_from, parent_step, cancel_requested_at, cancel_by,
    cancel_reason, started_at, updated_at, closed_at FROM executions";

fn execution(row: &Row<'_>) -> Result<Execution, StoreError> {
    let status = row.text(11)?;
    let status = Status::ALL.iter().find(|(_, name)| *name == status).map(|(status, _)| *status);
    let cancel = match row.get::<Option<TimeMs>>(15)? {
        Some(at) => Some(CancelRequest {
            at,
            by: row.get::<Option<String>>(16)?.unwrap_or_default(),
            reason: row.get::<Option<String>>(17)?.unwrap_or_default(),
        }),
        None => None,
    };
    Ok(Execution {
        scope: TaskScope {
            scope: Scope { tenant: row.get(0)?, user: row.get(1)? },
            session: row.get(2)?,
            task: row.get(3)?,
            trace: row.get(4)?,
        },
        id: row.get(5)?,
        thread: row.get(6)?,
        graph: row.get(7)?,
        graph_version: row.get(8)?,
        fingerprint: row.get(9)?,
        state_version: row.get(10)?,
        status: status.ok_or_else(|| StoreError::Column {
            column: 11,
            expected: "the status of an execution",
            found: row.get::<String>(11).unwrap_or_default(),
        })?,
        error: row.get(12)?,
        forked_from: row.get(13)?,
        parent_step: row.get(14)?,
        cancel,
        started_at: row.get(18)?,
        updated_at: row.get(19)?,
        closed_at: row.get(20)?,
    })
}

/// The unfinished execution of the thread, or the newest finished one.
pub(crate) fn newest(read: &ReadTx<'_>, scope: &Scope, thread: &ThreadId) -> Result<Option<Execution>, StoreError> {
    read.query_optional(
        &format!(
            "{EXECUTION} WHERE tenant_id = ?1 AND user_id = ?2 AND thread_id = ?3
             ORDER BY CASE WHEN status IN ('completed', 'cancelled', 'abandoned') THEN 1 ELSE 0 END, started_at DESC,
                 execution_id DESC LIMIT 1"
        ),
        &values![&scope.tenant, &scope.user, thread],
        execution,
    )
}

/// All executions of the thread, newest first.
pub(crate) fn of_thread(read: &ReadTx<'_>, scope: &Scope, thread: &ThreadId) -> Result<Vec<Execution>, StoreError> {
    read.query(
        &format!(
            "{EXECUTION} WHERE tenant_id = ?1 AND user_id = ?2 AND thread_id = ?3
             ORDER BY started_at DESC, execution_id DESC"
        ),
        &values![&scope.tenant, &scope.user, thread],
        execution,
    )
}

/// The executions of a graph, oldest first.
pub(crate) fn of_graph(read: &ReadTx<'_>, scope: &Scope, graph: &str) -> Result<Vec<Execution>, StoreError> {
    read.query(
        &format!("{EXECUTION} WHERE tenant_id = ?1 AND user_id = ?2 AND graph = ?3 ORDER BY started_at, execution_id"),
        &values![&scope.tenant, &scope.user, graph],
        execution,
    )
}

pub(crate) fn by_id(read: &ReadTx<'_>, scope: &Scope, id: &ExecutionId) -> Result<Option<Execution>, StoreError> {
    read.query_optional(
        &format!("{EXECUTION} WHERE tenant_id = ?1 AND user_id = ?2 AND execution_id = ?3"),
        &values![&scope.tenant, &scope.user, id],
        execution,
    )
}

/// The executions for which this holds.
pub(crate) fn select(
    read: &ReadTx<'_>,
    condition: &str,
    params: &[longhaul_store::Value],
) -> Result<Vec<Execution>, StoreError> {
    read.query(&format!("{EXECUTION} WHERE {condition}"), params, execution)
}

/// An execution of the tenant, whoever of its users it is of.
pub(crate) fn of_tenant(
    read: &ReadTx<'_>,
    tenant: &TenantId,
    id: &ExecutionId,
) -> Result<Option<Execution>, StoreError> {
    read.query_optional(
        &format!("{EXECUTION} WHERE tenant_id = ?1 AND execution_id = ?2"),
        &values![tenant, id],
        execution,
    )
}

pub(crate) fn insert(tx: &mut Tx<'_>, new: &Execution) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO executions (tenant_id, execution_id, user_id, session_id, task_id, trace_id, v, thread_id, graph,
             graph_version, fingerprint, state_version, status, error, forked_from, parent_step, started_at, updated_at,
             closed_at, parent_execution_id)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20)",
        &values![
            &new.scope.scope.tenant,
            &new.id,
            &new.scope.scope.user,
            &new.scope.session,
            &new.scope.task,
            &new.scope.trace,
            V,
            &new.thread,
            &new.graph,
            new.graph_version,
            &new.fingerprint,
            new.state_version,
            new.status.as_str(),
            new.error.as_deref(),
            new.forked_from.as_deref(),
            new.parent_step.as_deref(),
            new.started_at,
            new.updated_at,
            new.closed_at,
            new.parent().as_ref().map(ExecutionId::as_str),
        ],
    )
    .map(drop)
}

/// Notes that a wait of the execution, or of what it began, has ended.
pub(crate) fn set_woken(tx: &mut Tx<'_>, execution: &Execution) -> Result<(), StoreError> {
    let now = tx.now();
    tx.execute(
        "UPDATE executions SET woken_at = ?3 WHERE tenant_id = ?1 AND execution_id = ?2 AND closed_at IS NULL",
        &values![&execution.scope.scope.tenant, &execution.id, now],
    )
    .map(drop)
}

/// Executions that wait and of which a wait has ended since, whosesoever they are, the longest woken first.
pub(crate) fn woken(read: &ReadTx<'_>, limit: u32) -> Result<Vec<Execution>, StoreError> {
    read.query(
        &format!("{EXECUTION} WHERE woken_at IS NOT NULL AND status = 'waiting' ORDER BY woken_at LIMIT ?1"),
        &values![limit],
        execution,
    )
}

/// Notes that somebody wants the execution's end; tells whether it was unfinished. The first request stays.
pub(crate) fn request_cancel(
    tx: &mut Tx<'_>,
    execution: &Execution,
    by: &str,
    reason: &str,
) -> Result<bool, StoreError> {
    let now = tx.now();
    let changed = tx.execute(
        "UPDATE executions SET cancel_requested_at = COALESCE(cancel_requested_at, ?3),
             cancel_by = COALESCE(cancel_by, ?4), cancel_reason = COALESCE(cancel_reason, ?5)
         WHERE tenant_id = ?1 AND execution_id = ?2 AND closed_at IS NULL",
        &values![&execution.scope.scope.tenant, &execution.id, now, by, reason],
    )?;
    Ok(changed == 1)
}

/// Whether somebody wants the execution's end.
pub(crate) fn is_to_be_cancelled(read: &ReadTx<'_>, pen: &Pen) -> Result<bool, StoreError> {
    let found = read.query_optional(
        "SELECT 1 FROM executions
         WHERE tenant_id = ?1 AND execution_id = ?2 AND cancel_requested_at IS NOT NULL AND closed_at IS NULL",
        &values![pen.tenant(), pen.execution()],
        |_| Ok(()),
    )?;
    Ok(found.is_some())
}

impl Pen {
    /// Says that the execution is complete, and gives the thread back.
    pub(crate) fn complete(&self, tx: &mut Tx<'_>, superstep: u64) -> Result<(), StoreError> {
        self.set_status(tx, Status::Completed, None, "execution.completed", superstep)?;
        give_back(tx, self.token())
    }

    /// Says how the execution is, with the event for it.
    pub(crate) fn set_status(
        &self,
        tx: &mut Tx<'_>,
        status: Status,
        error: Option<&str>,
        kind: &str,
        superstep: u64,
    ) -> Result<(), StoreError> {
        let now = tx.now();
        let closed = status.is_finished().then_some(now);
        // A run that begins reads all answers that are there; what has ended needs none.
        let reads_answers = status == Status::Running || status.is_finished();
        tx.execute(
            "UPDATE executions SET status = ?3, error = ?4, updated_at = ?5, closed_at = ?6,
                 woken_at = CASE WHEN ?7 = 1 THEN NULL ELSE woken_at END
             WHERE tenant_id = ?1 AND execution_id = ?2",
            &values![self.tenant(), self.execution(), status.as_str(), error, now, closed, reads_answers],
        )?;
        queue::follow(tx, self, status, error)?;
        let data = match error {
            Some(error) => json!({ "superstep": superstep, "error": error }),
            None => json!({ "superstep": superstep }),
        };
        tx.append_event(self.scope(), Some(self.execution()), None, EventDraft::internal(kind, data)).map(drop)
    }
}

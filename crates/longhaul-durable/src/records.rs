//! The rows of executions, checkpoints, steps and effects, and nothing else's.
//!
//! Invariant: whatever writes for an execution checks the lease in the same transaction (`fenced`).

use std::collections::BTreeMap;

use longhaul_core::{Digest, EventDraft, ExecutionId, Scope, TaskScope, TenantId, ThreadId, TimeMs};
use longhaul_store::{LeaseToken, ReadTx, Row, StoreError, Tx, values};
use serde_json::json;

use crate::step::StepId;

/// Version of the records this release writes.
const V: u32 = 1;

/// How an execution is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status {
    /// A run is at work on it, or was when its process died.
    Running,
    /// Its last run ended at a boundary or was cancelled; the next goes on.
    Stopped,
    /// Its last run failed; the next tries again.
    Failed,
    /// It is finished.
    Completed,
    /// Somebody gave it up; the thread is free for another.
    Abandoned,
}

impl Status {
    const ALL: [(Self, &'static str); 5] = [
        (Self::Running, "running"),
        (Self::Stopped, "stopped"),
        (Self::Failed, "failed"),
        (Self::Completed, "completed"),
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
        matches!(self, Self::Completed | Self::Abandoned)
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
    /// How it is.
    pub status: Status,
    /// Why the last run failed, if it did.
    pub error: Option<String>,
    /// The checkpoint it was forked from: `exec_…@12`.
    pub forked_from: Option<String>,
    /// When it began.
    pub started_at: TimeMs,
    /// When it last changed.
    pub updated_at: TimeMs,
}

/// What holds the state after a superstep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Full,
    Delta,
}

/// A checkpoint with its data.
#[derive(Debug, Clone)]
pub(crate) struct CheckpointRow {
    pub(crate) superstep: u64,
    pub(crate) node: String,
    pub(crate) next: String,
    pub(crate) form: Form,
    pub(crate) data: String,
    pub(crate) digest: Digest,
}

/// A step whose work has been done.
#[derive(Debug, Clone)]
pub(crate) struct RecordedStep {
    pub(crate) name: String,
    pub(crate) result: String,
}

/// An act whose outcome nobody knows: its intent was recorded, its receipt was not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingEffect {
    /// The step.
    pub step: StepId,
    /// When it was about to happen.
    pub since: TimeMs,
}

const EXECUTION: &str = "SELECT tenant_id, user_id, session_id, task_id, trace_id, execution_id, thread_id, graph,
    graph_version, fingerprint, status, error, forked_from, started_at, updated_at FROM executions";

fn execution(row: &Row<'_>) -> Result<Execution, StoreError> {
    let status = row.text(10)?;
    let status = Status::ALL.iter().find(|(_, name)| *name == status).map(|(status, _)| *status);
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
        status: status.ok_or_else(|| StoreError::Column {
            column: 10,
            expected: "the status of an execution",
            found: row.get::<String>(10).unwrap_or_default(),
        })?,
        error: row.get(11)?,
        forked_from: row.get(12)?,
        started_at: row.get(13)?,
        updated_at: row.get(14)?,
    })
}

/// The unfinished execution of the thread, or the newest finished one.
pub(crate) fn newest(read: &ReadTx<'_>, scope: &Scope, thread: &ThreadId) -> Result<Option<Execution>, StoreError> {
    read.query_optional(
        &format!(
            "{EXECUTION} WHERE tenant_id = ?1 AND user_id = ?2 AND thread_id = ?3
             ORDER BY status IN ('completed', 'abandoned'), started_at DESC, execution_id DESC LIMIT 1"
        ),
        &values![&scope.tenant, &scope.user, thread],
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

pub(crate) fn insert_execution(tx: &mut Tx<'_>, new: &Execution) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO executions (tenant_id, execution_id, user_id, session_id, task_id, trace_id, v, thread_id, graph,
             graph_version, fingerprint, status, error, forked_from, started_at, updated_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)",
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
            new.status.as_str(),
            new.error.as_deref(),
            new.forked_from.as_deref(),
            new.started_at,
            new.updated_at,
        ],
    )
    .map(drop)
}

/// The identity of an execution and the right to write to it.
#[derive(Debug, Clone)]
pub(crate) struct Pen {
    pub(crate) scope: TaskScope,
    pub(crate) execution: ExecutionId,
    pub(crate) token: LeaseToken,
}

impl Pen {
    fn tenant(&self) -> &TenantId {
        &self.scope.scope.tenant
    }

    /// Begins a fenced transaction.
    pub(crate) fn fenced(&self, tx: &Tx<'_>) -> Result<(), StoreError> {
        tx.check_lease(&self.token)
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
        tx.execute(
            "UPDATE executions SET status = ?3, error = ?4, updated_at = ?5 WHERE tenant_id = ?1 AND execution_id = ?2",
            &values![self.tenant(), &self.execution, status.as_str(), error, now],
        )?;
        let data = match error {
            Some(error) => json!({ "superstep": superstep, "error": error }),
            None => json!({ "superstep": superstep }),
        };
        tx.append_event(&self.scope, Some(&self.execution), None, EventDraft::internal(kind, data)).map(drop)
    }

    pub(crate) fn insert_checkpoint(&self, tx: &mut Tx<'_>, new: &CheckpointRow) -> Result<(), StoreError> {
        insert_checkpoint(tx, self.tenant(), &self.execution, new)
    }

    pub(crate) fn insert_intent(&self, tx: &mut Tx<'_>, step: &StepId) -> Result<(), StoreError> {
        let now = tx.now();
        tx.execute(
            "INSERT INTO effects (tenant_id, execution_id, superstep, node, ordinal, v, name, intent_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            &values![self.tenant(), &step.execution, step.superstep, &step.node, step.ordinal, V, &step.name, now],
        )
        .map(drop)
    }

    /// Records a step, its receipt and its event.
    pub(crate) fn insert_step(
        &self,
        tx: &mut Tx<'_>,
        step: &StepId,
        effect: (&str, Option<&str>),
        result: &str,
        elapsed_ms: u64,
    ) -> Result<(), StoreError> {
        let now = tx.now();
        let key = values![self.tenant(), &step.execution, step.superstep, &step.node, step.ordinal];
        let (effect, effect_key) = effect;
        let mut row = key.to_vec();
        row.extend(values![V, &step.name, effect, effect_key, result, now]);
        tx.execute(
            "INSERT INTO steps (tenant_id, execution_id, superstep, node, ordinal, v, name, effect, effect_key, result,
                 at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
            &row,
        )?;
        if effect == "once" {
            let mut receipt = key.to_vec();
            receipt.extend(values![now]);
            tx.execute(&format!("UPDATE effects SET receipt_at = ?6 WHERE {STEP_KEY}"), &receipt)?;
        }
        let data = json!({ "effect": effect, "bytes": result.len(), "elapsed_ms": elapsed_ms });
        let draft = EventDraft::internal("step.recorded", data);
        tx.append_event(&self.scope, Some(&self.execution), Some(&step.within()), draft).map(drop)
    }

    /// Forgets an intent whose act certainly did not take place.
    pub(crate) fn delete_intent(&self, tx: &mut Tx<'_>, step: &StepId) -> Result<(), StoreError> {
        let key = values![self.tenant(), &step.execution, step.superstep, &step.node, step.ordinal];
        tx.execute(&format!("DELETE FROM effects WHERE {STEP_KEY}"), &key).map(drop)
    }
}

const STEP_KEY: &str = "tenant_id = ?1 AND execution_id = ?2 AND superstep = ?3 AND node = ?4 AND ordinal = ?5";

pub(crate) fn insert_checkpoint(
    tx: &mut Tx<'_>,
    tenant: &TenantId,
    execution: &ExecutionId,
    new: &CheckpointRow,
) -> Result<(), StoreError> {
    let now = tx.now();
    let form = match new.form {
        Form::Full => "full",
        Form::Delta => "delta",
    };
    tx.execute(
        "INSERT INTO checkpoints (tenant_id, execution_id, superstep, v, node, next, form, data, digest, at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        &values![tenant, execution, new.superstep, V, &new.node, &new.next, form, &new.data, &new.digest, now],
    )
    .map(drop)
}

/// The checkpoints of an execution up to and including this superstep, oldest first.
pub(crate) fn checkpoints(
    read: &ReadTx<'_>,
    tenant: &TenantId,
    execution: &ExecutionId,
    superstep_max: u64,
) -> Result<Vec<CheckpointRow>, StoreError> {
    read.query(
        "SELECT superstep, node, next, form, data, digest FROM checkpoints
         WHERE tenant_id = ?1 AND execution_id = ?2 AND superstep <= ?3 ORDER BY superstep",
        &values![tenant, execution, superstep_max],
        |row| {
            Ok(CheckpointRow {
                superstep: row.get(0)?,
                node: row.get(1)?,
                next: row.get(2)?,
                form: if row.text(3)? == "full" { Form::Full } else { Form::Delta },
                data: row.get(4)?,
                digest: row.get(5)?,
            })
        },
    )
}

/// What a superstep has recorded so far, by the steps' numbers.
pub(crate) fn steps(
    read: &ReadTx<'_>,
    tenant: &TenantId,
    execution: &ExecutionId,
    superstep: u64,
) -> Result<BTreeMap<u32, RecordedStep>, StoreError> {
    let rows = read.query(
        "SELECT ordinal, name, result FROM steps
         WHERE tenant_id = ?1 AND execution_id = ?2 AND superstep = ?3",
        &values![tenant, execution, superstep],
        |row| Ok((row.get(0)?, RecordedStep { name: row.get(1)?, result: row.get(2)? })),
    )?;
    Ok(rows.into_iter().collect())
}

/// The acts of an execution whose outcome nobody knows, oldest first.
pub(crate) fn pending(
    read: &ReadTx<'_>,
    tenant: &TenantId,
    execution: &ExecutionId,
) -> Result<Vec<PendingEffect>, StoreError> {
    read.query(
        "SELECT superstep, node, ordinal, name, intent_at FROM effects
         WHERE tenant_id = ?1 AND execution_id = ?2 AND receipt_at IS NULL ORDER BY superstep, ordinal",
        &values![tenant, execution],
        |row| {
            let step = StepId {
                execution: execution.clone(),
                superstep: row.get(0)?,
                node: row.get(1)?,
                ordinal: row.get(2)?,
                name: row.get(3)?,
            };
            Ok(PendingEffect { step, since: row.get(4)? })
        },
    )
}

//! The rows of tasks, their states, and what clients see of them.

use longhaul_core::TimeMs;
use longhaul_store::{ReadTx, Row, StoreError, values};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::acting::{Actor, Here, seconds};

/// Where a task stands, in the words of A2A.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    /// Given, and not accepted yet.
    Submitted,
    Working,
    Completed,
    Failed,
    Canceled,
    Rejected,
}

impl Status {
    pub(super) const ALL: [Self; 6] =
        [Self::Submitted, Self::Working, Self::Completed, Self::Failed, Self::Canceled, Self::Rejected];

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Submitted => "submitted",
            Self::Working => "working",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Canceled => "canceled",
            Self::Rejected => "rejected",
        }
    }

    pub(super) fn read(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == word)
    }

    pub(super) fn is_open(self) -> bool {
        matches!(self, Self::Submitted | Self::Working)
    }
}

/// How a task found its assignee, and what it needs to find another one. Stored as JSON, version 1.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Routing {
    pub(super) v: u32,
    /// `required_capabilities` as it came.
    pub(super) required: Option<Value>,
    /// What the task's words were taken from beside its description.
    pub(super) text: String,
    pub(super) strategy: String,
    pub(super) fallback: Option<String>,
    /// Who had it, in order.
    pub(super) tried: Vec<String>,
    /// In which areas its outcome counts.
    pub(super) areas: Vec<String>,
    pub(super) attempts_max: i64,
}

/// A task.
#[derive(Debug, Clone)]
pub(super) struct Task {
    pub(super) id: String,
    pub(super) delegator: String,
    pub(super) assignee: String,
    pub(super) description: String,
    pub(super) payload: Value,
    pub(super) status: Status,
    pub(super) attempt: i64,
    pub(super) timeout_ms: i64,
    pub(super) created_at: TimeMs,
    pub(super) due_at: TimeMs,
    pub(super) accepted_at: Option<TimeMs>,
    pub(super) completed_at: Option<TimeMs>,
    pub(super) result: Option<Value>,
    pub(super) error: Option<String>,
    pub(super) is_timeout: bool,
    pub(super) reports: i64,
    pub(super) routing: Option<Routing>,
    pub(super) rating: Option<i64>,
}

pub(super) const TASK: &str = "task_id, delegator_id, assignee_id, description, payload, status, attempt, timeout_ms,
    created_at, due_at, accepted_at, completed_at, result, error, is_timeout, reports, routing, rating";

pub(super) fn task(row: &Row<'_>) -> Result<Task, StoreError> {
    let wrong = |column, expected, found: &str| StoreError::Column { column, expected, found: found.to_owned() };
    let status = row.text(5)?;
    let routing: Option<Value> = row.get(16)?;
    Ok(Task {
        id: row.get(0)?,
        delegator: row.get(1)?,
        assignee: row.get(2)?,
        description: row.get(3)?,
        payload: row.get(4)?,
        status: Status::read(status).ok_or_else(|| wrong(5, "a task's status", status))?,
        attempt: row.get(6)?,
        timeout_ms: row.get(7)?,
        created_at: row.get(8)?,
        due_at: row.get(9)?,
        accepted_at: row.get(10)?,
        completed_at: row.get(11)?,
        result: row.get(12)?,
        error: row.get(13)?,
        is_timeout: row.get(14)?,
        reports: row.get(15)?,
        routing: routing
            .map(|value| serde_json::from_value(value).map_err(|_| wrong(16, "a task's routing", "something else")))
            .transpose()?,
        rating: row.get(17)?,
    })
}

impl Task {
    pub(super) fn find(read: &ReadTx<'_>, here: &Here, id: &str) -> Result<Option<Self>, StoreError> {
        let sql =
            format!("SELECT {TASK} FROM delegated_tasks WHERE tenant_id = ?1 AND network_id = ?2 AND task_id = ?3");
        read.query_optional(&sql, &values![&here.tenant, &here.network, id], task)
    }

    /// Whether the actor has to do with it: gave it, has it, had it, or is an admin.
    pub(super) fn concerns(&self, actor: &Actor) -> bool {
        let had = |routing: &Routing| routing.tried.contains(&actor.id);
        actor.is_admin
            || self.delegator == actor.id
            || self.assignee == actor.id
            || self.routing.as_ref().is_some_and(had)
    }

    /// The areas in which its outcome counts.
    pub(super) fn areas(&self) -> Vec<String> {
        self.routing.as_ref().map(|routing| routing.areas.clone()).unwrap_or_default()
    }

    pub(super) fn listed(&self) -> Value {
        json!({
            "task_id": self.id, "delegator_id": self.delegator, "assignee_id": self.assignee,
            "description": self.description, "status": self.status.as_str(), "timeout_seconds": timeout(self.timeout_ms),
            "created_at": seconds(self.created_at), "completed_at": self.completed_at.map(seconds),
            "attempt": self.attempt,
        })
    }

    pub(super) fn shown(&self, reports: &[Value]) -> Value {
        let mut shown = self.listed();
        let more = json!({
            "context_id": self.id, "payload": self.payload, "due_at": seconds(self.due_at),
            "accepted_at": self.accepted_at.map(seconds), "error": self.error, "is_timeout": self.is_timeout,
            "result": self.result, "progress_count": self.reports, "progress": reports,
            "tried": self.routing.as_ref().map(|routing| &routing.tried), "history": [], "artifacts": self.artifacts(),
        });
        if let (Value::Object(shown), Value::Object(more)) = (&mut shown, more) {
            shown.extend(more);
        }
        shown
    }

    /// The result as A2A writes it.
    fn artifacts(&self) -> Value {
        match &self.result {
            Some(result) => json!([{"artifactId": "result", "name": "result", "parts": [{"data": result}]}]),
            None => json!([]),
        }
    }
}

/// A duration in seconds: whole ones as whole numbers, as clients compare them.
#[expect(clippy::cast_precision_loss, reason = "timeouts are at most a month")]
pub(super) fn timeout(ms: i64) -> Value {
    if ms % 1000 == 0 { (ms / 1000).into() } else { (ms as f64 / 1000.0).into() }
}

//! The forms in which executions, waits and entries of the queue are shown.

use longhaul_core::{ExecutionId, SessionId, TaskId, ThreadId, TimeMs, TraceId, UserId};
use longhaul_durable::{Entry, ExecutionView, WaitInfo};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// An execution and where it stands.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Execution)]
pub(crate) struct ExecutionShown {
    /// Identity.
    #[schema(value_type = String)]
    execution: ExecutionId,
    /// Whose it is.
    #[schema(value_type = String)]
    user: UserId,
    /// The conversation.
    #[schema(value_type = String)]
    session: SessionId,
    /// The task.
    #[schema(value_type = String)]
    task: TaskId,
    /// The request that began it.
    #[schema(value_type = String)]
    trace: TraceId,
    /// Its thread.
    #[schema(value_type = String)]
    thread: ThreadId,
    /// The graph.
    graph: String,
    /// The graph's version.
    graph_version: u32,
    /// `running`, `stopped`, `waiting`, `failed`, `completed`, `cancelled` or `abandoned`.
    status: &'static str,
    /// Why its last run failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// Its last closed superstep; 0 before the first.
    superstep: u64,
    /// The nodes of the next superstep.
    next: Vec<String>,
    /// Its open waits, and those of executions that it began.
    waits: Vec<WaitShown>,
    /// Acts of which nobody knows whether they took place: a person has to say.
    unsettled: Vec<String>,
    /// Whether a process is at work on it.
    at_work: bool,
    /// The checkpoint it was forked from.
    #[serde(skip_serializing_if = "Option::is_none")]
    forked_from: Option<String>,
    /// The step of another execution that began it.
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_step: Option<String>,
    /// Who asked for its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    cancelled_by: Option<String>,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    cancel_reason: Option<String>,
    /// When it began, in milliseconds since 1970.
    #[schema(value_type = i64)]
    started_at: TimeMs,
    /// When it last changed.
    #[schema(value_type = i64)]
    updated_at: TimeMs,
    /// When it was finished.
    #[schema(value_type = Option<i64>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    closed_at: Option<TimeMs>,
}

impl From<ExecutionView> for ExecutionShown {
    fn from(view: ExecutionView) -> Self {
        let ExecutionView { execution, superstep, next, waits, pending, holder } = view;
        let (cancelled_by, cancel_reason) =
            execution.cancel.map_or((None, None), |cancel| (Some(cancel.by), Some(cancel.reason)));
        Self {
            execution: execution.id,
            user: execution.scope.scope.user,
            session: execution.scope.session,
            task: execution.scope.task,
            trace: execution.scope.trace,
            thread: execution.thread,
            graph: execution.graph,
            graph_version: execution.graph_version,
            status: execution.status.as_str(),
            error: execution.error,
            superstep,
            next,
            waits: waits.into_iter().map(Into::into).collect(),
            unsettled: pending.iter().map(|pending| pending.step.to_string()).collect(),
            at_work: holder.is_some(),
            forked_from: execution.forked_from,
            parent_step: execution.parent_step,
            cancelled_by,
            cancel_reason,
            started_at: execution.started_at,
            updated_at: execution.updated_at,
            closed_at: execution.closed_at,
        }
    }
}

/// Something that is waited for.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Wait)]
pub(crate) struct WaitShown {
    /// Identity.
    wait: String,
    /// The execution that waits.
    #[schema(value_type = String)]
    execution: ExecutionId,
    /// The step that waits.
    step: String,
    /// `approval`, `webhook`, `event` or `timer`.
    kind: &'static str,
    /// What it is called: for an approval, the question.
    name: String,
    /// What whoever answers should know.
    payload: Value,
    /// What an answer must look like.
    #[serde(skip_serializing_if = "Option::is_none")]
    schema: Option<Value>,
    /// `waiting`, `answered`, `expired` or `cancelled`.
    status: &'static str,
    /// The answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Value>,
    /// Who answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    actor: Option<String>,
    /// When it ends without an answer, in milliseconds since 1970.
    #[schema(value_type = Option<i64>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline_at: Option<TimeMs>,
    /// When it ended.
    #[schema(value_type = Option<i64>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    answered_at: Option<TimeMs>,
    /// Since when it waits.
    #[schema(value_type = i64)]
    created_at: TimeMs,
}

impl From<WaitInfo> for WaitShown {
    fn from(wait: WaitInfo) -> Self {
        Self {
            wait: wait.id.to_string(),
            execution: wait.execution,
            step: wait.place.to_string(),
            kind: wait.kind.as_str(),
            name: wait.name,
            payload: wait.payload,
            schema: wait.schema,
            status: wait.status.as_str(),
            value: wait.value,
            actor: wait.actor,
            deadline_at: wait.deadline_at,
            answered_at: wait.answered_at,
            created_at: wait.created_at,
        }
    }
}

/// An entry of the queue of workers.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = QueueEntry)]
pub(crate) struct EntryShown {
    /// Identity.
    entry: String,
    /// The task.
    #[schema(value_type = String)]
    task: TaskId,
    /// The request that put it there.
    #[schema(value_type = String)]
    trace: TraceId,
    /// Its thread.
    #[schema(value_type = String)]
    thread: ThreadId,
    /// The graph.
    graph: String,
    /// `queued`, `waiting`, `claimed`, `parked` or `done`.
    status: &'static str,
    /// Its execution, once that has begun.
    #[schema(value_type = Option<String>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    execution: Option<ExecutionId>,
    /// Among the tenant's entries, higher ones go first.
    priority: i32,
    /// How often it was taken since it last came further.
    attempts: u32,
    /// From how many on it is parked.
    attempts_max: u32,
    /// Why it last failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// When it may be run, in milliseconds since 1970.
    #[schema(value_type = i64)]
    ready_at: TimeMs,
    /// When it was put there.
    #[schema(value_type = i64)]
    created_at: TimeMs,
    /// When it last changed.
    #[schema(value_type = i64)]
    updated_at: TimeMs,
}

impl From<Entry> for EntryShown {
    fn from(entry: Entry) -> Self {
        Self {
            entry: entry.id.to_string(),
            task: entry.scope.task,
            trace: entry.scope.trace,
            thread: entry.thread,
            graph: entry.graph,
            status: entry.status.as_str(),
            execution: entry.execution,
            priority: entry.priority,
            attempts: entry.attempts,
            attempts_max: entry.attempts_max,
            error: entry.error,
            ready_at: entry.ready_at,
            created_at: entry.created_at,
            updated_at: entry.updated_at,
        }
    }
}

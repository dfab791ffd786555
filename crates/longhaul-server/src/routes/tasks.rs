//! Tasks: what somebody wants done.

use axum::{Json, extract::State};
use longhaul_core::{SessionId, TaskId, ThreadId, TimeMs, TraceId, UserId};
use longhaul_store::tasks;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{Caller, Gateway, Problem, input::Id};

/// A task.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Task)]
pub(crate) struct TaskView {
    /// Identity.
    #[schema(value_type = String)]
    task: TaskId,
    /// Whose it is.
    #[schema(value_type = String)]
    user: UserId,
    /// The conversation that asked for it.
    #[schema(value_type = String)]
    session: SessionId,
    /// The request that made it.
    #[schema(value_type = String)]
    trace: TraceId,
    /// The name of its state.
    #[schema(value_type = String)]
    thread: ThreadId,
    /// What kind of work it is.
    kind: String,
    /// What a person calls it.
    title: String,
    /// Its owner's details.
    data: Value,
    /// When it was made, in milliseconds since 1970.
    #[schema(value_type = i64)]
    created_at: TimeMs,
    /// When it last changed, in milliseconds since 1970.
    #[schema(value_type = i64)]
    updated_at: TimeMs,
}

impl From<tasks::Task> for TaskView {
    fn from(task: tasks::Task) -> Self {
        let tasks::Task { scope, thread, kind, title, data, created_at, updated_at, .. } = task;
        let (user, session, trace, task) = (scope.scope.user, scope.session, scope.trace, scope.task);
        Self { task, user, session, trace, thread, kind, title, data, created_at, updated_at }
    }
}

pub(super) fn routes() -> OpenApiRouter<Gateway> {
    OpenApiRouter::new().routes(routes!(get))
}

/// One task.
#[utoipa::path(
    get, path = "/v1/tasks/{task}", tag = "tasks",
    params(("task" = String, Path, description = "The task", pattern = "^task_[A-Za-z0-9-]{1,64}$")),
    responses((status = 200, body = TaskView))
)]
async fn get(State(gateway): State<Gateway>, caller: Caller, Id(task): Id<TaskId>) -> Result<Json<TaskView>, Problem> {
    Ok(Json(gateway.task(&caller, &task).await?.into()))
}

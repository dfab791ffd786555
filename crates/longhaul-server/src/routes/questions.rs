//! Questions about a task or an id, answered as `longhaul where`, `whose` and `explain` answer them.

use axum::{Json, extract::State};
use longhaul_core::TaskId;
use longhaul_operate::{OperateError, Operator};
use serde::Deserialize;
use serde_json::Value;
use utoipa::IntoParams;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    Caller, Gateway, Problem,
    input::{Id, Params},
    page::Limit,
    text::TextLine,
};

/// What is to be explained.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Asked {
    /// An id of any kind, or a thread.
    #[param(value_type = String, min_length = 1, max_length = 200, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]*$")]
    id: TextLine,
    /// Of what happened, at most so many lines, the newest.
    #[serde(default)]
    #[param(value_type = Option<u32>, minimum = 1, maximum = 200)]
    limit: Limit,
}

pub(super) fn routes() -> OpenApiRouter<Gateway> {
    OpenApiRouter::new().routes(routes!(whereabouts)).routes(routes!(belonging)).routes(routes!(explain))
}

fn operator(gateway: &Gateway, caller: &Caller) -> Operator {
    Operator::over(gateway.store().clone(), gateway.ambient().clone(), caller.scope().clone(), caller.actor())
}

/// Where a task is: what it does or waits for, where it resumes, what would run again and what not.
#[utoipa::path(
    get, path = "/v1/tasks/{task}/where", tag = "tasks",
    params(("task" = String, Path, description = "The task", pattern = "^task_[A-Za-z0-9-]{1,64}$")),
    responses((status = 200, body = Object))
)]
async fn whereabouts(
    State(gateway): State<Gateway>,
    caller: Caller,
    Id(task): Id<TaskId>,
) -> Result<Json<Value>, Problem> {
    let found = operator(&gateway, &caller).whereabouts(task.as_str()).await;
    shown(found.map_err(|error| problem(&task.to_string(), error))?)
}

/// Whose a task is: tenant, user, conversation, request, who has it now and who has answered for it.
#[utoipa::path(
    get, path = "/v1/tasks/{task}/whose", tag = "tasks",
    params(("task" = String, Path, description = "The task", pattern = "^task_[A-Za-z0-9-]{1,64}$")),
    responses((status = 200, body = Object))
)]
async fn belonging(
    State(gateway): State<Gateway>,
    caller: Caller,
    Id(task): Id<TaskId>,
) -> Result<Json<Value>, Problem> {
    let found = operator(&gateway, &caller).belonging(task.as_str()).await;
    shown(found.map_err(|error| problem(&task.to_string(), error))?)
}

/// What an id is, how it came about, and what it rests on: event, step, checkpoint, evidence.
#[utoipa::path(get, path = "/v1/explain", tag = "questions", params(Asked), responses((status = 200, body = Object)))]
async fn explain(
    State(gateway): State<Gateway>,
    caller: Caller,
    Params(asked): Params<Asked>,
) -> Result<Json<Value>, Problem> {
    let id = String::from(asked.id);
    let told = operator(&gateway, &caller).explain(&id, asked.limit.get() as usize).await;
    shown(told.map_err(|error| problem(&id, error))?)
}

fn shown(answer: impl serde::Serialize) -> Result<Json<Value>, Problem> {
    serde_json::to_value(answer).map(Json).map_err(|error| Problem::internal(&error))
}

fn problem(id: &str, error: OperateError) -> Problem {
    match error {
        OperateError::Store(error) => error.into(),
        OperateError::Durable(error) => error.into(),
        OperateError::Unknown { .. } | OperateError::NoStore { .. } => Problem::missing("thing", id),
        other => Problem::internal(&other),
    }
}

//! Tasks: what somebody wants done.

use axum::{Json, extract::State};
use longhaul_core::{SessionId, TaskId, ThreadId, TimeMs, TraceId, UserId};
use longhaul_store::{ReadTx, StoreError, tasks, values};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    Caller, Gateway, Problem,
    change::{Answer, Done},
    input::{Command, Id, Params},
    page::{Limit, Page},
    text::{Name, TextLine},
};

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

/// A task to be made.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewTask)]
pub(crate) struct NewTaskBody {
    /// What a person calls it.
    #[schema(value_type = String, min_length = 1, max_length = 200, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]*$")]
    title: TextLine,
    /// The name of its state, unique in the tenant; a new one if nothing is said.
    #[schema(value_type = Option<String>, pattern = "^[A-Za-z0-9_.:/-]{1,128}$")]
    #[serde(default)]
    thread: Option<ThreadId>,
    /// The conversation it belongs to; a new one if nothing is said.
    #[schema(value_type = Option<String>, pattern = "^sess_[A-Za-z0-9-]{1,64}$")]
    #[serde(default)]
    session: Option<SessionId>,
    /// What kind of work it is; `task` if nothing is said.
    #[schema(value_type = Option<String>, pattern = "^[A-Za-z0-9_.:/-]{1,128}$")]
    #[serde(default)]
    kind: Option<Name>,
    /// Details for whoever does the work.
    #[schema(value_type = Option<Object>)]
    #[serde(default)]
    data: Option<serde_json::Map<String, Value>>,
}

/// Which tasks.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Which {
    /// Of this conversation only.
    #[param(value_type = Option<String>, pattern = "^sess_[A-Za-z0-9-]{1,64}$")]
    session: Option<SessionId>,
    /// Behind this task.
    #[param(value_type = Option<String>, pattern = "^task_[A-Za-z0-9-]{1,64}$")]
    after: Option<TaskId>,
    /// At most so many.
    #[serde(default)]
    #[param(value_type = Option<u32>, minimum = 1, maximum = 200)]
    limit: Limit,
}

pub(super) fn routes() -> OpenApiRouter<Gateway> {
    OpenApiRouter::new().routes(routes!(list, create)).routes(routes!(get))
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

/// The caller's tasks, the newest first.
#[utoipa::path(get, path = "/v1/tasks", tag = "tasks", params(Which), responses((status = 200, body = Page<TaskView>)))]
async fn list(
    State(gateway): State<Gateway>,
    caller: Caller,
    Params(which): Params<Which>,
) -> Result<Json<Page<TaskView>>, Problem> {
    let scope = caller.scope().clone();
    let found = gateway.store().read::<_, StoreError>(move |read| {
        let page = tasks::Page { session: which.session, before: which.after, limit: which.limit.and_one() };
        tasks::page(read, &scope, &page)
    });
    let shown = Page::of(found.await?, which.limit, |task| task.scope.task.to_string(), TaskView::from);
    Ok(Json(shown))
}

/// Makes a task.
#[utoipa::path(post, path = "/v1/tasks", tag = "tasks", request_body = NewTaskBody, responses((status = 201, body = TaskView)))]
async fn create(State(gateway): State<Gateway>, command: Command<NewTaskBody>) -> Result<Answer, Problem> {
    let wish = command.wish("task.create", "")?;
    let Command { caller, body: NewTaskBody { title, thread, session, kind, data }, .. } = command;
    let fresh = || ThreadId::try_from(format!("thread_{}", gateway.ambient().ids.body()));
    let thread = thread.map_or_else(fresh, Ok).map_err(|error| Problem::internal(&error))?;
    let new = tasks::NewTask {
        thread,
        kind: kind.map_or_else(|| "task".to_owned(), String::from),
        title: title.into(),
        dir: None,
        model: None,
        data: Value::Object(data.unwrap_or_default()),
    };
    let made = gateway.change(wish, move |tx| {
        let (scope, trace) = (caller.scope(), caller.trace());
        if let Some(session) = session.as_ref().filter(|session| is_anothers(tx, &caller, session).unwrap_or(true)) {
            return Err(Problem::missing("session", session.as_str()));
        }
        let thread = new.thread.clone();
        let made = tasks::create_within(tx, scope, session.as_ref(), trace, new).map_err(|error| match error {
            StoreError::Constraint { .. } => {
                let detail = format!("the thread {thread} already names a task of this tenant: choose another name");
                Problem::conflict("thread_taken", detail)
            }
            other => other.into(),
        })?;
        let id = made.scope.task.clone();
        Ok(Done::created(format!("/v1/tasks/{id}"), &id, TaskView::from(made)))
    });
    made.await
}

fn is_anothers(read: &ReadTx<'_>, caller: &Caller, session: &SessionId) -> Result<bool, StoreError> {
    let owner = read.query_optional(
        "SELECT user_id FROM sessions WHERE tenant_id = ?1 AND session_id = ?2",
        &values![&caller.scope().tenant, session],
        |row| row.get::<UserId>(0),
    )?;
    Ok(owner.is_some_and(|owner| owner != caller.scope().user))
}

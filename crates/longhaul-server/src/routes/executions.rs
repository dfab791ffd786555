//! Executions: durable runs of graphs. They are begun through the queue, by workers that serve the graph.

use axum::{Json, extract::State};
use longhaul_core::{ExecutionId, SessionId, TaskId, TaskScope, ThreadId, TraceId};
use longhaul_durable::{Enqueue, EntryFilter, EntryStatus, ExecutionFilter, ExecutionView, Happening, Moment, Status};
use longhaul_store::tasks;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::shown::ExecutionShown;
use crate::{
    Caller, Gateway, Problem,
    change::{Answer, Done},
    input::{Command, Id, Params},
    page::{Limit, Page},
    text::{Name, TextLine, Whole},
};

/// How executions are.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Standing {
    /// A run is at work, or was when its process died.
    Running,
    /// The next run goes on.
    Stopped,
    /// It waits for an answer.
    Waiting,
    /// Its last run failed.
    Failed,
    /// It is finished.
    Completed,
    /// Somebody asked for its end.
    Cancelled,
    /// Somebody gave it up.
    Abandoned,
}

impl From<Standing> for Status {
    fn from(standing: Standing) -> Self {
        match standing {
            Standing::Running => Self::Running,
            Standing::Stopped => Self::Stopped,
            Standing::Waiting => Self::Waiting,
            Standing::Failed => Self::Failed,
            Standing::Completed => Self::Completed,
            Standing::Cancelled => Self::Cancelled,
            Standing::Abandoned => Self::Abandoned,
        }
    }
}

/// Which executions.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Which {
    /// For this task.
    #[param(value_type = Option<String>, pattern = "^task_[A-Za-z0-9-]{1,64}$")]
    task: Option<TaskId>,
    /// Within this conversation.
    #[param(value_type = Option<String>, pattern = "^sess_[A-Za-z0-9-]{1,64}$")]
    session: Option<SessionId>,
    /// Begun by this request.
    #[param(value_type = Option<String>, pattern = "^trace_[A-Za-z0-9-]{1,64}$")]
    trace: Option<TraceId>,
    /// On this thread.
    #[param(value_type = Option<String>, pattern = "^[A-Za-z0-9_.:/-]{1,128}$")]
    thread: Option<ThreadId>,
    /// Of this graph.
    #[param(value_type = Option<String>, pattern = "^[A-Za-z0-9_.:/-]{1,128}$")]
    graph: Option<Name>,
    /// That are so.
    #[param(inline)]
    status: Option<Standing>,
    /// Behind this execution.
    #[param(value_type = Option<String>, pattern = "^exec_[A-Za-z0-9-]{1,64}$")]
    after: Option<ExecutionId>,
    /// At most so many.
    #[serde(default)]
    #[param(value_type = Option<u32>, minimum = 1, maximum = 200)]
    limit: Limit,
}

/// An execution to be begun.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewExecution)]
pub(crate) struct NewExecutionBody {
    /// For which task; it runs on the task's thread.
    #[schema(value_type = String, pattern = "^task_[A-Za-z0-9-]{1,64}$")]
    task: TaskId,
    /// Of which graph: one that this server was told workers serve.
    #[schema(value_type = String, pattern = "^[A-Za-z0-9_.:/-]{1,128}$")]
    graph: Name,
    /// The state it begins with.
    #[schema(value_type = Object)]
    input: serde_json::Map<String, Value>,
    /// Among the tenant's entries, higher ones go first.
    #[serde(default)]
    #[schema(value_type = Option<i32>, minimum = -1000, maximum = 1000)]
    priority: Option<Whole<-1000, 1000>>,
}

/// Where an execution stands in the queue.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Queued {
    /// Its entry: see `/v1/queue/{entry}`.
    entry: String,
    /// Its thread.
    #[schema(value_type = String)]
    thread: ThreadId,
    /// The trace of everything that it causes.
    #[schema(value_type = String)]
    trace: TraceId,
}

/// Which moments of a story.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct HowMany {
    /// Of each kind at most so many, the newest.
    #[serde(default)]
    #[param(value_type = Option<u32>, minimum = 1, maximum = 200)]
    limit: Limit,
}

/// Which checkpoints.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Before {
    /// Of supersteps before this one.
    #[param(value_type = Option<u64>, minimum = 0, maximum = 9007199254740991_u64)]
    after: Option<u64>,
    /// At most so many.
    #[serde(default)]
    #[param(value_type = Option<u32>, minimum = 1, maximum = 200)]
    limit: Limit,
}

/// A closed superstep.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Checkpoint {
    /// Its number; 0 is the initial state.
    superstep: u64,
    /// The nodes that ran in it.
    nodes: Vec<String>,
    /// The nodes that come next.
    next: Vec<String>,
    /// The digest of the state and of all before it.
    digest: String,
    /// When it was closed, in milliseconds since 1970.
    at: i64,
}

/// Something that was recorded.
#[derive(Debug, Default, Serialize, ToSchema)]
#[schema(as = Moment)]
pub(crate) struct MomentShown {
    /// When, in milliseconds since 1970.
    at: i64,
    /// `checkpoint`, `step`, `intent`, `receipt`, `asked` or `answer`.
    kind: &'static str,
    /// The step.
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<String>,
    /// The wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    wait: Option<String>,
    /// The superstep that was closed, with its subgraph before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    superstep: Option<String>,
    /// More: the nodes, the effect, the name, the outcome.
    what: String,
    /// Who.
    #[serde(skip_serializing_if = "Option::is_none")]
    actor: Option<String>,
}

/// All that was told.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Story {
    /// The oldest first.
    moments: Vec<MomentShown>,
}

/// Why it is to end.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Cancel {
    /// Kept with the execution.
    #[schema(value_type = String, min_length = 1, max_length = 200, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]*$")]
    reason: TextLine,
}

/// What became of a wish to end an execution.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Cancelled {
    /// Whether there was something to end. A run that is at work ends within a moment.
    cancelled: bool,
}

/// Something for whoever works on it to know.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewNote)]
pub(crate) struct NoteBody {
    /// In words.
    #[schema(value_type = String, min_length = 1, max_length = 200, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]*$")]
    note: TextLine,
    /// And as data.
    #[serde(default)]
    payload: Value,
}

/// A note that was added.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Note)]
pub(crate) struct NoteShown {
    /// Identity.
    note: String,
    /// The execution.
    #[schema(value_type = String)]
    execution: ExecutionId,
    /// Who added it.
    author: String,
    /// In words.
    text: String,
    /// As data.
    payload: Value,
    /// When, in milliseconds since 1970.
    at: i64,
}

pub(super) fn routes() -> OpenApiRouter<Gateway> {
    OpenApiRouter::new()
        .routes(routes!(list, start))
        .routes(routes!(get))
        .routes(routes!(history))
        .routes(routes!(story))
        .routes(routes!(cancel))
        .routes(routes!(retry))
        .routes(routes!(note))
}

/// The caller's executions, the newest first.
#[utoipa::path(
    get, path = "/v1/executions", tag = "executions", params(Which),
    responses((status = 200, body = Page<ExecutionShown>))
)]
async fn list(
    State(gateway): State<Gateway>,
    caller: Caller,
    Params(which): Params<Which>,
) -> Result<Json<Page<ExecutionShown>>, Problem> {
    let filter = ExecutionFilter {
        id: None,
        thread: which.thread,
        graph: which.graph.map(String::from),
        status: which.status.map(Status::from),
        task: which.task,
        session: which.session,
        trace: which.trace,
        before: which.after,
        limit: which.limit.and_one(),
    };
    let found = gateway.runtime().executions(caller.scope(), filter).await?;
    Ok(Json(Page::of(found, which.limit, |view| view.execution.id.to_string(), ExecutionShown::from)))
}

/// One execution.
#[utoipa::path(
    get, path = "/v1/executions/{execution}", tag = "executions",
    params(("execution" = String, Path, description = "The execution", pattern = "^exec_[A-Za-z0-9-]{1,64}$")),
    responses((status = 200, body = ExecutionShown))
)]
async fn get(
    State(gateway): State<Gateway>,
    caller: Caller,
    Id(execution): Id<ExecutionId>,
) -> Result<Json<ExecutionShown>, Problem> {
    Ok(Json(one(&gateway, &caller, &execution).await?.into()))
}

async fn one(gateway: &Gateway, caller: &Caller, execution: &ExecutionId) -> Result<ExecutionView, Problem> {
    let filter = ExecutionFilter { id: Some(execution.clone()), limit: 1, ..ExecutionFilter::default() };
    let found = gateway.runtime().executions(caller.scope(), filter).await?.into_iter().next();
    found.ok_or_else(|| Problem::missing("execution", execution.as_str()))
}

/// Begins an execution for a task: it is put into the queue, and a worker that serves the graph runs it.
#[utoipa::path(
    post, path = "/v1/executions", tag = "executions", request_body = NewExecutionBody,
    responses((status = 202, body = Queued))
)]
async fn start(State(gateway): State<Gateway>, command: Command<NewExecutionBody>) -> Result<Answer, Problem> {
    let wish = command.wish("execution.start", &command.body.task)?;
    let Command { caller, body: NewExecutionBody { task, graph, input, priority }, .. } = command;
    let graph = String::from(graph);
    if !gateway.graphs().contains(&graph) {
        let known: Vec<&str> = gateway.graphs().iter().map(String::as_str).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        let detail =
            format!("this server starts no graph of this name; it starts: {known} (`longhaul serve --graph NAME`)");
        return Err(Problem::new(axum::http::StatusCode::NOT_FOUND, "no_such_graph", detail).at("body.graph"));
    }
    let runtime = gateway.runtime().clone();
    let started = gateway.change(wish, move |tx| {
        let found = tasks::get(tx, caller.scope(), &task)?;
        let tasks::Task { scope, thread, .. } = found.ok_or_else(|| Problem::missing("task", task.as_str()))?;
        let scope = TaskScope { trace: caller.trace().clone(), ..scope };
        let priority = priority.and_then(|priority| i32::try_from(priority.get()).ok()).unwrap_or_default();
        let how = Enqueue { priority, ..Enqueue::default() };
        let queued = runtime.enqueue_in(tx, &scope, &graph, &thread, &input, how)?;
        let (entry, trace) = (queued.id().to_string(), scope.trace);
        let detail = json!({ "task": task, "graph": graph });
        let shown = Queued { entry: entry.clone(), thread, trace };
        Ok(Done::accepted(format!("/v1/queue/{entry}"), entry, shown).map(|done| done.detail(detail)))
    });
    started.await
}

/// The closed supersteps of an execution, the newest first.
#[utoipa::path(
    get, path = "/v1/executions/{execution}/history", tag = "executions",
    params(("execution" = String, Path, description = "The execution", pattern = "^exec_[A-Za-z0-9-]{1,64}$"), Before),
    responses((status = 200, body = Page<Checkpoint>))
)]
async fn history(
    State(gateway): State<Gateway>,
    caller: Caller,
    Id(execution): Id<ExecutionId>,
    Params(which): Params<Before>,
) -> Result<Json<Page<Checkpoint>>, Problem> {
    one(&gateway, &caller, &execution).await?;
    let (scope, limit) = (caller.scope(), which.limit);
    let found = gateway.runtime().history_inside(scope, &execution, "", which.after, limit.and_one()).await?;
    let shown = Page::of(
        found,
        limit,
        |row| row.superstep.to_string(),
        |row| {
            let next = row.position.frontier.iter().map(|planned| planned.node.to_string()).collect();
            Checkpoint {
                superstep: row.superstep,
                nodes: row.nodes,
                next,
                digest: row.digest.to_string(),
                at: row.at.0,
            }
        },
    );
    Ok(Json(shown))
}

/// What an execution has recorded, the oldest first.
#[utoipa::path(
    get, path = "/v1/executions/{execution}/story", tag = "executions",
    params(("execution" = String, Path, description = "The execution", pattern = "^exec_[A-Za-z0-9-]{1,64}$"), HowMany),
    responses((status = 200, body = Story))
)]
async fn story(
    State(gateway): State<Gateway>,
    caller: Caller,
    Id(execution): Id<ExecutionId>,
    Params(which): Params<HowMany>,
) -> Result<Json<Story>, Problem> {
    let found = gateway.runtime().story(caller.scope(), &execution, which.limit.get()).await?;
    Ok(Json(Story { moments: found.into_iter().map(moment).collect() }))
}

fn moment(moment: Moment) -> MomentShown {
    let at = moment.at.0;
    match moment.what {
        Happening::Checkpoint { ns, superstep, nodes } => MomentShown {
            at,
            kind: "checkpoint",
            superstep: Some(format!("{ns}{superstep}")),
            what: nodes,
            ..MomentShown::default()
        },
        Happening::Step { step, effect, .. } => {
            MomentShown { at, kind: "step", step: Some(step.to_string()), what: effect, ..MomentShown::default() }
        }
        Happening::Intent { step } => MomentShown {
            at,
            kind: "intent",
            step: Some(step.to_string()),
            what: "is about to happen".to_owned(),
            ..MomentShown::default()
        },
        Happening::Receipt { step } => MomentShown {
            at,
            kind: "receipt",
            step: Some(step.to_string()),
            what: "has happened".to_owned(),
            ..MomentShown::default()
        },
        Happening::Asked { wait } => MomentShown {
            at,
            kind: "asked",
            step: Some(wait.place.to_string()),
            wait: Some(wait.id.to_string()),
            what: wait.name.clone(),
            ..MomentShown::default()
        },
        Happening::Attempt { wait, actor, outcome, .. } => MomentShown {
            at,
            kind: "answer",
            wait: Some(wait.to_string()),
            what: outcome,
            actor: Some(actor),
            ..MomentShown::default()
        },
    }
}

/// Ends an execution for good. What it recorded is kept.
#[utoipa::path(
    post, path = "/v1/executions/{execution}/cancel", tag = "executions", request_body = Cancel,
    params(("execution" = String, Path, description = "The execution", pattern = "^exec_[A-Za-z0-9-]{1,64}$")),
    responses((status = 200, body = Cancelled))
)]
async fn cancel(
    State(gateway): State<Gateway>,
    Id(execution): Id<ExecutionId>,
    command: Command<Cancel>,
) -> Result<Answer, Problem> {
    let wish = command.wish("execution.cancel", &execution)?;
    let Command { caller, body: Cancel { reason }, .. } = command;
    let (asked, reason) = (gateway.clone(), String::from(reason));
    let ended = gateway.change_outside(wish, async move {
        let view = one(&asked, &caller, &execution).await?;
        if view.execution.status.is_finished() {
            return Done::ok(Cancelled { cancelled: false });
        }
        let thread = &view.execution.thread;
        let cancelled = asked.runtime().cancel(caller.scope(), thread, &caller.actor(), &reason).await?;
        Ok(Done::ok(Cancelled { cancelled })?.detail(json!({ "thread": thread })))
    });
    ended.await
}

/// Puts an execution that failed too often back into the queue, with all its attempts.
#[utoipa::path(
    post, path = "/v1/executions/{execution}/retry", tag = "executions",
    params(("execution" = String, Path, description = "The execution", pattern = "^exec_[A-Za-z0-9-]{1,64}$")),
    responses((status = 202, body = Queued))
)]
async fn retry(
    State(gateway): State<Gateway>,
    Id(execution): Id<ExecutionId>,
    command: Command<super::Nothing>,
) -> Result<Answer, Problem> {
    let wish = command.wish("execution.retry", &execution)?;
    let view = one(&gateway, &command.caller, &execution).await?;
    let graph = Some(view.execution.graph.clone());
    let filter = EntryFilter { status: Some(EntryStatus::Parked), graph, after: None, limit: 10_000 };
    let parked = gateway.runtime().queue(command.caller.scope(), filter).await?;
    let Some(entry) = parked.into_iter().find(|entry| entry.thread == view.execution.thread) else {
        let detail = "no entry of the queue is parked for this execution: a worker goes on with it by itself, or the \
                      program that began it has to be run again";
        return Err(Problem::conflict("not_parked", detail));
    };
    let (runtime, scope) = (gateway.runtime().clone(), command.caller.scope().clone());
    let put_back = gateway.change(wish, move |tx| {
        runtime.retry_in(tx, &scope, &entry.id)?;
        let (thread, trace) = (entry.thread, entry.scope.trace);
        let shown = Queued { entry: entry.id.to_string(), thread, trace };
        Ok(Done::accepted(format!("/v1/queue/{}", entry.id), execution, shown))
    });
    put_back.await
}

/// Adds a note for the nodes that ask for notes. It stops, wakes and answers nothing.
#[utoipa::path(
    post, path = "/v1/executions/{execution}/notes", tag = "executions", request_body = NoteBody,
    params(("execution" = String, Path, description = "The execution", pattern = "^exec_[A-Za-z0-9-]{1,64}$")),
    responses((status = 201, body = NoteShown))
)]
async fn note(
    State(gateway): State<Gateway>,
    Id(execution): Id<ExecutionId>,
    command: Command<NoteBody>,
) -> Result<Answer, Problem> {
    let wish = command.wish("execution.note", &execution)?;
    let view = one(&gateway, &command.caller, &execution).await?;
    let Command { caller, body: NoteBody { note, payload }, .. } = command;
    let runtime = gateway.runtime().clone();
    let added = gateway.change(wish, move |tx| {
        let (thread, author, text) = (&view.execution.thread, caller.actor(), String::from(note));
        let added = runtime.intervene_in(tx, caller.scope(), thread, payload, &author, &text)?;
        if added.execution != execution {
            let detail = "the thread has gone on with another execution: add the note to that";
            return Err(Problem::conflict("finished", detail));
        }
        let shown = NoteShown {
            note: added.id.to_string(),
            execution: added.execution,
            author,
            text,
            payload: added.payload,
            at: added.at.0,
        };
        let detail = json!({ "note": shown.note });
        Ok(Done::created(format!("/v1/executions/{execution}/story"), &execution, shown)
            .map(|done| done.detail(detail)))
    });
    added.await
}

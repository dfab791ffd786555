//! Waits: what somebody has to answer. The answer's actor is whoever shows the key.

use axum::{Json, extract::State};
use longhaul_core::{Digest, ExecutionId, ThreadId};
use longhaul_durable::{Continued, DurableError, GivenAnswer, WaitFilter, WaitId, WaitKind, WaitStatus};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::shown::WaitShown;
use crate::{
    Caller, Gateway, Problem,
    change::{Answer, Done},
    input::{Command, Id, Params},
    page::{Limit, Page},
    text::TextLine,
};

/// How waits are.
#[derive(Debug, Clone, Copy, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WaitState {
    /// Nobody has answered yet.
    #[default]
    Waiting,
    /// Somebody has.
    Answered,
    /// The deadline passed.
    Expired,
    /// The execution was cancelled.
    Cancelled,
    /// Any of these.
    Any,
}

/// What is waited for.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// Somebody's yes or no.
    Approval,
    /// A call from outside.
    Webhook,
    /// Something that happens.
    Event,
    /// A point in time.
    Timer,
}

/// Which waits.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Which {
    /// Of this execution and those it began.
    #[param(value_type = Option<String>, pattern = "^exec_[A-Za-z0-9-]{1,64}$")]
    execution: Option<ExecutionId>,
    /// Of the newest execution of this thread.
    #[param(value_type = Option<String>, pattern = "^[A-Za-z0-9_.:/-]{1,128}$")]
    thread: Option<ThreadId>,
    /// For this.
    #[param(inline)]
    kind: Option<Kind>,
    /// Of this name.
    #[param(value_type = Option<String>, min_length = 1, max_length = 200, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]*$")]
    name: Option<TextLine>,
    /// That are so; `waiting` if nothing is said.
    #[serde(default)]
    #[param(inline)]
    status: WaitState,
    /// Behind this wait.
    #[param(value_type = Option<String>, pattern = "^wait_[A-Za-z0-9-]{1,64}$")]
    after: Option<WaitId>,
    /// At most so many.
    #[serde(default)]
    #[param(value_type = Option<u32>, minimum = 1, maximum = 200)]
    limit: Limit,
}

/// What somebody says to a wait.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewAnswer)]
pub(crate) struct AnswerBody {
    /// The answer; it has to fit the wait's schema.
    value: Value,
}

/// What became of an answer.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Answered {
    /// The wait as it is now.
    wait: WaitShown,
    /// The same request had been accepted before.
    repeated: bool,
}

pub(super) fn routes() -> OpenApiRouter<Gateway> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(get)).routes(routes!(answer))
}

/// The caller's waits, the oldest first.
#[utoipa::path(get, path = "/v1/waits", tag = "waits", params(Which), responses((status = 200, body = Page<WaitShown>)))]
async fn list(
    State(gateway): State<Gateway>,
    caller: Caller,
    Params(which): Params<Which>,
) -> Result<Json<Page<WaitShown>>, Problem> {
    let filter = WaitFilter {
        thread: which.thread,
        execution: which.execution,
        kind: which.kind.map(|kind| match kind {
            Kind::Approval => WaitKind::Approval,
            Kind::Webhook => WaitKind::Webhook,
            Kind::Event => WaitKind::Event,
            Kind::Timer => WaitKind::Timer,
        }),
        name: which.name.map(String::from),
        status: match which.status {
            WaitState::Waiting => Some(WaitStatus::Waiting),
            WaitState::Answered => Some(WaitStatus::Answered),
            WaitState::Expired => Some(WaitStatus::Expired),
            WaitState::Cancelled => Some(WaitStatus::Cancelled),
            WaitState::Any => None,
        },
        after: which.after,
        limit: which.limit.and_one(),
    };
    let found = gateway.runtime().waits(caller.scope(), filter).await?;
    Ok(Json(Page::of(found, which.limit, |wait| wait.id.to_string(), WaitShown::from)))
}

/// One wait, open or not.
#[utoipa::path(
    get, path = "/v1/waits/{wait}", tag = "waits",
    params(("wait" = String, Path, description = "The wait", pattern = "^wait_[A-Za-z0-9-]{1,64}$")),
    responses((status = 200, body = WaitShown))
)]
async fn get(State(gateway): State<Gateway>, caller: Caller, Id(wait): Id<WaitId>) -> Result<Json<WaitShown>, Problem> {
    Ok(Json(gateway.runtime().wait(caller.scope(), &wait).await?.into()))
}

/// Answers a wait. A wait is answered once: the same answer of the same caller may be repeated, another one is refused.
#[utoipa::path(
    post, path = "/v1/waits/{wait}/answer", tag = "waits", request_body = AnswerBody,
    params(("wait" = String, Path, description = "The wait", pattern = "^wait_[A-Za-z0-9-]{1,64}$")),
    responses((status = 200, body = Answered))
)]
async fn answer(
    State(gateway): State<Gateway>,
    Id(wait): Id<WaitId>,
    command: Command<AnswerBody>,
) -> Result<Answer, Problem> {
    let wish = command.wish("wait.answer", &wait)?;
    let Command { caller, body: AnswerBody { value }, .. } = command;
    let request_id = match wish.request_name() {
        Some(name) => format!("http:{}:{name}", caller.scope().user),
        None => format!("http:{}:{}", caller.scope().user, Digest::of(value.to_string())),
    };
    let (runtime, scope) = (gateway.runtime().clone(), caller.scope().clone());
    let given = GivenAnswer { wait, value, request_id, actor: caller.actor() };
    let answered = gateway.change(wish, move |tx| {
        let continued = match runtime.continue_in(tx, &scope, &given)? {
            Ok(continued) => continued,
            // Nothing was noted of a wait that nobody knows.
            Err(error @ DurableError::NoWait { .. }) => return Err(error.into()),
            Err(error) => return Ok(Err(error.into())),
        };
        let (wait, repeated) = match continued {
            Continued::Accepted(wait) => (wait, false),
            Continued::Repeated(wait) => (wait, true),
        };
        let detail = json!({ "execution": wait.execution, "repeated": repeated });
        Ok(Done::ok(Answered { wait: wait.into(), repeated }).map(|done| done.detail(detail)))
    });
    answered.await
}

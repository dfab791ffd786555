//! Business events of a user or of one task: as a page, as server-sent events, over a WebSocket.

use axum::{
    Json,
    extract::{
        Extension, State,
        ws::{WebSocketUpgrade, rejection::WebSocketUpgradeRejection},
    },
    http::{HeaderMap, header},
    response::{IntoResponse, Response},
};
use longhaul_core::TaskId;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    Caller, Gateway, Problem,
    events::{self, Feed, Session, TypeFilter, Wanted, WireEvent},
    input::{Id, Params},
    serve::Closing,
};

const LIMIT: u32 = 100;
const LIMIT_MAX: u32 = 1_000;
/// Longest message that a client of a WebSocket may send.
const MESSAGE_BYTES_MAX: usize = 4 * 1024;

/// What is wanted of the log.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Asked {
    /// The number behind which to begin: 0 for all that the log holds, the `seq` of the last event that was seen to go
    /// on behind it. Without it a page begins at the beginning, and a stream now. `Last-Event-ID` goes before it.
    #[param(minimum = 0, maximum = 9007199254740991_i64)]
    after: Option<u64>,
    /// Types of events that are wanted, with commas between them: `wait.opened,execution.*`. All without.
    #[param(
        max_length = 1000,
        pattern = "^([A-Za-z0-9._:-]{1,100}(\\.\\*)?(,[A-Za-z0-9._:-]{1,100}(\\.\\*)?){0,7})?$"
    )]
    types: Option<String>,
    /// Entries of the log to look at for one page; streams take no notice of it.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// A page of events.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EventPage {
    /// The events, in the order of the log.
    events: Vec<WireEvent>,
    /// The `after` of the next page.
    next_after: i64,
    /// Whether the log may hold more already.
    more: bool,
}

pub(super) fn streams() -> OpenApiRouter<Gateway> {
    OpenApiRouter::new().routes(routes!(of_user)).routes(routes!(of_task))
}

/// Business events of everything the user has.
///
/// As a page of JSON. As a stream that goes on with what happens, with `Accept: text/event-stream` (server-sent events,
/// resumable with `Last-Event-ID`) or as a WebSocket.
#[utoipa::path(
    get, path = "/v1/events", tag = "events",
    params(Asked),
    responses((status = 200, content((EventPage = "application/json"), (String = "text/event-stream"))))
)]
async fn of_user(
    State(gateway): State<Gateway>,
    caller: Caller,
    closing: Option<Extension<Closing>>,
    Params(asked): Params<Asked>,
    headers: HeaderMap,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Problem> {
    answer(gateway, caller, closing, None, asked, &headers, upgrade).await
}

/// Business events of one task.
///
/// In the same forms as those of the user.
#[utoipa::path(
    get, path = "/v1/tasks/{task}/events", tag = "events",
    params(("task" = String, Path, description = "The task", pattern = "^task_[A-Za-z0-9-]{1,64}$"), Asked),
    responses((status = 200, content((EventPage = "application/json"), (String = "text/event-stream"))))
)]
async fn of_task(
    State(gateway): State<Gateway>,
    caller: Caller,
    closing: Option<Extension<Closing>>,
    Id(task): Id<TaskId>,
    Params(asked): Params<Asked>,
    headers: HeaderMap,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Problem> {
    gateway.task(&caller, &task).await?;
    answer(gateway, caller, closing, Some(task), asked, &headers, upgrade).await
}

async fn answer(
    gateway: Gateway,
    caller: Caller,
    closing: Option<Extension<Closing>>,
    task: Option<TaskId>,
    asked: Asked,
    headers: &HeaderMap,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Problem> {
    let types = TypeFilter::parse(asked.types.as_deref().unwrap_or_default())
        .map_err(|error| Problem::invalid("query.types", error.to_string()))?;
    let wanted = Wanted { scope: caller.scope().clone(), task, types };
    let after = match last_event(headers)? {
        Some(last) => Some(last),
        None => asked.after.map(|after| position(after, "query.after")).transpose()?,
    };
    let doors = gateway.doors();
    let streamed = upgrade.is_ok() || wants_stream(headers);
    if !streamed {
        let limit = asked.limit.unwrap_or(LIMIT);
        if !(1..=LIMIT_MAX).contains(&limit) {
            return Err(Problem::invalid("query.limit", format!("expected 1 to {LIMIT_MAX}")));
        }
        let page = events::page(gateway.store(), &wanted, after.unwrap_or(0), limit).await?;
        let more = page.entries == limit as usize;
        return Ok(Json(EventPage { events: page.events, next_after: page.position, more }).into_response());
    }
    let turn = doors.turns.take(&caller.key().prefix)?;
    let feed = Feed::open(gateway.store().clone(), &doors.pulse, wanted, after).await?;
    let closing = closing.map(|Extension(Closing(closing))| closing).unwrap_or_default();
    let session = Session::new(feed, caller, gateway.keys().clone(), closing, doors.settings.heartbeat, turn);
    Ok(match upgrade {
        Ok(upgrade) => upgrade
            .max_message_size(MESSAGE_BYTES_MAX)
            .max_frame_size(MESSAGE_BYTES_MAX)
            .on_upgrade(|socket| events::follow_by_socket(socket, session)),
        Err(_) => events::sse_response(session),
    })
}

fn wants_stream(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted
        .flat_map(|value| value.split(','))
        .any(|one| one.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("text/event-stream"))
}

/// Where a client goes on that lost its stream. An empty one says that it has seen nothing.
fn last_event(headers: &HeaderMap) -> Result<Option<i64>, Problem> {
    let Some(value) = headers.get("last-event-id").filter(|value| !value.is_empty()) else { return Ok(None) };
    let number = value.to_str().ok().and_then(|text| text.parse().ok());
    let detail = "expected the id of an event of this stream, a whole number";
    number
        .ok_or_else(|| Problem::invalid("header.last-event-id", detail))
        .and_then(|n| position(n, "header.last-event-id"))
        .map(Some)
}

fn position(after: u64, place: &str) -> Result<i64, Problem> {
    i64::try_from(after).map_err(|_| Problem::invalid(place, "no log is so long: expected the seq of an event"))
}

//! The paths every SDK client uses: register, send, poll, unregister. What they answer is fixed by those clients: a
//! wrong secret is answered with status 200 and `success: false`, anything but 200 is a failure without words to them.

use std::time::{Duration, Instant};

use axum::{
    Extension, Json,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use longhaul_network::{AgentId, Received, Refusal, RefusalKind, Via};
use serde::{Deserialize, Deserializer, Serialize, de::Error as _, ser::SerializeSeq};
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    Credentials, Failure,
    answer::FailureBody,
    input::{Input, Params},
    status,
};
use crate::{
    front::{Front, Peer},
    wire::{self, EventIn, EventOut, RegisterIn},
};

/// Whole numbers up to here are exact in a double.
const EXACT_MAX: f64 = 9_007_199_254_740_991.0;
/// The transport's name in meters.
const TRANSPORT: &str = "http";
/// Longest wait that can be asked for; a network may hold polls for less.
const WAIT_SECONDS_MAX: f64 = 25.0;

pub(super) fn routes() -> OpenApiRouter<Front> {
    OpenApiRouter::new()
        .routes(routes!(register))
        .routes(routes!(unregister))
        .routes(routes!(send_event))
        .routes(routes!(poll))
        .routes(routes!(acknowledge))
}

/// Somebody has come in.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RegisterOut)]
struct RegisterOut {
    success: bool,
    network_name: String,
    network_id: String,
    /// Shown once. Every later call shows it.
    secret: String,
    assigned_group: String,
}

/// Lets an agent in, or back in.
///
/// A name that is held comes back only with its secret or with its group's credential.
#[utoipa::path(post, path = "/api/register", tag = "contract", request_body = RegisterIn, responses(
    (status = 200, body = RegisterOut), (status = "4XX", body = FailureBody), (status = "5XX", body = FailureBody)))]
async fn register(
    State(front): State<Front>,
    Extension(peer): Extension<Peer>,
    Input(asked): Input<RegisterIn>,
) -> Result<Json<RegisterOut>, Failure> {
    let registration = asked.read(Via::Http)?;
    let registered = front.register(peer, registration).await?;
    let view = front.network().view();
    Ok(Json(RegisterOut {
        success: true,
        network_name: view.name,
        network_id: view.id,
        secret: registered.secret,
        assigned_group: registered.member.group().to_owned(),
    }))
}

/// Who leaves.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = UnregisterIn)]
struct UnregisterIn {
    /// Who leaves. Not needed with `Authorization: Bearer AGENT_ID:SECRET`.
    #[schema(pattern = "^((agent:)?[\\w.@+~-]{1,200})?$")]
    #[serde(default)]
    agent_id: Option<String>,
    /// Its secret.
    #[serde(default)]
    secret: Option<String>,
}

/// It was done.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Done)]
struct Done {
    success: bool,
}

/// Lets an agent go: its queue, subscriptions and memberships end.
#[utoipa::path(post, path = "/api/unregister", tag = "contract", request_body = UnregisterIn, responses(
    (status = 200, body = Done), (status = "4XX", body = FailureBody), (status = "5XX", body = FailureBody)))]
async fn unregister(
    State(front): State<Front>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    Input(asked): Input<UnregisterIn>,
) -> Result<Json<Done>, Failure> {
    let (agent, secret) = Credentials { agent_id: asked.agent_id, secret: asked.secret }.claimed(&headers)?;
    let member = front.member(peer, &agent, secret.as_deref())?;
    front.network().unregister(&member).await?;
    Ok(Json(Done { success: true }))
}

/// The answer to an event. `success: false` is an answer too: `message` says what is wrong.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = EventAnswer)]
struct EventAnswer {
    success: bool,
    message: String,
    /// The event's id.
    event_id: Option<String>,
    /// What was asked for.
    data: Option<Value>,
    event_name: Option<String>,
    /// The same id had been answered before; nothing was done again.
    #[schema(required = false)]
    repeated: Option<bool>,
}

/// Sends an event. Answered once it is on the disk.
#[utoipa::path(post, path = "/api/send_event", tag = "contract", request_body = EventIn, responses(
    (status = 200, body = EventAnswer), (status = "4XX", body = FailureBody), (status = "5XX", body = FailureBody)))]
async fn send_event(
    State(front): State<Front>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    Input(mut event): Input<EventIn>,
) -> Response {
    let began = Instant::now();
    let (id, name) = (event.event_id.clone(), event.event_name.clone());
    if let Some((agent, secret)) = super::bearer(&headers) {
        // A client may leave a field empty that it does not use.
        let blank = |text: &mut String| text.trim().is_empty();
        event.source_id.take_if(blank);
        event.secret.take_if(blank);
        event.source_id.get_or_insert(agent);
        event.secret.get_or_insert(secret);
    }
    let sent = async {
        let incoming = event.read(|| front.fresh_id())?;
        let id = incoming.draft.id.clone();
        Ok((id, front.send(peer, incoming).await?))
    };
    let sent: Result<_, Refusal> = sent.await;
    let success = sent.as_ref().is_ok_and(|(_, reply)| reply.success);
    front.meters().sent(TRANSPORT, success, began.elapsed().as_secs_f64());
    match sent {
        Ok((id, reply)) => Json(wire::reply(&id, name.as_deref().unwrap_or_default(), &reply)).into_response(),
        Err(refusal) => {
            // Clients of the SDK show the words of an answer with status 200 only.
            let status = match refusal.kind {
                RefusalKind::Unauthenticated
                | RefusalKind::Forbidden
                | RefusalKind::Missing
                | RefusalKind::Conflict => StatusCode::OK,
                RefusalKind::Invalid
                | RefusalKind::TooLarge
                | RefusalKind::TooMany
                | RefusalKind::TimedOut
                | RefusalKind::Unavailable => status(refusal.kind),
            };
            Failure::new(status, &refusal).with("event_id", id).with("event_name", name).into_response()
        }
    }
}

/// What a poll asks for.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct PollIn {
    /// Who asks. Not needed with `Authorization: Bearer AGENT_ID:SECRET`.
    #[param(pattern = "^((agent:)?[\\w.@+~-]{1,200})?$")]
    agent_id: Option<String>,
    /// Its secret; better sent in the header.
    secret: Option<String>,
    /// How long to wait for the first event, seconds; 20 when nothing is said, 25 at most.
    #[param(minimum = 0, maximum = 25)]
    wait: Option<f64>,
    /// Go on behind this number (the `cursor` of an earlier answer) instead of behind what the last poll gave. What is
    /// up to it counts as received.
    #[param(minimum = 0)]
    after: Option<i64>,
    /// Events in one answer, 200 at most.
    #[param(minimum = 1, maximum = 200)]
    limit: Option<usize>,
}

/// Events for the one who asked.
#[derive(Debug, Serialize)]
struct PollOut<'a> {
    success: bool,
    #[serde(serialize_with = "events")]
    messages: &'a Received,
    agent_id: &'a str,
    /// Where the receiver stands after these.
    cursor: i64,
    /// There are more: ask again at once.
    more: bool,
}

/// What a poll answers. `success: false` with no messages for a wrong secret.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PollAnswer)]
struct PollAnswer {
    success: bool,
    messages: Vec<serde_json::Map<String, Value>>,
    agent_id: Option<String>,
    #[schema(required = false)]
    cursor: Option<i64>,
    #[schema(required = false)]
    more: Option<bool>,
}

fn events<S: serde::Serializer>(received: &&Received, serializer: S) -> Result<S::Ok, S::Error> {
    let mut all = serializer.serialize_seq(Some(received.events.len()))?;
    for event in &received.events {
        all.serialize_element(&EventOut(event))?;
    }
    all.end()
}

/// Events for an agent. Held until there is one, or the time is up.
///
/// The next poll acknowledges what this one gave; with `after` the client says itself what it has.
#[utoipa::path(get, path = "/api/poll", tag = "contract", params(PollIn), responses(
    (status = 200, body = PollAnswer), (status = "4XX", body = FailureBody), (status = "5XX", body = FailureBody)))]
async fn poll(
    State(front): State<Front>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    Params(asked): Params<PollIn>,
) -> Result<Response, Failure> {
    let PollIn { agent_id, secret, wait, after, limit } = asked;
    let (agent, secret) = Credentials { agent_id, secret }.claimed(&headers)?;
    let limits = front.limits();
    if wait.is_some_and(|wait| !(0.0..=WAIT_SECONDS_MAX).contains(&wait)) {
        return Err(Refusal::invalid(format!("wait is given in seconds, from 0 to {WAIT_SECONDS_MAX}")).into());
    }
    if limit.is_some_and(|limit| !(1..=limits.poll_events_max).contains(&limit)) {
        return Err(Refusal::invalid(format!("limit is from 1 to {}", limits.poll_events_max)).into());
    }
    if after.is_some_and(i64::is_negative) {
        return Err(Refusal::invalid("after is the cursor of an earlier answer").into());
    }
    let wait = wait.map_or(limits.poll_wait, Duration::from_secs_f64).min(limits.poll_wait_max);
    let polled = polled(&front, peer, &agent, secret.as_deref(), wait, after, limit.unwrap_or(limits.poll_events_max));
    match polled.await {
        Ok(received) => {
            front.meters().delivered(TRANSPORT, received.events.len());
            let (cursor, more) = (received.cursor, received.more);
            let told = PollOut { success: true, messages: &received, agent_id: agent.as_str(), cursor, more };
            Ok(Json(told).into_response())
        }
        Err(refusal) if refusal.kind == RefusalKind::Unauthenticated => {
            let failure = Failure::new(StatusCode::OK, &refusal).with("messages", json!([]));
            Ok(failure.with("agent_id", agent.as_str()).into_response())
        }
        Err(refusal) => Err(refusal.into()),
    }
}

async fn polled(
    front: &Front,
    peer: Peer,
    agent: &AgentId,
    secret: Option<&str>,
    wait: Duration,
    after: Option<i64>,
    max: usize,
) -> Result<Received, Refusal> {
    let member = front.member(peer, agent, secret)?;
    let _open = front.meters().stream("poll");
    let network = front.network();
    let received = async {
        match after {
            None => network.poll(&member, max, wait).await,
            Some(after) => {
                let mut inbox = network.inbox(&member, Some(after))?;
                network.acknowledge(&member, after)?;
                inbox.next(max, wait).await
            }
        }
    };
    tokio::select! {
        biased;
        received = received => received,
        () = front.closing().cancelled() => Ok(Received { cursor: after.unwrap_or_default(), ..Received::default() }),
    }
}

/// What has been received.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = AckIn)]
struct AckIn {
    /// Who received it. Not needed with `Authorization: Bearer AGENT_ID:SECRET`.
    #[schema(pattern = "^((agent:)?[\\w.@+~-]{1,200})?$")]
    #[serde(default)]
    agent_id: Option<String>,
    /// Its secret.
    #[serde(default)]
    secret: Option<String>,
    /// Everything up to here: a `cursor`, or the id of a server-sent event.
    #[schema(minimum = 0, maximum = 9007199254740991_i64)]
    #[serde(deserialize_with = "whole")]
    cursor: i64,
}

/// A number without a fraction, also as some writers have it: `7.0`.
fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    let number = serde_json::Number::deserialize(deserializer)?;
    let fraction = || number.as_f64().filter(|number| number.fract() == 0.0 && number.abs() <= EXACT_MAX);
    let whole = number.as_i64().or_else(|| fraction().map(|number| number as i64));
    whole
        .filter(|whole| whole.unsigned_abs() as f64 <= EXACT_MAX)
        .ok_or_else(|| D::Error::custom("a whole number that a double can hold"))
}

/// Acknowledges: everything up to `cursor` is safe with the receiver.
#[utoipa::path(post, path = "/api/ack", tag = "streams", request_body = AckIn, responses(
    (status = 200, body = Done), (status = "4XX", body = FailureBody), (status = "5XX", body = FailureBody)))]
async fn acknowledge(
    State(front): State<Front>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    Input(asked): Input<AckIn>,
) -> Result<Json<Done>, Failure> {
    if asked.cursor < 0 {
        return Err(Refusal::invalid("cursor is a number that an answer or a stream gave").into());
    }
    let (agent, secret) = Credentials { agent_id: asked.agent_id, secret: asked.secret }.claimed(&headers)?;
    let member = front.member(peer, &agent, secret.as_deref())?;
    front.network().acknowledge(&member, asked.cursor)?;
    Ok(Json(Done { success: true }))
}

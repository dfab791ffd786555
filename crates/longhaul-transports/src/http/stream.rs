//! Server-sent events: a member's events as they come (WHATWG HTML, 9.2).
//!
//! Invariants: each event carries its number as `id`, so that a client that comes back with `Last-Event-ID` misses
//! nothing and is told nothing twice; what a client names so, it has; a stream ends when its secret no longer holds or
//! the server shuts down.

use std::sync::Arc;

use axum::{
    Extension,
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, HeaderValue, header},
    response::{IntoResponse, Response},
};
use longhaul_network::{Event, Inbox, Member, Refusal, RefusalKind};
use serde::Deserialize;
use tokio::{sync::mpsc, time::timeout};
use utoipa::IntoParams;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{Credentials, Failure, answer::FailureBody, input::Params};
use crate::{
    front::{Front, Peer, StreamTurn},
    metrics::OpenStream,
    wire::{self, EventOut},
};

/// Pieces that may wait for a slow client.
const WAITING_MAX: usize = 16;
/// Events that are read at once.
const EVENTS_MAX: usize = 64;
/// After how long a client that lost its stream comes again, milliseconds.
const RETRY_MS: u32 = 1_000;

pub(super) fn routes() -> OpenApiRouter<Front> {
    OpenApiRouter::new().routes(routes!(stream))
}

/// Where a stream begins, and who says what has been received.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct StreamIn {
    /// Who asks. Not needed with `Authorization: Bearer AGENT_ID:SECRET`.
    #[param(pattern = "^((agent:)?[\\w.@+~-]{1,200})?$")]
    agent_id: Option<String>,
    /// Its secret; better sent in the header.
    secret: Option<String>,
    /// Begin behind this number; without it, behind what has been acknowledged. `Last-Event-ID` counts first.
    #[param(minimum = 0)]
    after: Option<i64>,
    /// `auto`: what was sent counts as received. `manual`: what `POST /api/ack` names does.
    #[param(pattern = "^(auto|manual)$")]
    ack: Option<String>,
}

/// An agent's events as they come. Each `id` is a number to come back with.
#[utoipa::path(get, path = "/api/events/stream", tag = "streams",
    params(StreamIn, ("Last-Event-ID" = Option<String>, Header, description = "The id of the last event that was received.", pattern = "^[0-9]{1,18}$")),
    responses((status = 200, body = String, content_type = "text/event-stream"),
        (status = "4XX", body = FailureBody), (status = "5XX", body = FailureBody)))]
async fn stream(
    State(front): State<Front>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    Params(asked): Params<StreamIn>,
) -> Result<Response, Failure> {
    let StreamIn { agent_id, secret, after, ack } = asked;
    let last = match headers.get("last-event-id") {
        None => None,
        Some(value) => {
            let number = value.to_str().ok().and_then(|text| text.trim().parse::<i64>().ok());
            Some(number.ok_or_else(|| Refusal::invalid("Last-Event-ID is the id of an event of this stream"))?)
        }
    };
    let after = last.or(after);
    if after.is_some_and(i64::is_negative) {
        return Err(Refusal::invalid("begin behind a number that a stream gave, or behind 0").into());
    }
    let auto = match ack.as_deref() {
        None | Some("auto") => true,
        Some("manual") => false,
        Some(_) => return Err(Refusal::invalid("ack is `auto` or `manual`").into()),
    };
    let (agent, secret) = Credentials { agent_id, secret }.claimed(&headers)?;
    let member = front.member(peer, &agent, secret.as_deref())?;
    let turn = front.stream(&agent)?;
    let inbox = front.network().inbox(&member, after)?;
    if let (Some(last), true) = (last, auto) {
        front.network().acknowledge(&member, last)?;
    }
    let (pieces, waiting) = mpsc::channel(WAITING_MAX);
    let open = front.meters().stream("sse");
    let following = Following { front, member, inbox, auto, pieces, _held: (turn, open) };
    tokio::spawn(following.run());
    Ok(response(waiting))
}

fn response(waiting: mpsc::Receiver<Bytes>) -> Response {
    let body = futures::stream::unfold(waiting, |mut waiting| async {
        let piece: Bytes = waiting.recv().await?;
        Some((Ok::<_, std::convert::Infallible>(piece), waiting))
    });
    let mut response = Body::from_stream(body).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    // Proxies that collect answers would keep the client waiting.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// One client that follows its events.
struct Following {
    front: Front,
    member: Member,
    inbox: Inbox,
    auto: bool,
    pieces: mpsc::Sender<Bytes>,
    _held: (StreamTurn, OpenStream),
}

impl Following {
    async fn run(mut self) {
        let begin = format!(": events of {}\nretry: {RETRY_MS}\n\n", self.member.agent());
        if !self.write(begin).await {
            return;
        }
        let heartbeat = self.front.limits().heartbeat;
        loop {
            let received = tokio::select! {
                biased;
                () = self.pieces.closed() => return,
                () = self.front.closing().cancelled() => {
                    self.write(end("shutdown")).await;
                    return;
                }
                received = self.inbox.next(EVENTS_MAX, heartbeat) => received,
            };
            let received = match received {
                Ok(received) => received,
                Err(refusal) => {
                    let because =
                        if refusal.kind == RefusalKind::Unauthenticated { "secret" } else { wire::code(refusal.kind) };
                    self.write(end(because)).await;
                    return;
                }
            };
            if self.front.network().touch(&self.member).is_err() {
                self.write(end("secret")).await;
                return;
            }
            let frame = match received.events.is_empty() {
                true => ": heartbeat\n\n".to_owned(),
                false => received.events.iter().map(frame).collect(),
            };
            if !self.write(frame).await {
                return;
            }
            self.front.meters().delivered("sse", received.events.len());
            if self.auto && !received.events.is_empty() {
                self.inbox.acknowledge(received.cursor);
            }
        }
    }

    /// Whether the client takes what it is sent.
    async fn write(&self, frame: String) -> bool {
        let silent_max = self.front.limits().silent_max;
        matches!(timeout(silent_max, self.pieces.send(frame.into())).await, Ok(Ok(())))
    }
}

/// JSON has no line breaks, so one `data` line is enough.
fn frame(event: &Arc<Event>) -> String {
    let data = serde_json::to_string(&EventOut(event)).unwrap_or_default();
    format!("id: {}\ndata: {data}\n\n", event.seq)
}

fn end(because: &str) -> String {
    format!("event: end\ndata: {{\"because\":\"{because}\"}}\n\n")
}

//! WebSocket: events both ways on one connection, pushed as they come, with acknowledgement and resumption.
//!
//! One connection is one member. It begins with a `hello` (id and secret), a `register`, or with both in the request
//! itself; `resume_after` names the last number the client has, and nothing between is missed or told twice. The frames
//! of the reference's older clients (`event`, `system_request`) are read as well.
//! Invariants: whoever has not said who it is gets nothing and is let go soon; what a connection makes us hold is
//! bounded (messages to it, events it has not acknowledged, the size of what it says).

mod frames;
mod session;

use axum::{
    Extension, Router,
    extract::{State, WebSocketUpgrade, ws::rejection::WebSocketUpgradeRejection},
    http::{HeaderMap, StatusCode},
    middleware,
    response::{IntoResponse, Response},
};
use longhaul_network::{AgentId, Refusal};
use serde::Deserialize;

use self::{frames::Acks, session::Opening};
use crate::{
    edge::Guard,
    front::{Front, Peer},
    http::{Credentials, Door, Failure, Params, admit},
};

/// What may stand in the request itself.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct WsIn {
    agent_id: Option<String>,
    secret: Option<String>,
    /// Begin behind this number.
    resume_after: Option<i64>,
    /// `auto` or `manual`.
    #[serde(default)]
    ack: Acks,
}

/// The WebSocket service on a port of its own: at any path.
pub(crate) fn alone(front: Front, guard: Guard) -> Router {
    Router::new()
        .fallback(upgrade)
        .with_state(front.clone())
        .layer(middleware::from_fn_with_state(Door::new(front, guard), admit))
}

/// Turns the request into a WebSocket. A wrong secret in it is answered here, so that clients see a status.
pub(crate) async fn upgrade(
    State(front): State<Front>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    Params(asked): Params<WsIn>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Response {
    let Ok(upgrade) = upgrade else {
        let refusal = Refusal::invalid("this address speaks WebSocket: connect with ws:// or wss://");
        return Failure::new(StatusCode::UPGRADE_REQUIRED, &refusal).into_response();
    };
    let opening = match opening(&front, peer, &headers, asked) {
        Ok(opening) => opening,
        Err(refusal) => return Failure::from(refusal).into_response(),
    };
    let bytes_max = front.limits().body_bytes_max;
    upgrade
        .max_message_size(bytes_max)
        .max_frame_size(bytes_max)
        .write_buffer_size(0)
        .on_upgrade(move |socket| session::talk(front, peer, socket, opening))
}

fn opening(front: &Front, peer: Peer, headers: &HeaderMap, asked: WsIn) -> Result<Option<Opening>, Refusal> {
    let WsIn { agent_id, secret, resume_after, ack } = asked;
    let credentials = Credentials { agent_id, secret };
    if credentials.agent_id.is_none() && crate::http::bearer(headers).is_none() {
        return Ok(None);
    }
    let (agent, secret): (AgentId, _) = credentials.claimed(headers)?;
    let member = front.member(peer, &agent, secret.as_deref())?;
    Ok(Some(Opening { member, resume_after, acks: ack, told: None }))
}

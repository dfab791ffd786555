//! The two bindings over HTTP, and the cards.
//!
//! It owns paths, headers and bodies; operations are `service`'s. Who may connect at all (host, origin, TLS, rates) is
//! for the server that these routes are part of.

mod cards;
mod rest;
mod rpc;

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::DefaultBodyLimit,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{any, get, post},
};
use longhaul_network::AgentId;

use crate::{
    card::Reached,
    error::A2aError,
    service::{Call, Service},
    settings::Statuses,
    version,
};

/// The routes: cards at `/.well-known/agent-card.json` and `/a2a/agents/ID/.well-known/agent-card.json`; JSON-RPC at
/// `/a2a` and `/a2a/agents/ID`; REST at `/a2a/rest/…` and `/a2a/agents/ID/rest/…`.
pub(crate) fn routes(service: Arc<Service>) -> Router {
    let limit = DefaultBodyLimit::max(service.settings.body_bytes_max);
    Router::new()
        .route("/.well-known/agent-card.json", get(cards::network))
        .route("/.well-known/agent.json", get(cards::network_0_3))
        .route("/a2a/.well-known/agent-card.json", get(cards::network))
        .route("/a2a/.well-known/agent.json", get(cards::network_0_3))
        .route("/a2a/agents/{agent}/.well-known/agent-card.json", get(cards::agent))
        .route("/a2a/agents/{agent}/.well-known/agent.json", get(cards::agent_0_3))
        .route("/a2a", post(rpc::network))
        .route("/a2a/", post(rpc::network))
        .route("/a2a/agents/{agent}", post(rpc::agent))
        .route("/a2a/rest/{*path}", any(rest::network))
        .route("/a2a/agents/{agent}/rest/{*path}", any(rest::agent))
        .layer(limit)
        .with_state(service)
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// The version that a request states: in its header, or else among its parameters.
fn version_of<'a>(headers: &'a HeaderMap, query: Option<&'a str>) -> Option<&'a str> {
    text(headers, version::HEADER).or_else(|| {
        let pairs = query.unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
        pairs.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(version::HEADER)).map(|(_, value)| value)
    })
}

fn reached(headers: &HeaderMap) -> Reached {
    let plausible =
        |host: &&str| host.len() <= 255 && host.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_:[]".contains(&b));
    Reached { host: text(headers, "host").filter(plausible).map(str::to_owned) }
}

/// Who calls, and which agent is meant: by the path, else by the request's `tenant`.
async fn call(service: &Service, headers: &HeaderMap, path: Option<&str>, tenant: &str) -> Result<Call, A2aError> {
    let caller = service.caller(text(headers, "authorization")).await?;
    let agent = named(path.unwrap_or(tenant))?;
    Ok(Call { caller, agent, extensions: version::extensions(text(headers, version::EXTENSIONS)) })
}

/// The agent of this name; the empty one is the network.
pub(crate) fn named(name: &str) -> Result<Option<AgentId>, A2aError> {
    match name {
        "" => Ok(None),
        name => Ok(Some(name.parse().map_err(|_| A2aError::NoAgent(name.chars().take(80).collect()))?)),
    }
}

/// Whether the body is said to be JSON. A request without a body need not say anything.
fn is_json(headers: &HeaderMap, body: &[u8]) -> Result<(), A2aError> {
    let stated = text(headers, "content-type").unwrap_or_default();
    let essence = stated.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match essence.as_str() {
        "application/json" | "application/a2a+json" => Ok(()),
        "" if body.is_empty() => Ok(()),
        other => Err(A2aError::ContentType(format!(
            "{other:?} is not read here: send Content-Type: application/json or application/a2a+json"
        ))),
    }
}

/// An error as REST shows it; with what HTTP has for whoever is to show a credential or to wait.
fn refused(error: &A2aError, statuses: Statuses) -> Response {
    let (status, body) = error.rest(statuses);
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    with_hints(error, (status, Json(body)).into_response())
}

fn with_hints(error: &A2aError, mut response: Response) -> Response {
    if matches!(error, A2aError::Unauthenticated) {
        let challenge = header::HeaderValue::from_static("Bearer realm=\"longhaul\"");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    }
    if let Some(after_ms) = error.retry_after_ms() {
        response.headers_mut().insert(header::RETRY_AFTER, after_ms.div_ceil(1_000).into());
    }
    response
}

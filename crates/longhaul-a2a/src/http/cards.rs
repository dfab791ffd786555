//! Cards over HTTP, with what lets clients keep them for a while (section 8.6).

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use longhaul_core::Digest;

use super::{named, reached, refused, text};
use crate::{
    service::Service,
    v0_3,
    version::{self, Version},
    wire::to_json,
};

/// How long a card may be used without asking again, seconds: agents come and go.
const FRESH: &str = "public, max-age=60";

pub(super) async fn network(State(service): State<Arc<Service>>, headers: HeaderMap) -> Response {
    shown(&service, &headers, "", asks_for_0_3(&headers))
}

/// Clients of every version send no version when they ask for a card: that gets the newer one.
fn asks_for_0_3(headers: &HeaderMap) -> bool {
    let stated = text(headers, version::HEADER).filter(|stated| !stated.trim().is_empty());
    stated.is_some_and(|stated| matches!(Version::read(Some(stated)), Ok(Version::V0_3)))
}

pub(super) async fn network_0_3(State(service): State<Arc<Service>>, headers: HeaderMap) -> Response {
    shown(&service, &headers, "", true)
}

pub(super) async fn agent(
    State(service): State<Arc<Service>>,
    Path(agent): Path<String>,
    headers: HeaderMap,
) -> Response {
    shown(&service, &headers, &agent, asks_for_0_3(&headers))
}

pub(super) async fn agent_0_3(
    State(service): State<Arc<Service>>,
    Path(agent): Path<String>,
    headers: HeaderMap,
) -> Response {
    shown(&service, &headers, &agent, true)
}

fn shown(service: &Service, headers: &HeaderMap, agent: &str, old: bool) -> Response {
    let made = named(agent).and_then(|agent| service.card(agent.as_ref(), &reached(headers)));
    let body = match made {
        Ok(card) if old => v0_3::card(&card).to_string(),
        Ok(card) => to_json(&card).to_string(),
        Err(error) => return refused(&error, service.settings.statuses),
    };
    let etag = format!("\"{}\"", &Digest::of(body.as_bytes()).hex()[..32]);
    let since = service.network.view().since;
    let changed = jiff::Timestamp::from_millisecond(since.0)
        .map(|at| at.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string())
        .unwrap_or_default();
    let kept = [
        (header::CACHE_CONTROL, FRESH.to_owned()),
        (header::ETAG, etag.clone()),
        (header::LAST_MODIFIED, changed),
        (header::VARY, "Host, A2A-Version".to_owned()),
    ];
    if text(headers, "if-none-match").is_some_and(|known| known.split(',').any(|known| known.trim() == etag)) {
        return (StatusCode::NOT_MODIFIED, kept).into_response();
    }
    (kept, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}

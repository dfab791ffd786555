//! The door through which every request goes: host and origin, trace, key, role, rate.
//!
//! Invariant: it is closed unless the path is one of [`OPEN`]; whoever only may look changes nothing, as every method
//! that could is refused to them unless the path is one of those that only ask ([`ASKS`]).

use std::{net::IpAddr, sync::Arc};

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};

use crate::{
    Caller, Gateway, Problem,
    caller::forbidden,
    change,
    guard::Guard,
    keys::{Key, Refused, Role},
    serve::Peer,
    trace,
};

/// What anybody may have.
const OPEN: &[&str] = &["/health", "/v1/openapi.json"];

/// Where webhooks come in.
const HOOKS: &str = "/v1/hooks/";

/// Ends of paths whose POST asks and changes nothing.
pub(crate) const ASKS: &[&str] = &["/search", "/context"];

/// What the layer needs.
#[derive(Clone)]
pub(crate) struct Door {
    pub(crate) gateway: Gateway,
    pub(crate) guard: Guard,
}

/// Nobody we know.
pub(crate) fn stranger() -> Problem {
    let detail = "send a key as `Authorization: Bearer lh_…`; `longhaul keys create` makes one";
    Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail)
}

/// Lets in who may come in.
pub(crate) async fn admit(State(door): State<Door>, mut request: Request, next: Next) -> Response {
    let trace = trace::of(request.headers(), door.gateway.ambient());
    let mut response = match pass(&door, &mut request, &trace).await {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    };
    let headers = response.headers_mut();
    if let Ok(value) = HeaderValue::from_str(trace.as_str()) {
        headers.insert(trace::REQUEST_ID, value);
    }
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

/// Bounds the time of what is to be answered as a whole.
pub(crate) async fn in_time(State(gateway): State<Gateway>, request: Request, next: Next) -> Response {
    let limit = gateway.limits().request_max;
    let answered = tokio::time::timeout(limit, next.run(request)).await;
    answered.unwrap_or_else(|_| {
        let detail = format!(
            "the request was not whole and answered within {} s: look whether a change took place, or repeat it with the \
             same Idempotency-Key",
            limit.as_secs_f32()
        );
        Problem::new(StatusCode::REQUEST_TIMEOUT, "timeout", detail).into_response()
    })
}

async fn pass(door: &Door, request: &mut Request, trace: &longhaul_core::TraceId) -> Result<(), Problem> {
    door.guard.check(request.headers())?;
    // Webhooks show no key: what they show is looked at by their handlers.
    let hook = *request.method() == Method::POST && request.uri().path().starts_with(HOOKS);
    if hook || OPEN.contains(&request.uri().path()) {
        return Ok(());
    }
    let peer = request.extensions().get::<Peer>().map(Peer::network);
    let key = known(door, bearer(request.headers())?, peer).await?;
    if let Err(seconds) = door.gateway.requests().take(&key.prefix) {
        let limits = door.gateway.limits();
        let (rate, burst) = (limits.requests_per_second, limits.requests_burst);
        let detail =
            format!("this key may make {rate} requests a second, {burst} at once: wait, or ask for less at once");
        return Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_many_requests", detail).retry_after(seconds));
    }
    let asks = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS)
        || ASKS.iter().any(|end| request.uri().path().ends_with(end));
    if !asks && key.role < Role::Operator {
        return Err(forbidden(key.role, Role::Operator));
    }
    change::idempotency_key(request.headers())?;
    request.extensions_mut().insert(Caller::new(key, trace.clone()));
    Ok(())
}

/// The key that was shown, if it holds. Addresses that show wrong ones again and again are not listened to for a while,
/// but for keys that came in lately.
async fn known(door: &Door, text: &str, peer: Option<IpAddr>) -> Result<Arc<Key>, Problem> {
    let (keys, strangers) = (door.gateway.keys(), door.gateway.strangers());
    if let (Some(peer), false) = (&peer, keys.remembers(text))
        && let Err(seconds) = strangers.look(peer)
    {
        let detail = "too many wrong keys came from this address: wait, then send the right one";
        return Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_many_strangers", detail).retry_after(seconds));
    }
    keys.admit(text).await.map_err(|refused| match refused {
        Refused::Unknown => {
            let _ = peer.map(|peer| strangers.take(&peer)); // counted; it is refused in any case
            stranger()
        }
        Refused::Store(error) => error.into(),
    })
}

/// The key in the one `Authorization` header. Nothing else is looked at: no cookie, no parameter of the address.
fn bearer(headers: &HeaderMap) -> Result<&str, Problem> {
    let mut all = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(value), None) = (all.next(), all.next()) else { return Err(stranger()) };
    let (scheme, key) = value.to_str().ok().and_then(|text| text.split_once(' ')).ok_or_else(stranger)?;
    if scheme.eq_ignore_ascii_case("bearer") { Ok(key.trim()) } else { Err(stranger()) }
}

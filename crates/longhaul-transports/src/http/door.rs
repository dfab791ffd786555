//! The door every request comes through: its host and page, how slowly its body may come, and what is counted.

use std::{sync::Arc, time::Duration};

use axum::{
    body::{Body, HttpBody as _},
    extract::{MatchedPath, Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use futures::{StreamExt as _, stream};
use longhaul_network::Refusal;
use tokio::time::{Instant, timeout_at};

use super::Failure;
use crate::{
    edge::{Guard, Stranger},
    front::Front,
};

/// What the door needs to know.
#[derive(Debug, Clone)]
pub(crate) struct Door(Arc<(Front, Guard)>);

impl Door {
    pub(crate) fn new(front: Front, guard: Guard) -> Self {
        Self(Arc::new((front, guard)))
    }
}

/// Lets a request in, or says why not.
pub(crate) async fn admit(State(door): State<Door>, request: Request, next: Next) -> Response {
    let (front, guard) = &*door.0;
    let path = request.extensions().get::<MatchedPath>().map_or("none", MatchedPath::as_str).to_owned();
    let origin = guard.origin(request.headers());
    let mut response = match guard.check(request.headers()) {
        Ok(()) if is_preflight(&request) => preflight(request.headers()),
        Ok(()) => next.run(slowly(request, front.limits().body_max)).await,
        Err(Stranger::Host) => {
            let text = "the Host header names no host of this server: use its address, or name the host under `hosts`";
            Failure::new(StatusCode::MISDIRECTED_REQUEST, &Refusal::forbidden(text)).into_response()
        }
        Err(Stranger::Origin) => {
            let text = "pages of this origin are not answered: name it under `cors_origins`, or call from a program";
            Failure::new(StatusCode::FORBIDDEN, &Refusal::forbidden(text)).into_response()
        }
    };
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    if let Some(origin) = origin {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.append(header::VARY, HeaderValue::from_static("Origin"));
    }
    front.meters().request(&path, response.status().as_u16());
    response
}

fn is_preflight(request: &Request) -> bool {
    request.method() == Method::OPTIONS
        && request.headers().contains_key(header::ORIGIN)
        && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

/// A page that was invited may send what programs send; there are no cookies here, so none are asked for.
fn preflight(asked: &HeaderMap) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, PUT, DELETE"));
    if let Some(wanted) = asked.get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone());
    }
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    response
}

/// The same request, whose body ends with an error when it has not come in time.
fn slowly(request: Request, body_max: Duration) -> Request {
    if request.body().is_end_stream() {
        return request;
    }
    let until = Instant::now() + body_max;
    request.map(|body| {
        let pieces = stream::unfold(Some(body.into_data_stream()), move |pieces| async move {
            let mut pieces = pieces?;
            match timeout_at(until, pieces.next()).await {
                Ok(Some(piece)) => Some((piece, Some(pieces))),
                Ok(None) => None,
                Err(_) => Some((Err(axum::Error::new("the body did not come in time")), None)),
            }
        });
        Body::from_stream(pieces)
    })
}

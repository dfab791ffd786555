//! Reading what comes in: ids of the path, parameters, bodies. Every refusal names the place and what was expected.
//!
//! Invariant: a handler never sees input that does not fit its types; unknown fields and parameters are refused.

use axum::{
    body::{Body, to_bytes},
    extract::{FromRequest, FromRequestParts, Request},
    http::{HeaderMap, StatusCode, header, request::Parts},
};
use serde::de::DeserializeOwned;

use crate::{Caller, Gateway, Problem, change::Wish};

/// A JSON body. A request without any is one with `{}`.
#[derive(Debug)]
pub(crate) struct Input<T>(pub(crate) T);

/// A request for a change: who wishes it, its body, and its name for repetitions.
#[derive(Debug)]
pub(crate) struct Command<T> {
    pub(crate) caller: Caller,
    pub(crate) body: T,
    headers: HeaderMap,
    bytes: Vec<u8>,
}

impl<T> Command<T> {
    /// The wish for this action on this target, as far as it is known before.
    ///
    /// # Errors
    /// 422 for an idempotency key that is none.
    pub(crate) fn wish(&self, action: &'static str, target: impl ToString) -> Result<Wish, Problem> {
        Wish::new(self.caller.clone(), action, target).repeatable(&self.headers, &self.bytes)
    }
}

/// The parameters of the address.
#[derive(Debug)]
pub(crate) struct Params<T>(pub(crate) T);

/// The one id in the path.
#[derive(Debug)]
pub(crate) struct Id<T>(pub(crate) T);

/// The body as it came, for what is compared or stored as it is.
pub(crate) async fn bytes(headers: &HeaderMap, body: Body, bytes_max: usize) -> Result<Vec<u8>, Problem> {
    let too_large = || {
        let detail = format!(
            "the body is larger than the {bytes_max} bytes that are read: send less at once, or ingest it as a record"
        );
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail)
    };
    let said = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if said.is_some_and(|said| said > bytes_max as u64) {
        return Err(too_large());
    }
    match to_bytes(body, bytes_max).await {
        Ok(bytes) => Ok(bytes.into()),
        Err(error) if is_limit(&error) => Err(too_large()),
        Err(_) => Err(Problem::new(
            StatusCode::BAD_REQUEST,
            "broken_body",
            "the body ended before it was whole: send it again",
        )),
    }
}

fn is_limit(error: &axum::Error) -> bool {
    let mut next = std::error::Error::source(error);
    while let Some(error) = next {
        if error.to_string().contains("length limit") {
            return true;
        }
        next = error.source();
    }
    false
}

/// JSON from a body. 400 for what is no JSON, 422 for JSON of another shape.
pub(crate) fn json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    // Fields in the order of the program's types, which serde would take as well, are no input of ours.
    if bytes.trim_ascii_start().first() == Some(&b'[') {
        return Err(Problem::invalid("body", "write an object with named fields, not an array"));
    }
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        refused("body", &path, error.inner())
    })?;
    reader.end().map_err(|error| refused("body", "", &error))?;
    Ok(value)
}

fn refused(part: &str, path: &str, error: &serde_json::Error) -> Problem {
    let place = if matches!(path, "" | ".") { part.to_owned() } else { format!("{part}.{path}") };
    let detail: String = error.to_string().chars().take(400).collect();
    if error.is_data() {
        return Problem::invalid(place, detail);
    }
    Problem::new(StatusCode::BAD_REQUEST, "malformed", format!("the body is no JSON: {detail}")).at(place)
}

pub(crate) fn is_json(headers: &HeaderMap) -> Result<(), Problem> {
    let mut given = headers.get_all(header::CONTENT_TYPE).iter();
    let (first, more) = (given.next().and_then(|value| value.to_str().ok()), given.next());
    let essence = first.map(|text| text.split(';').next().unwrap_or_default().trim());
    if more.is_none() && essence.is_some_and(|essence| essence.eq_ignore_ascii_case("application/json")) {
        return Ok(());
    }
    Err(not_json())
}

fn not_json() -> Problem {
    let detail = "send the body as JSON, with `Content-Type: application/json`";
    Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "not_json", detail)
}

/// The body's bytes, which are JSON if there are any.
async fn body(headers: &HeaderMap, body: Body, gateway: &Gateway) -> Result<Vec<u8>, Problem> {
    let says_nothing = !headers.contains_key(header::CONTENT_TYPE);
    if !says_nothing {
        is_json(headers)?;
    }
    let bytes = bytes(headers, body, gateway.limits().body_bytes_max).await?;
    if !says_nothing {
        return Ok(bytes);
    }
    if bytes.is_empty() { Ok(b"{}".to_vec()) } else { Err(not_json()) }
}

impl<T: DeserializeOwned> FromRequest<Gateway> for Input<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, gateway: &Gateway) -> Result<Self, Problem> {
        let (parts, content) = request.into_parts();
        json(&body(&parts.headers, content, gateway).await?).map(Self)
    }
}

impl<T: DeserializeOwned> FromRequest<Gateway> for Command<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, gateway: &Gateway) -> Result<Self, Problem> {
        let (mut parts, content) = request.into_parts();
        let caller = Caller::from_request_parts(&mut parts, gateway).await?;
        let bytes = body(&parts.headers, content, gateway).await?;
        Ok(Self { caller, body: json(&bytes)?, headers: parts.headers, bytes })
    }
}

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        let found = axum::extract::Query::<T>::try_from_uri(&parts.uri);
        found.map(|found| Self(found.0)).map_err(|error| {
            let detail: String = error.body_text().chars().take(400).collect();
            let detail = detail.trim_start_matches("Failed to deserialize query string: ").to_owned();
            Problem::invalid("query", detail)
        })
    }
}

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Id<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let found = axum::extract::Path::<T>::from_request_parts(parts, state).await;
        found.map(|found| Self(found.0)).map_err(|error| {
            let detail: String = error.body_text().chars().take(400).collect();
            let detail = detail.trim_start_matches("Invalid URL: ").to_owned();
            Problem::invalid("path", detail)
        })
    }
}

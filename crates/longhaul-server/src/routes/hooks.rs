//! Where webhooks come in. No key is shown here: what is signed with an endpoint's secret is believed, and an answer's
//! token says which wait it is good for.
//!
//! Invariants: an unknown endpoint, a header that does not fit and a wrong signature touch no row; a token is taken from
//! the `Authorization` header and from nowhere else.

use std::sync::atomic::Ordering;

use axum::{
    Json,
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, StatusCode, header},
};
use longhaul_core::Digest;
use longhaul_durable::{AnswerSchemaError, Continued, DurableError, WaitId, WaitToken};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    Gateway, Problem,
    hooks::{Action, Claim, Untrusted, endpoints::Endpoint},
    input::{self, Id},
    words::Pointer,
};

/// When a sender whose event nobody waits for is asked to come again, seconds.
const NOT_YET_S: u64 = 30;

/// What a webhook came to.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Taken {
    /// The waits that it answered, now or when it first came.
    #[schema(value_type = Vec<String>)]
    answered: Vec<WaitId>,
    /// It had come before; nothing was changed now.
    repeated: bool,
}

pub(super) fn routes() -> OpenApiRouter<Gateway> {
    OpenApiRouter::new().routes(routes!(come_in)).routes(routes!(answer))
}

/// Takes a signed webhook in.
///
/// Signed as standardwebhooks.com says, with the secret of the endpoint. The same message may come again: `webhook-id`
/// tells. Where nobody waits for it yet the answer is 503, so that the sender tries again.
#[utoipa::path(
    post, path = "/v1/hooks/{endpoint}", tag = "webhooks",
    params(
        ("endpoint" = String, Path, description = "The endpoint", pattern = "^ep_[A-Za-z0-9-]{1,64}$"),
        ("webhook-id" = Option<String>, Header, description = "The name of the message, the same on each attempt"),
        ("webhook-timestamp" = Option<String>, Header, description = "When this attempt was signed, seconds since 1970"),
        ("webhook-signature" = Option<String>, Header, description = "`v1,` and the base64 of the HMAC-SHA256 over id, timestamp and body with full stops between them")
    ),
    request_body(content = Object, content_type = "application/json"),
    responses((status = 200, body = Taken))
)]
async fn come_in(
    State(gateway): State<Gateway>,
    Id(endpoint): Id<String>,
    request: Request,
) -> Result<Json<Taken>, Problem> {
    let doors = gateway.doors();
    let Some((endpoint, counts)) = doors.endpoint(gateway.store(), &endpoint).await? else {
        // Like any other stranger's request: who sends here has shown nothing.
        let detail = "there is no such endpoint: check the address, and whether it was removed";
        return Err(Problem::new(StatusCode::UNAUTHORIZED, "untrusted", detail));
    };
    let (parts, body) = request.into_parts();
    let refuse = |untrusted: Untrusted| {
        counts.refused.fetch_add(1, Ordering::Relaxed);
        Problem::new(StatusCode::UNAUTHORIZED, "untrusted", untrusted.to_string())
    };
    let now = gateway.ambient().clock.now();
    let claim = Claim::read(&parts.headers, now).map_err(refuse)?;
    let body = read_body(&gateway, &parts.headers, body).await?;
    claim.verify(&endpoint.secrets.good(now), &body).map_err(refuse)?;
    let taken = act(&gateway, &endpoint, &claim.id, any_json(&body)?).await?;
    let counted = if taken.repeated { &counts.repeated } else { &counts.accepted };
    counted.fetch_add(1, Ordering::Relaxed);
    Ok(Json(taken))
}

/// Answers the wait of a token.
///
/// The token is shown as `Authorization: Bearer hook_…`, and the body is the answer. The same answer may be sent again.
#[utoipa::path(
    post, path = "/v1/hooks/answer", tag = "webhooks",
    request_body(content = Object, content_type = "application/json"),
    responses((status = 200, body = Taken))
)]
async fn answer(State(gateway): State<Gateway>, request: Request) -> Result<Json<Taken>, Problem> {
    let (parts, body) = request.into_parts();
    let token = token(&parts.headers)?;
    input::is_json(&parts.headers)?;
    let body = read_body(&gateway, &parts.headers, body).await?;
    // The answer is its own name: the same one may come twice.
    let request_id = format!("hook:{}", &Digest::of(&body).hex()[..32]);
    let value: Value = any_json(&body)?;
    match gateway.runtime().answer_by_token(&token, value, &request_id).await {
        Ok(continued) => Ok(Json(taken(&continued))),
        Err(DurableError::NoToken) => Err(no_token()),
        Err(error) => Err(error.into()),
    }
}

/// Any JSON: what others send need not be an object.
fn any_json(body: &[u8]) -> Result<Value, Problem> {
    serde_json::from_slice(body).map_err(|error| {
        let detail: String = format!("the body is no JSON: {error}").chars().take(400).collect();
        Problem::new(StatusCode::BAD_REQUEST, "malformed", detail).at("body")
    })
}

async fn read_body(gateway: &Gateway, headers: &HeaderMap, body: Body) -> Result<Vec<u8>, Problem> {
    let doors = gateway.doors();
    let Ok(_room) = doors.bodies.try_acquire() else {
        return Err(Problem::busy("busy", "too many webhooks are coming in at this moment: send it again"));
    };
    let reading = input::bytes(headers, body, doors.settings.hook_bytes_max);
    tokio::time::timeout(doors.settings.hook_max, reading).await.unwrap_or_else(|_| {
        Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "too_slow", "the body took too long to arrive: send it again"))
    })
}

async fn act(gateway: &Gateway, endpoint: &Endpoint, message: &str, body: Value) -> Result<Taken, Problem> {
    // Two endpoints may be sent the same message, and each is to be told.
    let request_id = format!("{}:{message}", endpoint.id);
    match &endpoint.action {
        Action::Deliver { name, correlation_at, payload_at } => {
            let correlation = correlation(&body, correlation_at.as_ref())?;
            let payload = payload(body, payload_at.as_ref())?;
            deliver(gateway, endpoint, name.as_str(), &correlation, payload, &request_id).await
        }
        Action::DeliverNamed { name_at, correlation_at, payload_at } => {
            let (name, correlation) = (text_at(&body, name_at)?, correlation(&body, correlation_at.as_ref())?);
            let payload = payload(body, payload_at.as_ref())?;
            deliver(gateway, endpoint, &name, &correlation, payload, &request_id).await
        }
        Action::Answer { wait_at, payload_at } => {
            let wait: WaitId = text_at(&body, wait_at)?
                .parse()
                .map_err(|_| Problem::invalid(format!("body{}", wait_at.as_str()), "this is not the id of a wait"))?;
            let payload = payload(body, payload_at.as_ref())?;
            let actor = format!("webhook:{}", endpoint.name);
            let continued =
                gateway.runtime().continue_with(&endpoint.scope, &wait, payload, &request_id, &actor).await?;
            Ok(taken(&continued))
        }
    }
}

async fn deliver(
    gateway: &Gateway,
    endpoint: &Endpoint,
    name: &str,
    correlation: &str,
    payload: Value,
    request_id: &str,
) -> Result<Taken, Problem> {
    let delivered = gateway.runtime().deliver(&endpoint.scope, name, correlation, payload, request_id).await;
    let delivered = match delivered {
        Ok(delivered) => delivered,
        Err(error @ DurableError::AnotherEvent { .. }) => {
            return Err(Problem::conflict("another_message", error.to_string()));
        }
        Err(error) => return Err(error.into()),
    };
    if delivered.answered.is_empty() && !delivered.repeated {
        return Err(unanswered(name, &delivered.refused));
    }
    let answered = delivered.answered.into_iter().map(|wait| wait.id).collect();
    Ok(Taken { answered, repeated: delivered.repeated })
}

fn correlation(body: &Value, place: Option<&Pointer>) -> Result<String, Problem> {
    place.map_or(Ok(String::new()), |place| text_at(body, place))
}

fn taken(continued: &Continued) -> Taken {
    Taken { answered: vec![continued.wait().id.clone()], repeated: matches!(continued, Continued::Repeated(_)) }
}

/// Why a message answered nothing.
fn unanswered(name: &str, refused: &[(WaitId, AnswerSchemaError)]) -> Problem {
    match refused.first() {
        Some((wait, why)) => Problem::invalid("body", format!("{wait} waits for something else: {why}")),
        None => {
            let detail = format!("nothing waits for {name:?} now: send it again later");
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "not_awaited", detail).retry_after(NOT_YET_S)
        }
    }
}

fn payload(body: Value, place: Option<&Pointer>) -> Result<Value, Problem> {
    match place {
        None => Ok(body),
        Some(place) => body.pointer(place.as_str()).cloned().ok_or_else(|| nothing_at(place)),
    }
}

/// A text or a number at this place of the body, as text.
fn text_at(body: &Value, place: &Pointer) -> Result<String, Problem> {
    let found = match body.pointer(place.as_str()) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        Some(_) | None => return Err(nothing_at(place)),
    };
    if found.len() > 256 || found.contains('\0') {
        return Err(Problem::invalid(format!("body{}", place.as_str()), "at most 256 characters are read there"));
    }
    Ok(found)
}

fn nothing_at(place: &Pointer) -> Problem {
    Problem::invalid(
        format!("body{}", place.as_str()),
        "the endpoint expects something here: compare it with what is sent",
    )
}

fn token(headers: &HeaderMap) -> Result<WaitToken, Problem> {
    let mut all = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(value), None) = (all.next(), all.next()) else { return Err(no_token()) };
    let (scheme, token) = value.to_str().ok().and_then(|text| text.split_once(' ')).ok_or_else(no_token)?;
    let token = token.trim().parse().ok().filter(|_| scheme.eq_ignore_ascii_case("bearer"));
    token.ok_or_else(no_token)
}

fn no_token() -> Problem {
    let detail = "send the token of a wait that is open as `Authorization: Bearer hook_…`";
    Problem::new(StatusCode::UNAUTHORIZED, "no_token", detail)
}

//! What goes wrong, as the wire tells it: `application/problem+json` (RFC 9457) with a stable code and what to do.
//!
//! It owns the translation of every owner's errors. Invariant: nothing of the machine (paths, statements, addresses)
//! leaves with a problem; it goes to the log, under the trace that the answer's `X-Request-Id` names.

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use longhaul_durable::DurableError;
use longhaul_store::{LeaseError, StoreError};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Why a request is not answered as it wished.
#[derive(Debug, Clone)]
pub struct Problem {
    status: StatusCode,
    code: &'static str,
    detail: String,
    at: Option<String>,
    retry_after_s: Option<u64>,
}

/// A problem as it is sent.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Problem)]
pub struct ProblemBody {
    /// `urn:longhaul:problem:` and the code.
    #[serde(rename = "type")]
    pub kind: String,
    /// The status in words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// A stable name of what is wrong.
    pub code: String,
    /// What is wrong, and what to do.
    pub detail: String,
    /// The part of the input it is about: `query.limit`, `body.title`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
}

impl Problem {
    /// A problem of this status. The code is stable; the detail says what is wrong and what to do.
    #[must_use]
    pub fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self { status, code, detail: detail.into(), at: None, retry_after_s: None }
    }

    /// The part of the input it is about.
    #[must_use]
    pub fn at(mut self, place: impl Into<String>) -> Self {
        self.at = Some(place.into());
        self
    }

    /// When to come again.
    #[must_use]
    pub fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after_s = Some(seconds.max(1));
        self
    }

    /// 422: the input can be read and makes no sense.
    #[must_use]
    pub fn invalid(place: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", detail).at(place)
    }

    /// 404: there is nothing of this id that the caller may see.
    #[must_use]
    pub fn missing(kind: &'static str, id: &str) -> Self {
        let shown: String = id.chars().take(80).collect();
        let detail =
            format!("there is no {kind} {shown:?} that this key may see: look at the id, and at whose key it is");
        Self::new(StatusCode::NOT_FOUND, "not_found", detail)
    }

    /// 409: what is there contradicts what was asked.
    #[must_use]
    pub fn conflict(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, code, detail)
    }

    /// 500: nobody but the operator can do anything about it. The error itself goes to the log only.
    #[must_use]
    pub fn internal(error: &(dyn std::error::Error + 'static)) -> Self {
        tracing::error!(error = %chain(error), "a request failed");
        let detail = "the server failed; its log has the reason under the trace of X-Request-Id";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail)
    }

    /// 503: the same request may succeed later.
    #[must_use]
    pub fn busy(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, code, detail).retry_after(1)
    }

    /// The status.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The stable name.
    #[must_use]
    pub fn code(&self) -> &'static str {
        self.code
    }
}

fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        text.push_str(": ");
        text.push_str(&error.to_string());
        next = error.source();
    }
    text
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = ProblemBody {
            kind: format!("urn:longhaul:problem:{}", self.code),
            title: self.status.canonical_reason().unwrap_or("problem").to_owned(),
            status: self.status.as_u16(),
            code: self.code.to_owned(),
            detail: self.detail,
            at: self.at,
        };
        let mut response = (self.status, Json(body)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(r#"Bearer realm="longhaul""#));
        }
        if let Some(seconds) = self.retry_after_s {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Constraint { .. } => {
                tracing::debug!(%error, "a row was refused");
                Self::conflict("conflict", "what is stored contradicts this request: read it again, then repeat")
            }
            StoreError::EventTooLarge { bytes_max, .. } | StoreError::NoticeTooLarge { bytes_max, .. } => Self::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "too_large",
                format!("at most {bytes_max} bytes may go into an event: keep the content as a record and refer to it"),
            ),
            StoreError::NulInText { .. } => Self::invalid("body", "a text holds the character U+0000: leave it out"),
            StoreError::Locked { .. } | StoreError::Unreachable { .. } | StoreError::Disconnected { .. } => {
                tracing::warn!(error = %chain(&error), "the store is busy");
                Self::busy("store_busy", "the store does not answer at the moment: repeat the request")
            }
            StoreError::LeaseLost { .. } => {
                Self::conflict("taken_over", "another process has taken over meanwhile: read it again, then repeat")
            }
            StoreError::OutcomeUnknown { .. } => Self::busy(
                "outcome_unknown",
                "it is not known whether this took place: read what is there before repeating it",
            ),
            other => Self::internal(&other),
        }
    }
}

impl From<DurableError> for Problem {
    fn from(error: DurableError) -> Self {
        let told = error.to_string();
        match error {
            DurableError::Store(error) => error.into(),
            DurableError::Lease(LeaseError::Store(error)) => error.into(),
            DurableError::Lease(LeaseError::Held { .. }) => {
                Self::conflict("busy", "a process is at work on this thread: wait until it has ended, or cancel it")
            }
            DurableError::NoExecution { execution } => Self::missing("execution", execution.as_str()),
            DurableError::NoWait { wait } => Self::missing("wait", wait.as_str()),
            DurableError::NoEntry { entry } => Self::missing("queue entry", entry.as_str()),
            DurableError::AlreadyAnswered { .. } => Self::conflict("already_answered", told),
            DurableError::AnswerRefused { source, .. } => Self::invalid("body.value", source.to_string()),
            DurableError::EntryStatus { .. } => Self::conflict("entry_status", told),
            DurableError::ThreadQueued { .. } => Self::conflict("thread_queued", told),
            DurableError::QueueFull { .. } => {
                Self::new(StatusCode::TOO_MANY_REQUESTS, "queue_full", told).retry_after(10)
            }
            other => Self::internal(&other),
        }
    }
}

//! How a refusal is told over HTTP: the one translation of its kind into a status.

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use longhaul_network::{Refusal, RefusalKind};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::wire;

/// What is told when something was not done.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Failure)]
pub(crate) struct FailureBody {
    /// Always false.
    success: bool,
    /// What is wrong, and what to do.
    message: String,
    /// The same.
    error_message: String,
    /// A stable name of what is wrong.
    error_code: String,
}

/// Something was not done.
#[derive(Debug)]
pub(crate) struct Failure {
    status: StatusCode,
    body: Value,
    retry_after_ms: Option<u64>,
}

impl Failure {
    /// With this status.
    pub(crate) fn new(status: StatusCode, refusal: &Refusal) -> Self {
        Self { status, body: wire::refused(None, None, refusal), retry_after_ms: refusal.retry_after_ms }
    }

    /// With this member beside the others.
    pub(crate) fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.body[key] = value.into();
        self
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::new(status(refusal.kind), &refusal)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.body)).into_response();
        let headers = response.headers_mut();
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(r#"Bearer realm="longhaul""#));
        }
        if let Some(ms) = self.retry_after_ms {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(ms.div_ceil(1000).max(1)));
        }
        response
    }
}

/// The status of a kind of refusal.
pub(crate) fn status(kind: RefusalKind) -> StatusCode {
    match kind {
        RefusalKind::Invalid => StatusCode::BAD_REQUEST,
        RefusalKind::Unauthenticated => StatusCode::UNAUTHORIZED,
        RefusalKind::Forbidden => StatusCode::FORBIDDEN,
        RefusalKind::Missing => StatusCode::NOT_FOUND,
        RefusalKind::Conflict => StatusCode::CONFLICT,
        RefusalKind::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        RefusalKind::TooMany => StatusCode::TOO_MANY_REQUESTS,
        RefusalKind::TimedOut => StatusCode::GATEWAY_TIMEOUT,
        RefusalKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
    }
}

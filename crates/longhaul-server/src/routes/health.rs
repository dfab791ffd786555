//! What anybody may have: whether the process answers, and the API's description.

use axum::{Json, http::header, response::IntoResponse};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::Gateway;

/// The process answers.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Health {
    /// `ok`.
    status: &'static str,
}

pub(super) fn routes() -> OpenApiRouter<Gateway> {
    OpenApiRouter::new().routes(routes!(health)).routes(routes!(description))
}

/// Whether the process answers.
#[utoipa::path(get, path = "/health", tag = "service", responses((status = 200, body = Health)))]
async fn health() -> Json<Health> {
    Json(Health { status: "ok" })
}

/// This document.
#[utoipa::path(get, path = "/v1/openapi.json", tag = "service", responses((status = 200, body = Object, description = "OpenAPI 3.1")))]
async fn description() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], crate::openapi::document())
}

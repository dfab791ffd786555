//! What anybody may read: that the process answers, the network as clients find their way by it, meters, this API.

use axum::{
    Json,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use longhaul_network::Refusal;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::Failure;
use crate::{front::Front, wire};

/// Agents that are shown to strangers.
const SHOWN_MAX: usize = 1_000;

pub(super) fn routes() -> OpenApiRouter<Front> {
    OpenApiRouter::new()
        .routes(routes!(health))
        .routes(routes!(healthz))
        .routes(routes!(metrics))
        .routes(routes!(description))
        .routes(routes!(welcome))
}

/// The network as clients find their way by it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Health)]
struct Health {
    success: bool,
    /// `healthy`.
    status: String,
    /// Id, name, agents, groups, mods and transports.
    #[schema(value_type = Object)]
    data: Value,
}

/// The network: who is there, how it is reached. The first call of every SDK client.
#[utoipa::path(get, path = "/api/health", tag = "contract", responses((status = 200, body = Health)))]
async fn health(State(front): State<Front>) -> Json<Value> {
    Json(json!({ "success": true, "status": "healthy", "data": seen(&front) }))
}

/// What strangers see of the network. Nothing of it is secret: settings of mods, credentials and tokens are left out.
fn seen(front: &Front) -> Value {
    let network = front.network();
    let view = network.view();
    let settings = &view.settings;
    let present: Vec<_> = network.agents(&[]).into_iter().filter(|agent| agent.present).collect();
    let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for agent in &present {
        groups.entry(&agent.group).or_default().push(agent.agent.as_str());
    }
    let group_config: Vec<Value> = settings
        .groups
        .iter()
        .map(|(name, group)| {
            json!({
                "name": name,
                "description": group.description,
                "agent_count": groups.get(name.as_str()).map_or(0, Vec::len),
                "metadata": public(&group.metadata),
                "has_password": group.credential.is_some(),
            })
        })
        .collect();
    let agents: Map<String, Value> =
        present.iter().take(SHOWN_MAX).map(|agent| (agent.agent.to_string(), wire::agent(agent))).collect();
    let mods: Vec<Value> =
        network.manifests().map(|one| json!({ "name": one.name, "enabled": true, "config": {} })).collect();
    let up_ms = network.store().ambient().clock.now().0 - view.since.0;
    json!({
        "network_id": view.id,
        "network_uuid": view.uuid,
        "network_name": view.name,
        "initialized": true,
        "is_running": true,
        "uptime_seconds": up_ms.max(0) as f64 / 1000.0,
        "agent_count": present.len(),
        "agents": agents,
        "groups": groups,
        "group_config": group_config,
        "default_agent_group": settings.default_group,
        "requires_password": settings.requires_password,
        "mods": mods,
        "dynamic_mods": { "loaded": [], "count": 0, "details": {} },
        "topology_mode": "centralized",
        "transports": front.listed(),
        "manifest_transport": "http",
        "recommended_transport": front.recommended(),
        "max_connections": settings.agents_max,
        "readme": view.profile.get("readme").cloned().unwrap_or_default(),
        "network_profile": public(&view.profile),
    })
}

/// Without what only the operator may know.
fn public(written: &Map<String, Value>) -> Map<String, Value> {
    let secret = |key: &str| ["token", "secret", "password", "key", "credential"].iter().any(|word| key.contains(word));
    written
        .iter()
        .filter(|(key, _)| !secret(&key.to_ascii_lowercase()))
        .map(|(key, value)| {
            let value = match value {
                Value::Object(inner) => Value::Object(public(inner)),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => value.clone(),
            };
            (key.clone(), value)
        })
        .collect()
}

/// The process answers.
#[derive(Debug, Serialize, ToSchema)]
struct Alive {
    /// `ok`.
    status: &'static str,
}

/// Whether the process answers.
#[utoipa::path(get, path = "/healthz", tag = "service", responses((status = 200, body = Alive)))]
async fn healthz() -> Json<Alive> {
    Json(Alive { status: "ok" })
}

/// Meters, in the form that Prometheus reads.
#[utoipa::path(get, path = "/metrics", tag = "service",
    responses((status = 200, body = String, content_type = "application/openmetrics-text")))]
async fn metrics(State(front): State<Front>) -> Response {
    match front.meters().text(front.network()) {
        Ok(text) => {
            let form = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            ([(header::CONTENT_TYPE, form)], text).into_response()
        }
        Err(_) => {
            let refusal = Refusal::invalid("the meters could not be written");
            Failure::new(StatusCode::INTERNAL_SERVER_ERROR, &refusal).into_response()
        }
    }
}

/// This document.
#[utoipa::path(get, path = "/openapi.json", tag = "service",
    responses((status = 200, body = Object, description = "OpenAPI 3.1", content_type = "application/json")))]
async fn description() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], super::document())
}

/// What this is, for a person who opens the address.
#[utoipa::path(get, path = "/", tag = "service", responses((status = 200, body = String, content_type = "text/plain")))]
async fn welcome(State(front): State<Front>) -> String {
    let view = front.network().view();
    format!(
        "{} (network {}) is served by Longhaul: {} agents are present.\n\n/api/health tells programs how to join, \
         /openapi.json what they can ask, /metrics how it goes.\n",
        view.name, view.id, view.present
    )
}

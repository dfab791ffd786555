//! The events this network knows, from its mods' manifests: for people who look them up and for programs.

use axum::{
    Json,
    extract::{Path, State},
};
use longhaul_network::{Manifest, Refusal};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{Failure, answer::FailureBody, input::Params};
use crate::front::Front;

pub(super) fn routes() -> OpenApiRouter<Front> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(mods))
        .routes(routes!(search))
        .routes(routes!(sync))
        .routes(routes!(one))
}

/// An event that a mod answers or emits.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = KnownEvent)]
struct Known {
    /// `thread.channel_message.post`, or a beginning with `*`.
    event_name: String,
    /// Whose it is.
    r#mod: String,
    /// `operation` for what is answered, `notification` for what is emitted.
    event_type: &'static str,
    /// What it does.
    description: String,
    /// JSON Schema of the payload.
    #[schema(value_type = Object)]
    payload: Value,
    /// It changes nothing.
    reads_only: bool,
}

/// The form every answer of this file has.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = KnownAnswer)]
struct KnownAnswer {
    success: bool,
    #[schema(value_type = Object)]
    data: Value,
}

fn told(data: Value) -> Json<Value> {
    Json(json!({ "success": true, "data": data }))
}

fn manifests(front: &Front) -> Vec<Manifest> {
    front.network().manifests().cloned().collect()
}

fn known(front: &Front) -> Vec<Known> {
    let mut all = Vec::new();
    for manifest in manifests(front) {
        all.extend(manifest.answers.iter().map(|event| Known {
            event_name: event.pattern.as_str().to_owned(),
            r#mod: manifest.name.clone(),
            event_type: "operation",
            description: event.description.clone(),
            payload: event.payload.clone(),
            reads_only: event.reads_only,
        }));
        all.extend(manifest.emits.iter().map(|(name, description)| Known {
            event_name: name.clone(),
            r#mod: manifest.name.clone(),
            event_type: "notification",
            description: description.clone(),
            payload: json!({}),
            reads_only: false,
        }));
    }
    all
}

/// Which events.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Which {
    /// Those of one mod.
    r#mod: Option<String>,
    /// `operation` or `notification`.
    r#type: Option<String>,
}

/// All events this network knows.
#[utoipa::path(get, path = "/api/events", tag = "events", params(Which), responses((status = 200, body = KnownAnswer)))]
async fn list(State(front): State<Front>, Params(which): Params<Which>) -> Result<Json<Value>, Failure> {
    let asked = |asked: &Option<String>, is: &str| asked.as_deref().is_none_or(|asked| asked.is_empty() || asked == is);
    let mut events = known(&front);
    events.retain(|event| asked(&which.r#mod, &event.r#mod) && asked(&which.r#type, event.event_type));
    Ok(told(json!({ "total": events.len(), "events": events })))
}

/// The mods of this network.
#[utoipa::path(get, path = "/api/events/mods", tag = "events", responses((status = 200, body = KnownAnswer)))]
async fn mods(State(front): State<Front>) -> Json<Value> {
    let mods: Vec<Value> = manifests(&front)
        .into_iter()
        .map(|one| {
            let events = one.answers.len() + one.emits.len();
            json!({ "name": one.name, "version": one.version, "description": one.description,
                "capabilities": one.capabilities, "event_count": events })
        })
        .collect();
    told(json!({ "total": mods.len(), "mods": mods }))
}

/// What is looked for.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Words {
    /// A part of a name or of a description.
    #[param(min_length = 1)]
    q: String,
}

/// Events whose name or description holds these words.
#[utoipa::path(get, path = "/api/events/search", tag = "events", params(Words), responses(
    (status = 200, body = KnownAnswer), (status = 400, body = FailureBody)))]
async fn search(State(front): State<Front>, Params(Words { q }): Params<Words>) -> Result<Json<Value>, Failure> {
    if q.is_empty() {
        return Err(Refusal::invalid("q is required: a part of a name or of a description").into());
    }
    let wanted = q.to_lowercase();
    let mut events = known(&front);
    events.retain(|event| event.event_name.contains(&wanted) || event.description.to_lowercase().contains(&wanted));
    Ok(told(json!({ "total": events.len(), "events": events, "query": q })))
}

/// Nothing has to be fetched: what is known is what this program's mods say.
#[utoipa::path(get, path = "/api/events/sync", tag = "events", responses((status = 200, body = KnownAnswer)))]
async fn sync(State(front): State<Front>) -> Json<Value> {
    told(json!({ "total": known(&front).len(), "mods": manifests(&front).len() }))
}

/// One event, with an example.
#[utoipa::path(get, path = "/api/events/{event_name}", tag = "events",
    params(("event_name" = String, Path, description = "Its name.")),
    responses((status = 200, body = KnownAnswer), (status = 404, body = FailureBody)))]
async fn one(State(front): State<Front>, Path(name): Path<String>) -> Result<Json<Value>, Failure> {
    let found = known(&front).into_iter().find(|event| event.event_name == name);
    let event = found.ok_or_else(|| {
        let shown: String = name.chars().take(80).collect();
        Refusal::missing("event", &shown)
    })?;
    let example = json!({
        "event_id": "a-fresh-id", "event_name": event.event_name, "source_id": "AGENT_ID",
        "target_agent_id": format!("mod:{}", event.r#mod), "payload": {}, "secret": "SECRET",
    });
    let mut data = serde_json::to_value(event).unwrap_or_default();
    data["examples"] = json!({ "http": { "method": "POST", "path": "/api/send_event", "body": example } });
    Ok(told(data))
}

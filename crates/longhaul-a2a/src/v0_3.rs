//! Version 0.3 of the protocol as another spelling of version 1.0: `kind` instead of the field's name, lower-case words
//! for states and roles, files as a part of their own.
//!
//! Invariant: what comes in is only spelled anew; whether it is right is decided where 1.0 decides it.

use serde_json::{Map, Value, json};

use crate::{
    error::A2aError,
    machine::{has_ended, waits_for_owner},
    wire::{
        to_json,
        v1::{
            AgentCard, SendMessageResponse, StreamResponse, Task, TaskPushNotificationConfig, TaskState,
            send_message_response, stream_response::Payload,
        },
    },
};

/// The parameters of `message/send` as a `SendMessageRequest`.
pub(crate) fn send(params: &Value) -> Result<Value, A2aError> {
    let message = params.get("message").ok_or_else(crate::check::no_message)?;
    let mut request = json!({ "message": message_in(message)? });
    copy(params, &mut request, &["metadata"]);
    // In 0.3 a call waits unless it says that it does not.
    let mut configuration = json!({});
    if let Some(given @ Value::Object(_)) = params.get("configuration") {
        copy(given, &mut configuration, &["acceptedOutputModes", "historyLength"]);
        configuration["returnImmediately"] = (given["blocking"] == Value::Bool(false)).into();
        if let Some(push @ Value::Object(_)) = given.get("pushNotificationConfig") {
            configuration["taskPushNotificationConfig"] = push_in(push);
        }
    }
    request["configuration"] = configuration;
    Ok(request)
}

fn copy(from: &Value, to: &mut Value, fields: &[&str]) {
    for field in fields {
        if let Some(value) = from.get(*field).filter(|value| !value.is_null()) {
            to[*field] = value.clone();
        }
    }
}

fn message_in(message: &Value) -> Result<Value, A2aError> {
    let role = match message["role"].as_str() {
        Some("user") => "ROLE_USER",
        Some("agent") => "ROLE_AGENT",
        _ => return Err(A2aError::invalid("message.role", "message.role: write \"user\"")),
    };
    let parts = message["parts"].as_array().map(Vec::as_slice).unwrap_or_default();
    let parts: Result<Vec<Value>, A2aError> = parts.iter().map(part_in).collect();
    let mut spelled = json!({ "role": role, "parts": parts? });
    let same = ["messageId", "contextId", "taskId", "metadata", "extensions", "referenceTaskIds"];
    copy(message, &mut spelled, &same);
    Ok(spelled)
}

fn part_in(part: &Value) -> Result<Value, A2aError> {
    let mut spelled = json!({});
    copy(part, &mut spelled, &["metadata"]);
    match part["kind"].as_str() {
        Some("text") => spelled["text"] = part["text"].clone(),
        Some("data") => spelled["data"] = part["data"].clone(),
        Some("file") => {
            let file = &part["file"];
            for (old, new) in [("bytes", "raw"), ("uri", "url"), ("mimeType", "mediaType"), ("name", "filename")] {
                if let Some(value) = file.get(old).filter(|value| !value.is_null()) {
                    spelled[new] = value.clone();
                }
            }
        }
        _ => return Err(A2aError::invalid("message.parts", "message.parts: kind is \"text\", \"file\" or \"data\"")),
    }
    Ok(spelled)
}

fn push_in(push: &Value) -> Value {
    let mut spelled = json!({});
    copy(push, &mut spelled, &["id", "url", "token"]);
    if let Some(authentication @ Value::Object(_)) = push.get("authentication") {
        let scheme = authentication["schemes"].get(0).cloned().unwrap_or_else(|| "Bearer".into());
        spelled["authentication"] = json!({ "scheme": scheme });
        copy(authentication, &mut spelled["authentication"], &["credentials"]);
    }
    spelled
}

/// The parameters of `tasks/pushNotificationConfig/set` as a `TaskPushNotificationConfig`.
pub(crate) fn new_push(params: &Value) -> Result<Value, A2aError> {
    let push = params.get("pushNotificationConfig");
    let push = push.ok_or_else(|| A2aError::invalid("pushNotificationConfig", "pushNotificationConfig is missing"))?;
    let mut spelled = push_in(push);
    copy(params, &mut spelled, &["taskId"]);
    Ok(spelled)
}

/// A webhook as 0.3 spells it.
pub(crate) fn push(config: &TaskPushNotificationConfig) -> Value {
    let mut inner = to_json(config);
    if let Value::Object(fields) = &mut inner {
        fields.remove("taskId");
        if let Some(authentication) = fields.get_mut("authentication") {
            *authentication = json!({ "schemes": [authentication["scheme"]] });
        }
    }
    json!({ "taskId": config.task_id, "pushNotificationConfig": inner })
}

/// What `message/send` answers.
pub(crate) fn sent(response: &SendMessageResponse) -> Value {
    match &response.payload {
        Some(send_message_response::Payload::Task(found)) => task(found),
        Some(send_message_response::Payload::Message(message)) => message_out(&to_json(message)),
        None => Value::Null,
    }
}

/// A task as 0.3 spells it.
pub(crate) fn task(task: &Task) -> Value {
    let mut spelled = to_json(task);
    spelled["kind"] = "task".into();
    spelled["status"] = status_out(&spelled["status"]);
    for (list, spell) in [("history", message_out as fn(&Value) -> Value), ("artifacts", artifact_out)] {
        if let Some(Value::Array(items)) = spelled.get(list) {
            spelled[list] = items.iter().map(spell).collect();
        }
    }
    spelled
}

/// An update as 0.3 spells it.
pub(crate) fn update(update: &StreamResponse) -> Value {
    match &update.payload {
        Some(Payload::Task(found)) => task(found),
        Some(Payload::Message(message)) => message_out(&to_json(message)),
        Some(Payload::StatusUpdate(found)) => {
            let state = found.status.as_ref().map_or(TaskState::Unspecified, |status| status.state());
            let mut spelled = to_json(found);
            spelled["kind"] = "status-update".into();
            spelled["status"] = status_out(&spelled["status"]);
            spelled["final"] = (has_ended(state) || waits_for_owner(state)).into();
            spelled
        }
        Some(Payload::ArtifactUpdate(found)) => {
            let mut spelled = to_json(found);
            spelled["kind"] = "artifact-update".into();
            spelled["artifact"] = artifact_out(&spelled["artifact"]);
            spelled
        }
        None => Value::Null,
    }
}

fn status_out(status: &Value) -> Value {
    let state = status["state"].as_str().unwrap_or_default();
    let word = match state.trim_start_matches("TASK_STATE_") {
        "" | "UNSPECIFIED" => "unknown".to_owned(),
        word => word.to_ascii_lowercase().replace('_', "-"),
    };
    let mut spelled = json!({ "state": word });
    copy(status, &mut spelled, &["timestamp"]);
    if let Some(message) = status.get("message") {
        spelled["message"] = message_out(message);
    }
    spelled
}

fn message_out(message: &Value) -> Value {
    let mut spelled = message.clone();
    spelled["kind"] = "message".into();
    spelled["role"] = if message["role"] == "ROLE_AGENT" { "agent" } else { "user" }.into();
    spelled["parts"] = parts_out(message);
    spelled
}

fn artifact_out(artifact: &Value) -> Value {
    let mut spelled = artifact.clone();
    spelled["parts"] = parts_out(artifact);
    spelled
}

fn parts_out(of: &Value) -> Value {
    of["parts"].as_array().map(|parts| parts.iter().map(part_out).collect()).unwrap_or_default()
}

fn part_out(part: &Value) -> Value {
    let mut spelled = json!({});
    copy(part, &mut spelled, &["metadata"]);
    if let Some(text) = part.get("text") {
        (spelled["kind"], spelled["text"]) = ("text".into(), text.clone());
        return spelled;
    }
    if let Some(data) = part.get("data") {
        // 0.3 has objects only.
        let data = if data.is_object() { data.clone() } else { json!({ "value": data }) };
        (spelled["kind"], spelled["data"]) = ("data".into(), data);
        return spelled;
    }
    let mut file = Map::new();
    for (new, old) in [("raw", "bytes"), ("url", "uri"), ("mediaType", "mimeType"), ("filename", "name")] {
        if let Some(value) = part.get(new) {
            file.insert(old.to_owned(), value.clone());
        }
    }
    (spelled["kind"], spelled["file"]) = ("file".into(), Value::Object(file));
    spelled
}

/// A card as 0.3 spells it.
pub(crate) fn card(card: &AgentCard) -> Value {
    let new = to_json(card);
    let rpc = card.supported_interfaces.iter().find(|found| found.protocol_binding == "JSONRPC");
    let url = rpc.map(|found| found.url.clone()).unwrap_or_default();
    let capabilities = card.capabilities.clone().unwrap_or_default();
    let mut old = json!({
        "protocolVersion": "0.3.0",
        "url": url,
        "preferredTransport": "JSONRPC",
        "additionalInterfaces": [{ "url": url, "transport": "JSONRPC" }],
        "capabilities": {
            "streaming": capabilities.streaming.unwrap_or_default(),
            "pushNotifications": capabilities.push_notifications.unwrap_or_default(),
            "stateTransitionHistory": false,
            "extensions": new["capabilities"]["extensions"],
        },
        "supportsAuthenticatedExtendedCard": capabilities.extended_agent_card.unwrap_or_default(),
        "securitySchemes": { "bearer": { "type": "http", "scheme": "Bearer" } },
    });
    if !card.security_requirements.is_empty() {
        old["security"] = json!([{ "bearer": [] }]);
    }
    let same = [
        "name",
        "description",
        "version",
        "documentationUrl",
        "iconUrl",
        "defaultInputModes",
        "defaultOutputModes",
        "skills",
    ];
    copy(&new, &mut old, &same);
    old
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::{from_json, v1::SendMessageRequest};

    fn json() -> impl Strategy<Value = Value> {
        let words = ["kind", "text", "file", "data", "message", "parts", "role", "user", "configuration", "metadata"];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            proptest::sample::select(words.to_vec()).prop_map(Value::from),
            ".{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(5, 48, 6, move |inner| {
            let key = prop_oneof![proptest::sample::select(words.to_vec()).prop_map(str::to_owned), "[a-z]{1,6}"];
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                proptest::collection::btree_map(key, inner, 0..6)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn anything_is_read_or_refused(given in json()) {
            if let Ok(spelled) = send(&given) {
                drop(from_json::<SendMessageRequest>(spelled));
            }
            drop(new_push(&given));
            drop(from_json::<SendMessageRequest>(given));
        }
    }

    #[test]
    fn a_file_and_data_keep_their_meaning_both_ways() {
        let part = json!({ "kind": "file", "file": { "uri": "https://example.com/a", "name": "a" } });
        assert_eq!(part_out(&part_in(&part).unwrap()), part);
        let part = json!({ "kind": "data", "data": { "n": 1 }, "metadata": { "m": true } });
        assert_eq!(part_out(&part_in(&part).unwrap()), part);
        assert!(part_in(&json!({ "text": "x" })).is_err());
    }
}

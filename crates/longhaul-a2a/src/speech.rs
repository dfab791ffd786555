//! Between messages of the protocol and the payloads of events: what an agent is told, and how its answers are read.
//!
//! Invariant: an agent that knows nothing of A2A finds a direct message in the form of the messaging mod; one that does
//! finds everything under `a2a`.

use serde_json::{Map, Value, json};

use crate::{
    error::A2aError,
    wire::{
        from_json, to_json,
        v1::{Artifact, Message, Part, Role, TaskState, part::Content},
    },
};

/// What an agent receives: a direct message, whole under `a2a.message`.
pub(crate) fn told(message: &Message, task: &str, sender: &str, agent: &str, event: &str) -> Map<String, Value> {
    let payload = json!({
        "message_type": "direct_message",
        "target_agent_id": agent,
        "sender_id": sender,
        "content": { "text": text_of(&message.parts) },
        "original_event_id": event,
        "a2a": {
            "task_id": task,
            "context_id": message.context_id,
            "message_id": message.message_id,
            "message": to_json(message),
        },
    });
    object(payload)
}

/// The object of a value; empty for what is none.
pub(crate) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// All text of a message, a part a paragraph.
pub(crate) fn text_of(parts: &[Part]) -> String {
    let texts: Vec<&str> = parts
        .iter()
        .filter_map(|part| match &part.content {
            Some(Content::Text(text)) => Some(text.as_str()),
            Some(Content::Raw(_) | Content::Url(_) | Content::Data(_)) | None => None,
        })
        .collect();
    texts.join("\n\n")
}

/// A part that is text.
pub(crate) fn text_part(text: impl Into<String>) -> Part {
    Part { content: Some(Content::Text(text.into())), ..Part::default() }
}

/// A message of the agent's.
pub(crate) fn message_of(id: &str, parts: Vec<Part>) -> Message {
    Message { message_id: id.to_owned(), role: Role::Agent.into(), parts, ..Message::default() }
}

/// The parts of an event's payload: `parts` or `message` in the protocol's form, else the text of the messaging mod's
/// or a plain payload, else all of it as data.
pub(crate) fn parts_of(payload: &Map<String, Value>, text: Option<&str>) -> Result<Vec<Part>, A2aError> {
    let inner = payload.get("a2a").and_then(Value::as_object);
    for place in [inner, Some(payload)].into_iter().flatten() {
        if let Some(Value::Array(parts)) = place.get("parts") {
            return parts.iter().map(|part| from_json(part.clone())).collect();
        }
        if let Some(message @ Value::Object(_)) = place.get("message") {
            return Ok(from_json::<Message>(message.clone())?.parts);
        }
    }
    let said =
        [payload.get("content").and_then(|content| content.get("text")), payload.get("text"), payload.get("message")];
    if let Some(said) = said.into_iter().flatten().find_map(Value::as_str).or(text) {
        return Ok(vec![text_part(said)]);
    }
    if payload.is_empty() {
        return Ok(Vec::new());
    }
    from_json(json!({ "data": payload })).map(|part| vec![part])
}

/// A state as agents write it: `working`, `input-required`, `input_required`, `TASK_STATE_WORKING`.
pub(crate) fn state_of(word: &str) -> Option<TaskState> {
    let name = word.trim().to_ascii_uppercase().replace('-', "_");
    TaskState::from_str_name(&name).or_else(|| TaskState::from_str_name(&format!("TASK_STATE_{name}")))
}

/// An artifact of an event's payload; one without an id gets `id`.
pub(crate) fn artifact_of(value: &Value, id: &str) -> Result<Artifact, A2aError> {
    let mut artifact: Artifact = from_json(value.clone())?;
    if artifact.artifact_id.is_empty() {
        id.clone_into(&mut artifact.artifact_id);
    }
    if artifact.parts.is_empty() {
        return Err(A2aError::invalid("artifact.parts", "an artifact has at least one part"));
    }
    Ok(artifact)
}

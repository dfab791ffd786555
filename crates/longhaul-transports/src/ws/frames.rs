//! What is said on a WebSocket, as JSON texts: read here, written here.

use longhaul_network::{Event, Refusal, RefusalKind};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::wire::{self, EventIn, EventOut, RegisterIn};

/// Who says what has been received.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Acks {
    /// What was sent counts as received.
    #[default]
    Auto,
    /// What an `ack` names does.
    Manual,
}

/// What a client says.
#[derive(Debug)]
pub(super) enum Said {
    /// Who it is.
    Hello(Hello),
    /// It wants to come in.
    Register(Box<RegisterIn>, Begin),
    /// It sends an event.
    Event(Box<EventIn>),
    /// Everything up to this number is safe with it.
    Ack(i64),
    /// It is there.
    Ping,
    /// A command of the network in the older form.
    System { command: String, id: Option<String>, payload: Map<String, Value> },
}

/// Who it is, where it begins, who acknowledges.
#[derive(Debug, Deserialize)]
pub(super) struct Hello {
    pub(super) agent_id: String,
    pub(super) secret: String,
    #[serde(default)]
    pub(super) resume_after: Option<i64>,
    #[serde(default)]
    pub(super) ack: Acks,
}

/// Where it begins, who acknowledges.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Begin {
    #[serde(default)]
    pub(super) resume_after: Option<i64>,
    #[serde(default)]
    pub(super) ack: Acks,
}

impl Said {
    /// Reads a text message.
    ///
    /// # Errors
    /// [`RefusalKind::Invalid`] with the place.
    pub(super) fn read(text: &str) -> Result<Self, Refusal> {
        let mut whole: Map<String, Value> = crate::http::json(text.as_bytes())?;
        let kind = whole.get("type").and_then(Value::as_str).unwrap_or("event").to_owned();
        // The older form wraps what it says in `data`; an event may also be the message itself.
        let inner = |whole: &mut Map<String, Value>| match whole.remove("data") {
            Some(Value::Object(data)) => data,
            Some(_) | None => std::mem::take(whole),
        };
        Ok(match kind.as_str() {
            "hello" => Self::Hello(from(whole)?),
            "register" => Self::register(whole)?,
            "event" | "message" => Self::Event(Box::new(from(inner(&mut whole))?)),
            "ack" => {
                let seq = whole.get("seq").or(whole.get("cursor")).and_then(Value::as_i64);
                Self::Ack(seq.ok_or_else(|| Refusal::invalid("seq: the number of a message is missing"))?)
            }
            "ping" => Self::Ping,
            "system_request" => {
                let command = whole.get("command").and_then(Value::as_str).unwrap_or_default();
                let command = command.strip_prefix("system.").unwrap_or(command).to_owned();
                let id = whole.get("request_id").or(whole.get("event_id")).and_then(Value::as_str).map(str::to_owned);
                let mut payload = inner(&mut whole);
                for key in ["type", "command", "request_id", "event_id"] {
                    payload.remove(key);
                }
                match command.as_str() {
                    "register_agent" => Self::register(payload)?,
                    "ping_agent" => Self::Ping,
                    _ => Self::System { command, id, payload },
                }
            }
            other => {
                let shown: String = other.chars().take(40).collect();
                return Err(Refusal::invalid(format!(
                    "type {shown:?}: write hello, register, event, ack, ping or system_request"
                )));
            }
        })
    }

    fn register(whole: Map<String, Value>) -> Result<Self, Refusal> {
        let begin: Begin = from(whole.clone())?;
        Ok(Self::Register(Box::new(from(whole)?), begin))
    }
}

fn from<T: serde::de::DeserializeOwned>(whole: Map<String, Value>) -> Result<T, Refusal> {
    serde_path_to_error::deserialize(Value::Object(whole)).map_err(|error| {
        let told: String = format!("{}: {}", error.path(), error.inner()).chars().take(400).collect();
        Refusal::invalid(told.trim_start_matches(".: ").to_owned())
    })
}

/// An event for the client.
pub(super) fn message(event: &Event) -> String {
    // The event is the large part: it is written once and never parsed again.
    let data = serde_json::to_string(&EventOut(event)).unwrap_or_default();
    format!(r#"{{"type":"message","seq":{},"data":{data}}}"#, event.seq)
}

/// The answer to an event of the client.
pub(super) fn reply(told: Value) -> String {
    typed("reply", told)
}

/// The answer to a command in the older form.
pub(super) fn system_response(command: &str, mut told: Value) -> String {
    told["command"] = command.into();
    typed("system_response", told)
}

/// Something the client said was not understood, or not allowed.
pub(super) fn error(refusal: &Refusal) -> String {
    let (message, error_code) = (wire::told(refusal), wire::code(refusal.kind));
    json!({ "type": "error", "success": false, "error_code": error_code, "message": message }).to_string()
}

/// The connection ends; a close frame follows.
pub(super) fn end(kind: RefusalKind) -> &'static str {
    if kind == RefusalKind::Unauthenticated { "secret" } else { wire::code(kind) }
}

fn typed(kind: &str, told: Value) -> String {
    let mut whole = Map::from_iter([("type".to_owned(), Value::from(kind))]);
    if let Value::Object(told) = told {
        whole.extend(told);
    }
    Value::Object(whole).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_both_forms_are_read() {
        let read = |text: &str| format!("{:?}", Said::read(text));
        for (text, told) in [
            (r#"{"type":"hello","agent_id":"a1","secret":"s","resume_after":7,"ack":"manual"}"#, "Hello("),
            (r#"{"type":"register","agent_id":"a1","resume_after":3}"#, "resume_after: Some(3)"),
            (r#"{"type":"event","data":{"event_name":"agent.message"}}"#, "agent.message"),
            (r#"{"event_name":"agent.message","source_id":"a1"}"#, "agent.message"),
            (r#"{"type":"ack","seq":9}"#, "Ack(9)"),
            (r#"{"type":"ping"}"#, "Ping"),
            (r#"{"type":"system_request","command":"register_agent","data":{"agent_id":"a1"}}"#, "Register("),
            (r#"{"type":"system_request","command":"ping_agent"}"#, "Ping"),
            (
                r#"{"type":"system_request","command":"list_agents","limit":3}"#,
                r#"command: "list_agents", id: None, payload: {"limit": Number(3)}"#,
            ),
        ] {
            assert!(read(text).contains(told), "{text}: {}", read(text));
        }
        for wrong in [
            "",
            "[]",
            "{",
            r#"{"type":"hello"}"#,
            r#"{"type":"ack"}"#,
            r#"{"type":"sing"}"#,
            r#"{"type":"hello","agent_id":1,"secret":"s"}"#,
        ] {
            assert_eq!(Said::read(wrong).unwrap_err().kind, RefusalKind::Invalid, "{wrong}");
        }
    }
}

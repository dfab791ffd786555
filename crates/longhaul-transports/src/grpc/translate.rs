//! Between the service's messages and the network's events.
//!
//! Invariant: an event is the same whichever way it came; numbers without a fraction are whole numbers, though a
//! `Struct` knows only one kind of number.

use std::collections::{BTreeMap, HashMap};

use longhaul_network::{AgentView, Draft, Event, Member, NetworkView, Refusal, RefusalKind, Reply, Sender};
use prost::Message as _;
use prost_types::{Any, ListValue, Struct, value::Kind};
use serde_json::{Map, Number, Value};
use tonic::{Code, Status};

use super::proto;
use crate::wire;

const STRUCT_URL: &str = "type.googleapis.com/google.protobuf.Struct";
const ANSWER_URL: &str = "type.googleapis.com/openagents.EventResponseData";

/// Whole numbers up to here are exact in a `Struct`.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

/// What a member wants to send, through the one reader that all forms of the wire have.
pub(super) fn draft(member: &Member, event: proto::Event) -> Result<Draft, Refusal> {
    if event.event_id.is_empty() {
        return Err(Refusal::invalid("event_id is required: an id of your own, by which a repetition is known"));
    }
    let form = wire::EventIn {
        payload: Some(payload(event.payload)?),
        metadata: Some(event.metadata.into_iter().map(|(key, value)| (key, Value::String(value))).collect()),
        requires_response: Some(event.requires_response),
        allowed_agents: (!event.allowed_agents.is_empty()).then_some(event.allowed_agents),
        event_id: Some(event.event_id),
        event_name: Some(event.event_name),
        source_id: Some(member.agent().to_string()),
        target_agent_id: Some(event.target_agent_id),
        visibility: Some(event.visibility),
        relevant_mod: Some(event.relevant_mod),
        response_to: Some(event.response_to),
        thread_name: Some(event.thread_name),
        text_representation: Some(event.text_representation),
        ..wire::EventIn::default()
    };
    form.read(String::new).map(|incoming| incoming.draft)
}

/// An object: from a `Struct`, or JSON in UTF-8.
pub(super) fn payload(any: Option<Any>) -> Result<Map<String, Value>, Refusal> {
    let Some(any) = any.filter(|any| !any.value.is_empty()) else { return Ok(Map::new()) };
    if any.type_url.ends_with("/google.protobuf.Struct") {
        let read = Struct::decode(any.value.as_slice());
        return read.map(object).map_err(|_| Refusal::invalid("the payload is no google.protobuf.Struct, or too deep"));
    }
    if any.type_url == ANSWER_URL {
        return serde_json::from_slice(&any.value).map_err(|_| Refusal::invalid("the payload is no JSON object"));
    }
    Err(Refusal::invalid("pack the payload as a google.protobuf.Struct"))
}

fn object(fields: Struct) -> Map<String, Value> {
    fields.fields.into_iter().map(|(key, value)| (key, json(value))).collect()
}

fn json(value: prost_types::Value) -> Value {
    match value.kind {
        None | Some(Kind::NullValue(_)) => Value::Null,
        Some(Kind::BoolValue(value)) => Value::Bool(value),
        Some(Kind::StringValue(text)) => Value::String(text),
        Some(Kind::NumberValue(number)) => self::number(number),
        Some(Kind::ListValue(list)) => Value::Array(list.values.into_iter().map(json).collect()),
        Some(Kind::StructValue(fields)) => Value::Object(object(fields)),
    }
}

fn number(number: f64) -> Value {
    if number.fract() == 0.0 && number.abs() <= WHOLE_MAX {
        // Whole, and within what both hold.
        return Value::from(number as i64);
    }
    Number::from_f64(number).map_or(Value::Null, Value::Number)
}

/// A `Struct` in its wrapping.
pub(super) fn packed(fields: &Map<String, Value>) -> Any {
    let fields: BTreeMap<String, prost_types::Value> =
        fields.iter().map(|(key, value)| (key.clone(), protobuf(value))).collect();
    Any { type_url: STRUCT_URL.to_owned(), value: Struct { fields }.encode_to_vec() }
}

fn protobuf(value: &Value) -> prost_types::Value {
    let kind = match value {
        Value::Null => Kind::NullValue(0),
        Value::Bool(value) => Kind::BoolValue(*value),
        Value::Number(number) => Kind::NumberValue(number.as_f64().unwrap_or_default()),
        Value::String(text) => Kind::StringValue(text.clone()),
        Value::Array(items) => Kind::ListValue(ListValue { values: items.iter().map(protobuf).collect() }),
        Value::Object(fields) => Kind::StructValue(Struct {
            fields: fields.iter().map(|(key, value)| (key.clone(), protobuf(value))).collect(),
        }),
    };
    prost_types::Value { kind: Some(kind) }
}

/// An event as it is pushed.
pub(super) fn event(event: &Event) -> proto::Event {
    proto::Event {
        event_id: event.id.clone(),
        event_name: event.name.as_str().to_owned(),
        source_id: wire::source(&event.from),
        target_agent_id: wire::destination(&event.to),
        payload: Some(packed(&event.payload)),
        timestamp: seconds(event.at),
        metadata: texts(&event.metadata),
        visibility: wire::visibility_word(event.visibility).to_owned(),
        relevant_mod: event.relevant_mod.clone().unwrap_or_default(),
        secret: String::new(),
        requires_response: event.requires_response,
        response_to: event.response_to.clone().unwrap_or_default(),
        thread_name: event.thread_name.clone().unwrap_or_default(),
        text_representation: event.text.clone().unwrap_or_default(),
        allowed_agents: event.allowed_agents.iter().flatten().map(ToString::to_string).collect(),
        source_type: if matches!(event.from, Sender::Agent(_)) { "agent" } else { "mod" }.to_owned(),
        source_agent_group: event.from_group.clone().unwrap_or_default(),
        seq: event.seq,
    }
}

/// The answer to an event.
pub(super) fn answer(name: String, answered: Result<Reply, Refusal>) -> proto::EventResponse {
    match answered {
        Ok(reply) => proto::EventResponse {
            success: reply.success,
            message: reply.message,
            data: reply.data.as_ref().map(data),
            event_name: name,
            repeated_event: reply.repeated,
            refusal: String::new(),
            retry_after_ms: 0,
        },
        Err(refusal) => proto::EventResponse {
            success: false,
            data: None,
            event_name: name,
            repeated_event: false,
            refusal: wire::code(refusal.kind).to_owned(),
            retry_after_ms: refusal.retry_after_ms.unwrap_or_default(),
            message: wire::told(&refusal),
        },
    }
}

/// Data of an answer, as the SDK reads it.
pub(super) fn data(value: &Value) -> Any {
    Any { type_url: ANSWER_URL.to_owned(), value: value.to_string().into_bytes() }
}

/// The answer to an event that came in a stream.
pub(super) fn stream_reply(id: String, name: String, answered: Result<Reply, Refusal>) -> proto::Event {
    let mut payload = Map::new();
    payload.insert("event_name".into(), name.into());
    match answered {
        Ok(reply) => {
            payload.insert("success".into(), reply.success.into());
            payload.insert("message".into(), reply.message.into());
            payload.insert("data".into(), reply.data.unwrap_or(Value::Null));
            payload.insert("repeated".into(), reply.repeated.into());
        }
        Err(refusal) => {
            payload.insert("success".into(), false.into());
            payload.insert("refusal".into(), wire::code(refusal.kind).into());
            if let Some(ms) = refusal.retry_after_ms {
                payload.insert("retry_after_ms".into(), ms.into());
            }
            payload.insert("message".into(), wire::told(&refusal).into());
        }
    }
    proto::Event {
        event_name: "system.stream_reply".to_owned(),
        source_id: Sender::Network.to_string(),
        source_type: "mod".to_owned(),
        response_to: id,
        payload: Some(packed(&payload)),
        ..proto::Event::default()
    }
}

/// An agent as others see it; what it says about itself only where that may be shown.
pub(super) fn agent(agent: AgentView, with_metadata: bool) -> proto::AgentInfo {
    proto::AgentInfo {
        agent_id: agent.agent.to_string(),
        metadata: if with_metadata { texts(&agent.metadata) } else { HashMap::new() },
        capabilities: agent.capabilities.into_iter().collect(),
        last_seen: seconds(agent.last_seen),
        transport_type: agent.via.as_str().to_owned(),
        address: String::new(),
        present: agent.present,
        group: agent.group,
    }
}

/// The network as anybody may know it.
pub(super) fn network(
    view: &NetworkView,
    now: longhaul_core::TimeMs,
    agents: Vec<AgentView>,
) -> proto::NetworkInfoResponse {
    proto::NetworkInfoResponse {
        network_id: view.id.clone(),
        network_name: view.name.clone(),
        is_running: true,
        uptime_seconds: (seconds(now) - seconds(view.since)).max(0),
        agent_count: i32::try_from(view.agents).unwrap_or(i32::MAX),
        agents: agents.into_iter().map(|one| agent(one, false)).collect(),
        topology_mode: "centralized".to_owned(),
        transport_type: "grpc".to_owned(),
        host: String::new(),
        port: 0,
    }
}

/// A refusal where the contract has no field for one.
pub(super) fn status(refusal: &Refusal) -> Status {
    let code = match refusal.kind {
        RefusalKind::Invalid => Code::InvalidArgument,
        RefusalKind::Unauthenticated => Code::Unauthenticated,
        RefusalKind::Forbidden => Code::PermissionDenied,
        RefusalKind::Missing => Code::NotFound,
        RefusalKind::Conflict => Code::Aborted,
        RefusalKind::TooLarge | RefusalKind::TooMany => Code::ResourceExhausted,
        RefusalKind::TimedOut => Code::DeadlineExceeded,
        RefusalKind::Unavailable => Code::Unavailable,
    };
    Status::new(code, wire::told(refusal))
}

fn texts(fields: &Map<String, Value>) -> HashMap<String, String> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    fields.iter().map(|(key, value)| (key.clone(), text(value))).collect()
}

pub(super) fn seconds(at: longhaul_core::TimeMs) -> i64 {
    at.0.div_euclid(1_000)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_payload_comes_back_as_it_went() {
        let Value::Object(fields) = json!({"text": "数据库", "limit": 50, "ratio": 0.5, "no": null, "on": true,
            "list": [1, "two", {"three": [3]}], "large": 9_007_199_254_740_992_i64, "below": -3})
        else {
            unreachable!()
        };
        assert_eq!(payload(Some(packed(&fields))).unwrap(), fields);
    }

    #[test]
    fn what_is_no_struct_is_refused_with_the_way_out() {
        let other = Any { type_url: "type.googleapis.com/google.protobuf.Duration".into(), value: vec![8, 1] };
        assert!(payload(Some(other)).unwrap_err().message.contains("google.protobuf.Struct"));
        let broken = Any { type_url: STRUCT_URL.into(), value: vec![0xff, 0xff] };
        assert_eq!(payload(Some(broken)).unwrap_err().kind, RefusalKind::Invalid);
        assert_eq!(payload(None).unwrap(), Map::new());
    }
}

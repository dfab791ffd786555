//! The wire, read and written.

use longhaul_core::TimeMs;
use serde_json::json;

use super::*;

fn read(value: Value) -> Result<Incoming, Refusal> {
    serde_json::from_value::<EventIn>(value).unwrap().read(|| "fresh".to_owned())
}

#[test]
fn what_the_sdk_sends_is_read() {
    let incoming = read(json!({
        "event_id": "e1", "event_name": "thread.channel_message.post", "source_id": "agent:alice",
        "target_agent_id": "channel:general", "payload": {"content": {"text": "hi"}}, "metadata": {},
        "visibility": "network", "secret": "s", "timestamp": 1, "new_in_some_release": [1],
    }))
    .unwrap();
    assert_eq!((incoming.claimed.as_str(), incoming.secret.as_deref()), ("alice", Some("s")));
    assert_eq!((incoming.draft.id.as_str(), &incoming.draft.to), ("e1", &Address::Channel("general".into())));
    assert_eq!(incoming.draft.payload["content"]["text"], "hi");
    let empty = json!({"event_name": "agent.message", "source_id": "alice", "target_agent_id": "", "payload": null});
    let incoming = read(empty).unwrap();
    assert_eq!((incoming.draft.id.as_str(), incoming.draft.to, incoming.secret), ("fresh", Address::System, None));
}

#[test]
fn what_makes_no_sense_is_refused_with_its_reason() {
    for (value, kind) in [
        (json!({}), RefusalKind::Invalid),
        (json!({"event_name": "agent.message"}), RefusalKind::Invalid),
        (json!({"event_name": "Message", "source_id": "a1"}), RefusalKind::Invalid),
        (json!({"event_name": "agent.message", "source_id": "a b"}), RefusalKind::Forbidden),
        (json!({"event_name": "agent.message", "source_id": "a1", "target_agent_id": "a b"}), RefusalKind::Missing),
        (json!({"event_name": "agent.message", "source_id": "a1", "event_id": "e".repeat(201)}), RefusalKind::Invalid),
        (json!({"event_name": "agent.message", "source_id": "a1", "visibility": "all"}), RefusalKind::Invalid),
        (json!({"event_name": "agent.message", "source_id": "mod:wiki"}), RefusalKind::Forbidden),
        (json!({"event_name": "agent.message", "source_id": "system:system"}), RefusalKind::Forbidden),
    ] {
        assert_eq!(read(value.clone()).unwrap_err().kind, kind, "{value}");
    }
}

#[test]
fn a_delivered_event_has_the_form_of_the_contract_and_no_secret() {
    let event = Event {
        seq: 7,
        id: "n1".into(),
        origin_id: Some("e1".into()),
        name: "thread.channel_message.notification".parse().unwrap(),
        from: Sender::Agent("alice".parse().unwrap()),
        from_group: Some("guest".into()),
        to: Address::Agent("bob".parse().unwrap()),
        at: TimeMs(1_795_194_985_123),
        payload: json!({"channel": "general"}).as_object().unwrap().clone(),
        metadata: Map::new(),
        visibility: Visibility::Network,
        allowed_agents: None,
        relevant_mod: None,
        requires_response: false,
        response_to: None,
        thread_name: None,
        text: None,
    };
    assert_eq!(
        super::event(&event),
        json!({
            "event_name": "thread.channel_message.notification", "source_id": "alice", "event_id": "n1",
            "timestamp": 1_795_194_985, "source_type": "agent", "destination_id": "bob", "relevant_mod": null,
            "requires_response": false, "response_to": null, "thread_name": null, "payload": {"channel": "general"},
            "metadata": {}, "text_representation": null, "visibility": "network", "allowed_agents": null,
            "secret": null, "source_agent_group": "guest",
        })
    );
}

#[test]
fn a_registration_takes_its_capabilities_from_where_they_stand() {
    let read = |value: Value| serde_json::from_value::<RegisterIn>(value).unwrap().read(Via::Http);
    let said = json!({"agent_id": "alice", "metadata": {"capabilities": ["python", 3]}, "password_hash": ""});
    let registration = read(said).unwrap();
    assert_eq!((registration.capabilities, registration.credential.as_str()), (vec!["python".to_owned()], ""));
    assert_eq!(read(json!({"metadata": {}})).unwrap_err().message, "agent_id is required");
    assert_eq!(read(json!({"agent_id": "all"})).unwrap_err().kind, RefusalKind::Invalid);
}

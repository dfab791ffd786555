//! The contract's JSON form of an event, which several transports share.

use serde_json::{Value, json};

use crate::{Event, Sender};

impl Event {
    /// The event as the wire contract delivers it: a full event object, with `secret` null.
    #[must_use]
    pub fn to_contract(&self) -> Value {
        let source_type = match &self.from {
            Sender::Agent(_) => "agent",
            Sender::Mod(_) | Sender::Network => "mod",
        };
        // A bare name is what clients compare with their own.
        let destination = match &self.to {
            crate::Address::Agent(agent) => agent.to_string(),
            other => other.to_string(),
        };
        json!({
            "event_name": self.name.as_str(),
            "source_id": self.from.to_string(),
            "event_id": self.id,
            "timestamp": self.at.0.div_euclid(1000),
            "source_type": source_type,
            "destination_id": destination,
            "relevant_mod": self.relevant_mod,
            "requires_response": self.requires_response,
            "response_to": self.response_to,
            "thread_name": self.thread_name,
            "payload": self.payload,
            "metadata": self.metadata,
            "text_representation": self.text,
            "visibility": self.visibility.as_str(),
            "allowed_agents": self.allowed_agents.as_ref().map(|some| some.iter().map(ToString::to_string).collect::<Vec<_>>()),
            "secret": null,
            "source_agent_group": self.from_group,
        })
    }
}

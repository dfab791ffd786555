//! What may be seen of messages, and how they are shown.
//!
//! Invariant: a message is found by its id only for somebody it was said to, or who said it.

use longhaul_network::{Address, AgentId, Refusal, Said, Sender, Stage};
use serde_json::{Map, Value, json};

use super::{Messaging, POSTED, REPLIED, TOLD};
use crate::place::Place;

/// Where a message was said.
pub(super) enum Where {
    /// In this channel.
    Channel(String),
    /// Between these two; the second is the other one, as the asker sees it.
    Between(AgentId),
}

impl Messaging {
    /// Whether somebody may read in the channel: its members, and everybody where it is not private.
    pub(super) fn may_read(&self, stage: &Stage<'_, '_>, channel: &str, asker: &AgentId) -> Result<bool, Refusal> {
        match stage.is_member(channel, asker) {
            None => Err(Refusal::missing("channel", channel)),
            Some(true) => Ok(true),
            Some(false) if self.is_listed(channel, asker) => Ok(true),
            Some(false) => Ok(!self.is_private(stage, channel)?),
        }
    }

    /// As [`Self::may_read`], as a refusal.
    pub(super) fn check_may_read(&self, stage: &Stage<'_, '_>, channel: &str, asker: &AgentId) -> Result<(), Refusal> {
        if self.may_read(stage, channel, asker)? {
            return Ok(());
        }
        Err(Refusal::forbidden(format!("channel {channel:?} is private: ask one of its members to add you")))
    }

    /// The configuration names the agent as a member of the private channel.
    pub(super) fn is_listed(&self, channel: &str, agent: &AgentId) -> bool {
        self.settings.private.get(channel).is_some_and(|members| members.contains(agent))
    }

    /// Only members see it.
    pub(super) fn is_private(&self, stage: &Stage<'_, '_>, channel: &str) -> Result<bool, Refusal> {
        if self.settings.private.contains_key(channel) {
            return Ok(true);
        }
        let Place { tenant, network } = Place::of(stage);
        let private = stage.rows().query_optional(
            "SELECT private FROM messaging_channels WHERE tenant_id = ?1 AND network_id = ?2 AND channel = ?3",
            &longhaul_store::values![&tenant, &network, channel],
            |row| row.get::<bool>(0),
        )?;
        Ok(private.unwrap_or(false))
    }

    /// The message with this id (the sender's own, or the one it was delivered with), if the asker may see it.
    pub(super) fn message(&self, stage: &Stage<'_, '_>, id: &str, asker: &AgentId) -> Result<(Said, Where), Refusal> {
        let none = || Refusal::missing("message", id);
        let said = stage.history().by_id(id)?.filter(is_message).ok_or_else(none)?;
        let place = match &said.to {
            Address::Channel(channel) if self.may_read(stage, channel, asker)? => Where::Channel(channel.clone()),
            Address::Agent(to) if said.from == Sender::Agent(asker.clone()) => Where::Between(to.clone()),
            Address::Agent(to) if to == asker => match &said.from {
                Sender::Agent(from) => Where::Between(from.clone()),
                Sender::Mod(_) | Sender::Network => return Err(none()),
            },
            // The same words as for a message that does not exist.
            _ => return Err(none()),
        };
        Ok((said, place))
    }
}

/// Whether a row of the log is something that was said.
fn is_message(said: &Said) -> bool {
    [POSTED, REPLIED, TOLD].contains(&said.name.as_str())
}

/// The id a message is known by: that of its sender's draft.
pub(super) fn message_id(said: &Said) -> &str {
    said.origin_id.as_deref().unwrap_or(&said.id)
}

/// The text of a message.
pub(super) fn text_of(payload: &Map<String, Value>) -> &str {
    match payload.get("content") {
        Some(Value::String(text)) => text,
        Some(content) => content.get("text").and_then(Value::as_str).unwrap_or_default(),
        None => "",
    }
}

/// What belongs to a message beside what was said.
#[derive(Debug, Default, Clone)]
pub(super) struct About {
    /// How often each reaction was given.
    pub(super) reactions: Map<String, Value>,
    /// The thread it begins or belongs to.
    pub(super) thread: Value,
}

/// A message of a channel, as lists show it.
pub(super) fn line(said: &Said, channel: &str, about: About) -> Value {
    let payload = &said.payload;
    let field = |name: &str| payload.get(name).cloned().unwrap_or(Value::Null);
    let content = match payload.get("content") {
        Some(Value::Object(content)) => {
            let mut content = content.clone();
            content.entry("text").or_insert_with(|| json!(""));
            Value::Object(content)
        }
        _ => json!({"text": text_of(payload)}),
    };
    let mut line = json!({
        "message_id": message_id(said),
        "event_id": said.id,
        "sender_id": said.from.to_string(),
        "timestamp": said.at.0 / 1000,
        "content": content,
        "channel": channel,
        "message_type": payload.get("message_type").and_then(Value::as_str).unwrap_or("channel_message"),
        "reply_to_id": field("reply_to_id"),
        "thread_level": payload.get("thread_level").and_then(Value::as_i64).unwrap_or(1),
        "quoted_message_id": field("quoted_message_id"),
        "quoted_text": field("quoted_text"),
        "thread_info": about.thread,
        "reactions": about.reactions,
    });
    for name in ["mentioned_agent_id", "mentions", "attachment_file_id", "attachment_filename", "attachment_size"] {
        if let (Some(value), Some(line)) = (payload.get(name), line.as_object_mut()) {
            line.insert(name.to_owned(), value.clone());
        }
    }
    line
}

/// A direct message as the whole event that its sender sent.
pub(super) fn whole(said: &Said, about: About) -> Value {
    let name = if said.name == REPLIED { "thread.reply.post" } else { "thread.direct_message.send" };
    let destination = match &said.to {
        Address::Agent(agent) => agent.to_string(),
        other => other.to_string(),
    };
    json!({
        "event_name": name,
        "source_id": said.from.to_string(),
        "event_id": message_id(said),
        "timestamp": said.at.0 / 1000,
        "source_type": "agent",
        "destination_id": destination,
        "relevant_mod": Value::Null,
        "requires_response": false,
        "response_to": Value::Null,
        "thread_name": Value::Null,
        "payload": said.payload,
        "metadata": {},
        "text_representation": Value::Null,
        "visibility": "direct",
        "allowed_agents": Value::Null,
        "secret": Value::Null,
        "thread_info": about.thread,
        "reactions": about.reactions,
    })
}

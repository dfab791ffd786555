//! What one tells another, and the conversations of two.

use longhaul_network::{Address, AgentId, Event, Refusal, Reply, Stage};
use serde_json::{Value, json};

use super::{
    Messaging, TOLD,
    post::done,
    strands::{self, Strand},
    view::text_of,
};
use crate::{
    place::asker,
    shape::{Fields, REFERENCE_BYTES_MAX, wrong},
};

/// Conversations that one answer lists.
const CONVERSATIONS_MAX: i64 = 500;

impl Messaging {
    /// `thread.direct_message.send`.
    pub(super) fn tell(&self, stage: &mut Stage<'_, '_>, event: &Event) -> Result<Reply, Refusal> {
        let (fields, sender) = (Fields::of(event), asker(event)?);
        let target = target(&fields, event)?.ok_or_else(|| wrong("target_agent_id", "is missing: name the agent"))?;
        if target == *sender {
            return Err(wrong("target_agent_id", "is the sender: name another agent"));
        }
        if fields.value("reply_to_id").is_some() {
            return self.reply(stage, event);
        }
        let mut payload = self.said(stage, event, &fields, sender)?;
        if stage.agent(&target).is_none() {
            return Err(Refusal::missing("agent", target.as_str()));
        }
        let text = text_of(&payload).to_owned();
        payload.entry("message_type").or_insert_with(|| json!("direct_message"));
        payload.insert("target_agent_id".to_owned(), json!(target.as_str()));
        payload.insert("original_event_id".to_owned(), json!(event.id));
        payload.insert("message_id".to_owned(), json!(event.id));
        let id = stage.publish(TOLD, Address::Agent(target.clone()), payload)?;
        Strand::between(sender, &target).append(stage, &id, sender, &text)?;
        Ok(done(event))
    }

    /// `thread.conversations.list`: the asker's own.
    pub(super) fn conversations(&self, stage: &Stage<'_, '_>, event: &Event) -> Result<Reply, Refusal> {
        let (fields, asker) = (Fields::of(event), asker(event)?);
        let limit = fields.number("limit", 200, 1..=CONVERSATIONS_MAX)?;
        let found = strands::conversations(stage, asker, usize::try_from(limit).unwrap_or_default())?;
        let shown: Vec<Value> = found
            .iter()
            .map(|each| {
                json!({
                    "agents": [each.low, each.high],
                    "last_message": {
                        "content": each.last_text, "sender": each.last_sender, "timestamp": each.last_at / 1000,
                    },
                    "message_count": each.count,
                })
            })
            .collect();
        let data = json!({"conversations": shown, "request_id": fields.request_id()});
        Ok(Reply::done("conversations were listed", Some(data)))
    }
}

/// Whom a direct message is for: what the payload says, else where the event is addressed to.
pub(super) fn target(fields: &Fields<'_>, event: &Event) -> Result<Option<AgentId>, Refusal> {
    let named = fields.optional_text("target_agent_id", REFERENCE_BYTES_MAX)?.filter(|name| !name.is_empty());
    let named: Option<AgentId> = named.map(str::parse).transpose()?;
    match (named, &event.to) {
        (Some(named), Address::Agent(to)) if *to != named => {
            Err(wrong("target_agent_id", &format!("is {named}, and the event is addressed to {to}: name one of them")))
        }
        (Some(named), _) => Ok(Some(named)),
        (None, Address::Agent(to)) => Ok(Some(to.clone())),
        (None, _) => Ok(None),
    }
}

//! Saying something in a channel, and answering to what was said.
//!
//! Invariant: a post is one row, of the log; a reply is that and its place in the thread.

use longhaul_network::{Address, AgentId, Event, Refusal, Reply, Said, Stage};
use serde_json::{Map, Value, json};

use super::{
    Messaging, POSTED, REPLIED,
    strands::Strand,
    view::{Where, message_id, text_of},
};
use crate::{
    place::asker,
    shape::{Fields, REFERENCE_BYTES_MAX, wrong},
};

/// Agents that one text may mention.
const MENTIONS_MAX: usize = 20;
/// Characters of a message that a quotation shows.
const QUOTE_CHARS_MAX: usize = 500;
/// What a payload may state about itself and only we know.
const OURS: [&str; 9] = [
    "secret",
    "sender_id",
    "message_id",
    "original_event_id",
    "original_message_id",
    "original_sender",
    "reply_event_id",
    "thread_id",
    "mentions",
];

impl Messaging {
    /// `thread.channel_message.post`.
    pub(super) fn post(&self, stage: &mut Stage<'_, '_>, event: &Event) -> Result<Reply, Refusal> {
        let fields = Fields::of(event);
        if fields.value("reply_to_id").is_some() {
            return self.reply(stage, event);
        }
        let sender = asker(event)?;
        let channel = fields.channel()?.ok_or_else(|| wrong("channel", "is missing: name the channel"))?;
        let mut payload = self.said(stage, event, &fields, sender)?;
        self.enter(stage, &channel, sender)?;
        payload.entry("message_type").or_insert_with(|| json!("channel_message"));
        payload.insert("channel".to_owned(), json!(channel));
        payload.insert("original_event_id".to_owned(), json!(event.id));
        payload.insert("message_id".to_owned(), json!(event.id));
        stage.publish(POSTED, Address::Channel(channel.clone()), payload)?;
        self.count_now_and_then(stage, &channel)?;
        Ok(done(event))
    }

    /// `thread.reply.post`, in a channel or between two.
    pub(super) fn reply(&self, stage: &mut Stage<'_, '_>, event: &Event) -> Result<Reply, Refusal> {
        let (fields, sender) = (Fields::of(event), asker(event)?);
        let target = fields.text("reply_to_id", REFERENCE_BYTES_MAX)?;
        let (target, place) = self.message(stage, target, sender)?;
        let mut payload = self.said(stage, event, &fields, sender)?;
        let (level, root) = self.place_in_thread(&target);
        payload.insert("message_type".to_owned(), json!("reply_message"));
        payload.insert("reply_to_id".to_owned(), json!(message_id(&target)));
        payload.insert("original_message_id".to_owned(), json!(message_id(&target)));
        payload.insert("original_sender".to_owned(), json!(target.from.to_string()));
        payload.insert("reply_event_id".to_owned(), json!(event.id));
        payload.insert("message_id".to_owned(), json!(event.id));
        payload.insert("thread_level".to_owned(), json!(level));
        payload.insert("thread_id".to_owned(), json!(root));
        let text: String = text_of(&payload).to_owned();
        match place {
            Where::Channel(channel) => {
                if fields.channel()?.is_some_and(|named| named != channel) {
                    let why = format!("names another channel than {channel:?}, where the message was said");
                    return Err(wrong("channel", &why));
                }
                self.enter(stage, &channel, sender)?;
                payload.insert("channel".to_owned(), json!(channel));
                let id = stage.publish(REPLIED, Address::Channel(channel.clone()), payload)?;
                Strand::thread(&root, Some(&channel)).append(stage, &id, sender, &text)?;
                self.count_now_and_then(stage, &channel)?;
            }
            Where::Between(other) => {
                payload.insert("target_agent_id".to_owned(), json!(other.as_str()));
                let id = stage.publish(REPLIED, Address::Agent(other.clone()), payload)?;
                Strand::thread(&root, None).append(stage, &id, sender, &text)?;
                Strand::between(sender, &other).append(stage, &id, sender, &text)?;
            }
        }
        Ok(done(event))
    }

    /// The level of an answer to this message, and the event that began the thread.
    fn place_in_thread(&self, target: &Said) -> (i64, String) {
        let root = target.payload.get("thread_id").and_then(Value::as_str);
        let level = target.payload.get("thread_level").and_then(Value::as_i64).filter(|_| root.is_some());
        let level = level.unwrap_or(0).saturating_add(1).clamp(1, self.settings.thread_depth_max);
        (level, root.unwrap_or(&target.id).to_owned())
    }

    /// What is said, as its receivers get it: who says it is what the network knows, a quotation is what was said.
    pub(super) fn said(
        &self,
        stage: &mut Stage<'_, '_>,
        event: &Event,
        fields: &Fields<'_>,
        sender: &AgentId,
    ) -> Result<Map<String, Value>, Refusal> {
        let text = fields.said(self.settings.message_bytes_max)?;
        let attached = fields.optional_text("attachment_file_id", REFERENCE_BYTES_MAX)?;
        let structured = fields.object("content").is_ok_and(|content| content.is_some_and(|some| some.len() > 1));
        if text.trim().is_empty() && attached.is_none() && !structured && fields.value("attachments").is_none() {
            return Err(wrong("content", "says nothing: give content.text, or attach a file"));
        }
        let mut payload = fields.all().clone();
        OURS.iter().for_each(|name| drop(payload.remove(*name)));
        if !matches!(payload.get("content"), Some(Value::Object(_))) {
            payload.insert("content".to_owned(), json!({"text": text}));
        }
        for name in ["source_id", "relevant_agent_id"] {
            if let Some(stated) = payload.get_mut(name) {
                *stated = json!(sender.as_str());
            }
        }
        payload.insert("sender_id".to_owned(), json!(sender.as_str()));
        let mentions = mentions(stage, text);
        if !mentions.is_empty() {
            payload.insert("mentions".to_owned(), json!(mentions));
        }
        if let Some(quoted) =
            fields.optional_text("quoted_message_id", REFERENCE_BYTES_MAX)?.filter(|id| !id.is_empty())
        {
            let (quoted, _) = self.message(stage, quoted, sender)?;
            let text: String = text_of(&quoted.payload).chars().take(QUOTE_CHARS_MAX).collect();
            payload.insert("quoted_message_id".to_owned(), json!(message_id(&quoted)));
            payload.insert("quoted_text".to_owned(), json!(format!("{}: {text}", quoted.from)));
        }
        if let Some(stream) = fields.optional_text("stream_id", REFERENCE_BYTES_MAX)? {
            Self::end_stream(stage, event, sender, stream)?;
        }
        Ok(payload)
    }

    /// Makes sure that somebody is in the channel who says something there: an open one takes in whoever does, one that
    /// does not exist is made with everybody.
    pub(super) fn enter(&self, stage: &mut Stage<'_, '_>, channel: &str, sender: &AgentId) -> Result<(), Refusal> {
        if let Some(listed) = self.settings.private.get(channel) {
            return self.enter_private(stage, channel, listed, sender);
        }
        match stage.is_member(channel, sender) {
            Some(true) => Ok(()),
            Some(false) => {
                self.check_may_read(stage, channel, sender)?;
                stage.open_channel(channel, "", std::slice::from_ref(sender))
            }
            None if self.settings.makes_channels => {
                let everybody = everybody(stage);
                stage.open_channel(channel, "", &everybody)
            }
            None => Err(Refusal::missing("channel", channel)),
        }
    }

    /// The same for a private channel of the configuration: whoever is listed and has come meanwhile is taken in.
    fn enter_private(
        &self,
        stage: &mut Stage<'_, '_>,
        channel: &str,
        listed: &[AgentId],
        sender: &AgentId,
    ) -> Result<(), Refusal> {
        if stage.is_member(channel, sender) != Some(true) && !listed.contains(sender) {
            return Err(Refusal::forbidden(format!("channel {channel:?} is private, and you are none of its members")));
        }
        let is_new = |agent: &&AgentId| stage.agent(agent).is_some() && stage.is_member(channel, agent) != Some(true);
        let new: Vec<AgentId> = listed.iter().filter(is_new).cloned().collect();
        if new.is_empty() { Ok(()) } else { stage.open_channel(channel, "", &new) }
    }
}

/// All agents that have not left.
pub(super) fn everybody(stage: &Stage<'_, '_>) -> Vec<AgentId> {
    stage.agents().into_iter().map(|view| view.agent).collect()
}

/// The answer that clients of the reference know.
pub(super) fn done(event: &Event) -> Reply {
    let data = json!({"event_name": event.name.as_str(), "event_id": event.id});
    Reply::done(format!("{} was delivered", event.name), Some(data))
}

/// The agents that a text addresses with `@`.
fn mentions(stage: &Stage<'_, '_>, text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let is_word = |c: char| c.is_alphanumeric() || "-_.+~".contains(c);
    for after in text.split('@').skip(1).take(200) {
        let word = &after[..after.find(|c| !is_word(c)).unwrap_or(after.len())];
        let word = word.trim_end_matches(['.', '-', '~', '+']);
        let known = word.parse::<AgentId>().is_ok_and(|agent| stage.agent(&agent).is_some());
        if known && found.len() < MENTIONS_MAX && !found.iter().any(|name| name == word) {
            found.push(word.to_owned());
        }
    }
    found
}

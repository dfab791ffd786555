//! What an agent acts through: messages in the messaging mod's shapes, with ids that follow from what is being answered.
//!
//! Invariant: whoever handles the same message again, after a crash or a second delivery, sends the same ids in the same
//! order, so that each answer is one event. Every answer carries how many answers led to it (`hops`) and where it all
//! began (`root`).

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU32, Ordering},
};

use longhaul_core::Digest;
use longhaul_network::{Address, AgentId, Draft, EventName, Refusal, Reply};
use serde_json::{Map, Value, json};

use super::{
    caution::{Caution, CautionSettings},
    heard::{Message, Way, cut},
    link::Link,
};

/// One agent's desk, while it handles one message or none.
#[derive(Debug, Clone)]
pub struct Desk {
    link: Arc<dyn Link>,
    caution: Arc<Mutex<Caution>>,
    about: Option<Arc<Message>>,
    /// What ids are made of beside the count: the message that is handled.
    seed: Arc<str>,
    count: Arc<AtomicU32>,
}

impl Desk {
    /// The desk of whoever has this connection. What it sends by itself has ids from `seed`, which should be new each
    /// time.
    #[must_use]
    pub fn new(link: Arc<dyn Link>, settings: CautionSettings, seed: &str) -> Self {
        let caution = Caution::new(link.agent().as_str(), settings);
        let caution = Arc::new(Mutex::new(caution));
        Self { link, caution, about: None, seed: seed.into(), count: Arc::default() }
    }

    /// The same desk while it handles this message.
    #[must_use]
    pub fn about(&self, message: &Message) -> Self {
        let seed = message.event.as_str().into();
        Self { about: Some(Arc::new(message.clone())), seed, count: Arc::default(), ..self.clone() }
    }

    /// Who it is.
    #[must_use]
    pub fn agent(&self) -> &AgentId {
        self.link.agent()
    }

    /// The connection.
    #[must_use]
    pub fn link(&self) -> &Arc<dyn Link> {
        &self.link
    }

    pub(crate) fn caution(&self) -> MutexGuard<'_, Caution> {
        self.caution.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The id of what this agent sends under this key while it handles its message: the same each time.
    #[must_use]
    pub fn id_for(&self, key: &str) -> String {
        let parts: [&[u8]; 4] =
            [self.link.network().as_bytes(), self.agent().as_str().as_bytes(), self.seed.as_bytes(), key.as_bytes()];
        let digest = Digest::of_parts(parts).to_string();
        let hex = digest.rsplit(':').next().unwrap_or_default();
        format!("{}-{}", self.agent(), &hex[..hex.len().min(32)])
    }

    fn next_id(&self) -> String {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        self.id_for(&format!("#{count}"))
    }

    /// A draft with this agent's marks.
    ///
    /// # Errors
    /// When the name is none.
    pub fn draft(&self, id: String, name: &str, to: Address, payload: Map<String, Value>) -> Result<Draft, Refusal> {
        let name: EventName = name.parse()?;
        let mut draft = Draft::new(id, name, to, payload);
        if let Some(message) = &self.about {
            draft.metadata.insert("hops".into(), message.hops.saturating_add(1).into());
            draft.metadata.insert("root".into(), message.root.clone().into());
        }
        Ok(draft)
    }

    /// Sends a draft; what it says is known again as this agent's own.
    ///
    /// # Errors
    /// Those of [`Link::send`].
    pub async fn send_draft(&self, draft: Draft) -> Result<Reply, Refusal> {
        let said = draft.payload.get("content").and_then(|content| content.get("text")).and_then(Value::as_str);
        if let Some(text) = said {
            self.caution().said(text);
        }
        self.link.send(draft).await
    }

    /// Sends any event.
    ///
    /// # Errors
    /// Those of [`Link::send`].
    pub async fn send(&self, name: &str, to: Address, payload: Map<String, Value>) -> Result<Reply, Refusal> {
        self.send_draft(self.draft(self.next_id(), name, to, payload)?).await
    }

    /// Says something to one agent.
    ///
    /// # Errors
    /// Those of [`Link::send`].
    pub async fn send_direct(&self, to: &AgentId, text: &str) -> Result<Reply, Refusal> {
        self.send_draft(self.direct(self.next_id(), to, text)?).await
    }

    /// Says something in a channel.
    ///
    /// # Errors
    /// Those of [`Link::send`].
    pub async fn post(&self, channel: &str, text: &str, mention: Option<&AgentId>) -> Result<Reply, Refusal> {
        self.send_draft(self.posting(self.next_id(), channel, text, mention)?).await
    }

    /// Answers a message where it was said: in its channel, under it, or to its sender alone.
    ///
    /// # Errors
    /// Those of [`Link::send`].
    pub async fn reply(&self, message: &Message, text: &str) -> Result<Reply, Refusal> {
        self.send_draft(self.answer(self.next_id(), message, text)?).await
    }

    /// Puts a sign on a message.
    ///
    /// # Errors
    /// Those of [`Link::send`].
    pub async fn react(&self, message: &str, reaction: &str) -> Result<Reply, Refusal> {
        let payload = json!({"target_message_id": message, "reaction_type": reaction, "action": "add"});
        self.send("thread.reaction.add", Address::System, object(payload)).await
    }

    /// What was said last in a channel, newest first, as the messaging mod gives it.
    ///
    /// # Errors
    /// Those of [`Link::send`]; what the mod says when it refuses.
    pub async fn channel_messages(&self, channel: &str, limit: u32) -> Result<Vec<Value>, Refusal> {
        let payload = json!({"action": "retrieve", "channel": channel, "limit": limit, "offset": 0,
            "include_threads": true});
        // An answer that was given before is of no use here: each call asks anew.
        let id = self.id_for(&format!("messages of {channel} {}", self.count.fetch_add(1, Ordering::Relaxed)));
        let to = Address::Channel(channel.to_owned());
        let draft = self.draft(id, "thread.channel_messages.retrieve", to, object(payload))?;
        let reply = self.link.send(draft).await?;
        if !reply.success {
            return Err(Refusal::invalid(reply.message));
        }
        let messages = reply.data.as_ref().and_then(|data| data.get("messages")).and_then(Value::as_array);
        Ok(messages.cloned().unwrap_or_default())
    }

    /// A direct message as a draft.
    ///
    /// # Errors
    /// Never for a name that is one.
    pub fn direct(&self, id: String, to: &AgentId, text: &str) -> Result<Draft, Refusal> {
        let payload = json!({"target_agent_id": to.as_str(), "content": {"text": cut(text.to_owned())},
            "message_type": "direct_message"});
        self.draft(id, "thread.direct_message.send", Address::Agent(to.clone()), object(payload))
    }

    /// A post as a draft.
    ///
    /// # Errors
    /// Never for a name that is one.
    pub fn posting(&self, id: String, channel: &str, text: &str, mention: Option<&AgentId>) -> Result<Draft, Refusal> {
        let mut payload = json!({"message_type": "channel_message", "channel": channel,
            "content": {"text": cut(text.to_owned())}});
        if let Some(agent) = mention {
            payload["mentioned_agent_id"] = agent.as_str().into();
        }
        self.draft(id, "thread.channel_message.post", Address::Channel(channel.to_owned()), object(payload))
    }

    /// An answer as a draft.
    ///
    /// # Errors
    /// When whoever said the message is nobody that can be answered.
    pub fn answer(&self, id: String, message: &Message, text: &str) -> Result<Draft, Refusal> {
        let mut draft = match (&message.channel, message.way) {
            (Some(channel), Way::Post | Way::Mention | Way::Reply | Way::Reaction | Way::File) => {
                let payload = json!({"reply_to_id": message.id, "content": {"text": cut(text.to_owned())},
                    "channel": channel, "message_type": "reply_message", "sender_id": self.agent().as_str(),
                    "thread_level": 1});
                self.draft(id, "thread.reply.post", Address::Channel(channel.clone()), object(payload))?
            }
            (_, Way::Other) if message.name != "agent.message" && message.from.contains(':') => {
                return Err(Refusal::invalid(format!(
                    "{} is nobody's message: there is nobody to answer",
                    message.name
                )));
            }
            _ => self.direct(id, &message.from.parse()?, text)?,
        };
        draft.response_to = Some(message.id.clone());
        Ok(draft)
    }
}

/// The object that a literal is.
pub(crate) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

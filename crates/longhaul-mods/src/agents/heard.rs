//! What an event means for the agent that receives it: a message, from whom, to be answered where.
//!
//! It owns the reading of the messaging mod's notices and of the marks that agents leave on what they send (`hops`,
//! `root`, `failed`). Invariant: reading never fails; whatever is not understood is [`Way::Other`] with its payload.

use longhaul_core::TimeMs;
use longhaul_network::{AgentId, Event, Sender};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Longest text of a message that an agent reads, bytes; the rest is left out, and said so.
pub const TEXT_BYTES_MAX: usize = 20 * 1024;
/// Largest payload that is kept beside the text, bytes when printed.
const PAYLOAD_BYTES_MAX: usize = 6 * 1024;

/// The way a message came.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// To this agent alone.
    Direct,
    /// In a channel, naming this agent.
    Mention,
    /// In a channel.
    Post,
    /// As an answer to another message.
    Reply,
    /// A sign put on a message.
    Reaction,
    /// A file that was shared.
    File,
    /// Any other event.
    #[default]
    Other,
}

/// A message as its receiver sees it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// The event that brought it.
    pub event: String,
    /// The event's name.
    pub name: String,
    /// The message itself: what a reply or reaction names.
    pub id: String,
    /// How it came.
    pub way: Way,
    /// Who says it.
    pub from: String,
    /// Where, if in a channel.
    pub channel: Option<String>,
    /// What it says, at most [`TEXT_BYTES_MAX`].
    pub text: String,
    /// The message that it answers.
    pub reply_to: Option<String>,
    /// How many agents' answers led to it: 0 for what a person, or an agent by itself, began.
    pub hops: u32,
    /// The message with which it all began.
    pub root: String,
    /// Why its sender could not do what was asked, if it says so.
    pub failed: Option<String>,
    /// More is to come: a word on the way, and not the answer.
    pub interim: bool,
    /// Everything else in it; empty when it is large.
    pub payload: Map<String, Value>,
    /// When it was admitted, milliseconds since the Unix epoch.
    pub at: i64,
}

impl Message {
    /// Reads an event as `me` has to.
    #[must_use]
    pub fn of(event: &Event, me: &AgentId) -> Self {
        let payload = &event.payload;
        let word = |key: &str| payload.get(key).and_then(Value::as_str).filter(|word| !word.is_empty());
        let text = cut(text_of(event));
        // Whom a post names by its field it is for, whatever it quotes.
        let mentioned = word("mentioned_agent_id").map_or_else(|| mentions(&text, me.as_str()), |id| id == me.as_str());
        let way = match event.name.as_str() {
            "thread.channel_message.notification" if mentioned => Way::Mention,
            "thread.channel_message.notification" => Way::Post,
            "thread.reply.notification" => Way::Reply,
            "thread.direct_message.notification" | "agent.message" => Way::Direct,
            "thread.reaction.notification" => Way::Reaction,
            name if name.starts_with("thread.file.") => Way::File,
            _ => Way::Other,
        };
        let original = match way {
            Way::Reply => word("reply_event_id").or(word("original_event_id")),
            _ => word("original_event_id"),
        };
        let id = original.map(str::to_owned).or_else(|| event.origin_id.clone()).unwrap_or_else(|| event.id.clone());
        let said_by = || word("sender_id").or(word("original_sender")).or(word("source_id"));
        let from = match &event.from {
            Sender::Agent(agent) => agent.to_string(),
            other => said_by().map_or_else(|| other.to_string(), str::to_owned),
        };
        let mark = |key: &str| event.metadata.get(key).or_else(|| payload.get("metadata")?.get(key));
        let printed = serde_json::to_string(payload).map_or(usize::MAX, |text| text.len());
        let reply_to = || word("reply_to_id").or(word("original_message_id")).or(word("target_message_id"));
        Self {
            name: event.name.to_string(),
            root: mark("root").and_then(Value::as_str).map_or_else(|| id.clone(), |root| cut(root.to_owned())),
            hops: mark("hops").and_then(Value::as_u64).map_or(0, |hops| u32::try_from(hops).unwrap_or(u32::MAX)),
            interim: mark("interim").and_then(Value::as_bool).unwrap_or(false),
            failed: mark("failed").and_then(Value::as_str).or(word("failed")).map(|why| cut(why.to_owned())),
            channel: word("channel").map(str::to_owned),
            reply_to: reply_to().map(str::to_owned).or_else(|| event.response_to.clone()),
            payload: if printed <= PAYLOAD_BYTES_MAX { payload.clone() } else { Map::new() },
            event: event.id.clone(),
            at: event.at.0,
            id,
            way,
            from,
            text,
        }
    }

    /// Whether it names somebody, whoever that is.
    #[must_use]
    pub fn names_somebody(&self) -> bool {
        let by_field = self.payload.get("mentioned_agent_id").and_then(Value::as_str).is_some_and(|id| !id.is_empty());
        let by_word = self
            .text
            .split_whitespace()
            .any(|word| word.strip_prefix('@').is_some_and(|name| name.starts_with(|c: char| c.is_alphanumeric())));
        by_field || by_word
    }

    /// When it was admitted.
    #[must_use]
    pub fn admitted_at(&self) -> TimeMs {
        TimeMs(self.at)
    }
}

/// What an event says in words.
fn text_of(event: &Event) -> String {
    let payload = &event.payload;
    let content = payload.get("content");
    let found = content
        .and_then(|content| content.get("text"))
        .or(content)
        .or_else(|| payload.get("text"))
        .or_else(|| payload.get("message"))
        .or_else(|| payload.get("description"))
        .and_then(Value::as_str);
    found.map(str::to_owned).or_else(|| event.text.clone()).unwrap_or_default()
}

/// Whether `@agent` stands in the text as a word of its own.
fn mentions(text: &str, agent: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || "-_.+~".contains(c);
    text.match_indices('@').any(|(at, _)| {
        text[at + 1..].strip_prefix(agent).is_some_and(|rest| {
            // A full stop ends a sentence, unless the name goes on behind it.
            let mut behind = rest.chars();
            match behind.next() {
                Some('.') => !behind.next().is_some_and(is_word),
                Some(c) => !is_word(c),
                None => true,
            }
        })
    })
}

/// A text as long as one may be, without characters that only terminals know.
#[must_use]
pub fn cut(text: String) -> String {
    let control = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    let text = if text.contains(control) { text.replace(control, " ") } else { text };
    if text.len() <= TEXT_BYTES_MAX {
        return text;
    }
    let end = (0..=TEXT_BYTES_MAX - 64).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}\n(cut: {} bytes in all)", &text[..end], text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mention_is_the_whole_name() {
        for text in ["@ada", "look, @ada!", "ask @ada.", "（@ada）", "@bob and @ada: hello"] {
            assert!(mentions(text, "ada"), "{text}");
        }
        for text in ["ada", "@adam", "@ada.b said", "mail to x@adab"] {
            assert!(!mentions(text, "ada"), "{text}");
        }
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let long = "é".repeat(TEXT_BYTES_MAX);
        let short = cut(long.clone());
        assert!(short.len() <= TEXT_BYTES_MAX && short.ends_with(&format!("(cut: {} bytes in all)", long.len())));
    }
}

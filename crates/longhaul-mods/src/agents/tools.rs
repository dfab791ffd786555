//! What a model may do in a network: messages in words, and the mods' events.
//!
//! It owns the tools' shapes and how a call becomes an event. Invariant: an event that a call causes has an id that
//! follows from the step that records it, so that a call which was interrupted is one event.

use longhaul_core::{ToolCall, ToolSpec};
use longhaul_network::{Address, Draft, Refusal, Reply};
use serde_json::{Map, Value, json};

use super::{
    desk::{Desk, object},
    heard::Message,
    link::NetworkTool,
};

/// Longest answer of a tool that a model reads, bytes.
const ANSWER_BYTES_MAX: usize = 24 * 1024;

/// The tools of one agent.
#[derive(Debug, Clone)]
pub struct NetworkTools {
    own: Vec<ToolSpec>,
    of_mods: Vec<NetworkTool>,
}

fn spec(name: &str, description: &str, properties: Value, required: &[&str]) -> ToolSpec {
    let parameters = json!({"type": "object", "properties": properties, "required": required});
    ToolSpec { name: name.to_owned(), description: description.to_owned(), parameters }
}

impl NetworkTools {
    /// The tools of messaging, and of the mods that are named (all when none is), as far as the connection knows them.
    #[must_use]
    pub fn new(desk: &Desk, mods: &[String]) -> Self {
        let text = json!({"type": "string"});
        let own = vec![
            spec(
                "send_direct_message",
                "Says something to one agent alone",
                json!({"agent": text, "text": text}),
                &["agent", "text"],
            ),
            spec(
                "post_to_channel",
                "Says something in a channel; `mention` names an agent who should look",
                json!({"channel": text, "text": text, "mention": text}),
                &["channel", "text"],
            ),
            spec(
                "react_to_message",
                "Puts a sign such as `like` on a message",
                json!({"message_id": text, "reaction": text}),
                &["message_id", "reaction"],
            ),
            spec(
                "read_channel",
                "What was said last in a channel, newest first",
                json!({"channel": text, "limit": {"type": "integer", "minimum": 1, "maximum": 50}}),
                &["channel"],
            ),
            spec("list_agents", "Who takes part in the network", json!({}), &[]),
        ];
        let named = |module: &str| {
            let short = module.rsplit('.').next().unwrap_or(module);
            mods.is_empty() || mods.iter().any(|name| name == module || name == short)
        };
        let known = |name: &str| own.iter().any(|spec| spec.name == name);
        let tools = desk.link().tools().into_iter();
        let of_mods = tools.filter(|tool| named(&tool.module) && !known(&tool.spec.name)).collect();
        Self { own, of_mods }
    }

    /// None.
    #[must_use]
    pub fn none() -> Self {
        Self { own: Vec::new(), of_mods: Vec::new() }
    }

    /// As the model sees them.
    #[must_use]
    pub fn specs(&self) -> Vec<ToolSpec> {
        self.own.iter().cloned().chain(self.of_mods.iter().map(|tool| tool.spec.clone())).collect()
    }

    /// The event that a call becomes.
    ///
    /// # Errors
    /// A wrong call, in words for the model.
    pub fn draft(&self, desk: &Desk, call: &ToolCall, id: String) -> Result<Draft, Refusal> {
        let arguments = match call.arguments.trim() {
            "" => Map::new(),
            text => serde_json::from_str(text)
                .map_err(|error| Refusal::invalid(format!("the arguments are no JSON object: {error}")))?,
        };
        let word = |key: &str| {
            let word = arguments.get(key).and_then(Value::as_str).filter(|word| !word.is_empty());
            word.ok_or_else(|| Refusal::invalid(format!("`{key}` is missing")))
        };
        if let Some(tool) = self.of_mods.iter().find(|tool| tool.spec.name == call.name) {
            let to = tool.address(&arguments)?;
            return desk.draft(id, &tool.event, to, arguments);
        }
        if !self.own.iter().any(|spec| spec.name == call.name) {
            let shown: String = call.name.chars().take(60).collect();
            return Err(Refusal::invalid(format!("there is no tool `{shown}`")));
        }
        match call.name.as_str() {
            "send_direct_message" => {
                let agent = word("agent")?.parse()?;
                if agent == *desk.agent() {
                    return Err(Refusal::invalid("that is you: nobody writes to themselves"));
                }
                desk.direct(id, &agent, word("text")?)
            }
            "post_to_channel" => {
                let mention = arguments.get("mention").and_then(Value::as_str).filter(|name| !name.is_empty());
                let mention = mention.map(str::parse).transpose()?;
                desk.posting(id, word("channel")?.trim_start_matches('#'), word("text")?, mention.as_ref())
            }
            "react_to_message" => {
                let payload = json!({"target_message_id": word("message_id")?, "reaction_type": word("reaction")?,
                    "action": "add"});
                desk.draft(id, "thread.reaction.add", Address::System, object(payload))
            }
            "read_channel" => {
                let channel = word("channel")?.trim_start_matches('#').to_owned();
                let limit = arguments.get("limit").and_then(Value::as_u64).unwrap_or(20).clamp(1, 50);
                let payload = json!({"action": "retrieve", "channel": channel, "limit": limit, "offset": 0,
                    "include_threads": true});
                desk.draft(id, "thread.channel_messages.retrieve", Address::Channel(channel), object(payload))
            }
            _ => {
                let payload = json!({"agent_id": desk.agent().as_str()});
                desk.draft(id, "system.list_agents", Address::System, object(payload))
            }
        }
    }
}

/// What the model reads of an answer.
#[must_use]
pub(crate) fn told(reply: &Reply) -> String {
    let mut text = if reply.success { String::new() } else { "error: ".to_owned() };
    text.push_str(&reply.message);
    if let Some(data) = &reply.data {
        text.push('\n');
        text.push_str(&data.to_string());
    }
    if text.len() > ANSWER_BYTES_MAX {
        let end = (0..=ANSWER_BYTES_MAX).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
        text.push_str(" […]");
    }
    text
}

/// The message as a model reads it, with what was said before and what is remembered.
#[must_use]
pub(crate) fn prompt(message: &Message, instruction: &str, before: &str, remembered: &str) -> String {
    use super::heard::Way;
    let how = match (message.way, &message.channel) {
        (Way::Direct, _) => "says to you alone".to_owned(),
        (Way::Mention, Some(channel)) => format!("asks you in #{channel}"),
        (Way::Reply, Some(channel)) => format!("answers in #{channel}"),
        (Way::Reaction, _) => "put a sign on a message".to_owned(),
        (Way::File, _) => "shared a file".to_owned(),
        (_, Some(channel)) => format!("says in #{channel}"),
        (_, None) => format!("sent you the event {}", message.name),
    };
    let mut text = format!("# Message\n\n{} {how} (message id {}):\n\n{}\n", message.from, message.id, message.text);
    if message.way == Way::Other && !message.payload.is_empty() {
        text.push_str(&format!("\n{}\n", Value::Object(message.payload.clone())));
    }
    for (title, body) in [("Said before", before), ("What you remember", remembered), ("What to do", instruction)] {
        if !body.trim().is_empty() {
            text.push_str(&format!("\n## {title}\n\n{}\n", body.trim()));
        }
    }
    text
}

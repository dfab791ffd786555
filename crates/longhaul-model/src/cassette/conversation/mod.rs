//! A request as the cassette server sees it, whatever protocol it came over: read leniently, checked where the real
//! service checks. The files below read one protocol each.

mod chat;
mod messages;
mod responses;

use longhaul_core::Digest;
use serde_json::Value;

use super::{cache::Prefix, file::Place};

/// What selection and requirements look at.
#[derive(Debug, Clone, Default)]
pub(crate) struct Conversation {
    pub(crate) model: String,
    pub(crate) stream: bool,
    /// Whether the end of the stream states token counts; only Chat Completions leaves it to the client.
    pub(crate) stream_usage: bool,
    /// Whether the model is to reason in the open, so that an entry's `reasoning` is served.
    pub(crate) thinks: bool,
    /// Whether reasoning is to be given out sealed, so that it can come back (Responses only).
    pub(crate) reasoning_sealed: bool,
    /// Whether a summary of the reasoning is to be given out (Responses only).
    pub(crate) reasoning_told: bool,
    /// The JSON Schema that the answer's text has to follow.
    pub(crate) answer_schema: Option<Value>,
    /// The first user message.
    pub(crate) prompt: String,
    /// How many assistant messages there are.
    pub(crate) turn: usize,
    /// The names of the tools on offer.
    pub(crate) tools: Vec<String>,
    /// The request's size, and what of it the service had in its cache.
    pub(crate) prefix: Prefix,
    /// The assistant's turns since the last message of a person, which must carry their reasoning.
    pub(crate) open_turns: Vec<AssistantTurn>,
    pub(crate) digest: String,
    pub(crate) cached_tokens: u64,
    pub(crate) written_tokens: u64,
    system: Vec<String>,
    last_tools: Vec<String>,
    all: Vec<String>,
}

/// What came back of an assistant's turn.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AssistantTurn {
    pub(crate) call_ids: Vec<String>,
    /// The blocks of reasoning as they came back, as JSON.
    pub(crate) reasoning: Vec<Value>,
}

impl Conversation {
    fn new(json: &Value, body: &[u8]) -> Result<Self, String> {
        let model = json.get("model").and_then(Value::as_str).ok_or("`model` is missing or not a string")?;
        Ok(Self {
            model: model.to_owned(),
            stream: json.get("stream").and_then(Value::as_bool).unwrap_or(false),
            digest: Digest::of(body).to_string(),
            ..Self::default()
        })
    }

    /// How many tokens the request has.
    pub(crate) fn prompt_tokens(&self) -> u64 {
        self.prefix.tokens()
    }

    /// The texts that stand in a place.
    pub(crate) fn texts_in(&self, place: Place) -> &[String] {
        match place {
            Place::System => &self.system,
            Place::Prompt => std::slice::from_ref(&self.prompt),
            Place::Tool => &self.last_tools,
            Place::Last => &self.all[self.all.len().saturating_sub(1)..],
            Place::Any => &self.all,
        }
    }

    /// The first line of the first user message, bounded, for messages.
    pub(crate) fn first_line(&self) -> String {
        self.prompt.lines().next().unwrap_or_default().chars().take(120).collect()
    }
}

fn parsed(body: &[u8]) -> Result<Value, String> {
    serde_json::from_slice(body).map_err(|error| format!("the body is not JSON: {error}"))
}

fn list<'a>(json: &'a Value, name: &str) -> &'a [Value] {
    json.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn text<'a>(json: &'a Value, name: &str) -> &'a str {
    json.get(name).and_then(Value::as_str).unwrap_or_default()
}

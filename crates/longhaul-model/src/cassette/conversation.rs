//! A request as the cassette server sees it: read leniently, checked where the real service checks.

use longhaul_core::Digest;
use serde_json::Value;

use super::file::Place;
use crate::estimate_tokens;

/// What selection and requirements look at.
#[derive(Debug, Clone, Default)]
pub(crate) struct Conversation {
    pub(crate) model: String,
    pub(crate) stream: bool,
    pub(crate) stream_usage: bool,
    /// The first user message.
    pub(crate) prompt: String,
    /// How many assistant messages there are.
    pub(crate) turn: usize,
    /// The names of the tools on offer.
    pub(crate) tools: Vec<String>,
    pub(crate) prompt_tokens: u64,
    pub(crate) digest: String,
    system: Vec<String>,
    last_tools: Vec<String>,
    all: Vec<String>,
}

impl Conversation {
    /// Reads a request's body.
    ///
    /// # Errors
    /// What is wrong with it, in the words of an API that explains itself.
    pub(crate) fn read(body: &[u8]) -> Result<Self, String> {
        let json: Value = serde_json::from_slice(body).map_err(|error| format!("the body is not JSON: {error}"))?;
        let model = json.get("model").and_then(Value::as_str).ok_or("`model` is missing or not a string")?;
        let messages = json.get("messages").and_then(Value::as_array).ok_or("`messages` is missing or not a list")?;
        let mut read = Self {
            model: model.to_owned(),
            stream: json.get("stream").and_then(Value::as_bool).unwrap_or(false),
            stream_usage: json.pointer("/stream_options/include_usage").and_then(Value::as_bool).unwrap_or(false),
            tools: offered_tools(&json),
            digest: Digest::of(body).to_string(),
            prompt_tokens: json.get("tools").map_or(0, |tools| estimate_tokens(&tools.to_string())),
            ..Self::default()
        };
        let mut has_prompt = false;
        let mut unanswered: Vec<String> = Vec::new();
        let mut in_tools = false;
        for (index, message) in messages.iter().enumerate() {
            let wrong = |what: String| format!("messages[{index}]: {what}");
            let role = message.get("role").and_then(Value::as_str).unwrap_or_default();
            let text = message.get("content").map(crate::openai::text_of).unwrap_or_default();
            if role != "tool" && !unanswered.is_empty() {
                let open = unanswered.join(", ");
                return Err(wrong(format!("each tool_call_id before it needs a tool message; unanswered: {open}")));
            }
            match role {
                "system" | "developer" => read.system.push(text.clone()),
                "user" if has_prompt => {}
                "user" => {
                    has_prompt = true;
                    read.prompt.clone_from(&text);
                }
                "assistant" => {
                    read.turn += 1;
                    unanswered = call_ids(message);
                }
                "tool" => {
                    let id = message.get("tool_call_id").and_then(Value::as_str).unwrap_or_default();
                    let call = unanswered.iter().position(|open| open == id);
                    let call = call.ok_or_else(|| wrong(format!("tool_call_id {id:?} answers no call before it")))?;
                    unanswered.remove(call);
                    if !in_tools {
                        read.last_tools.clear();
                    }
                    read.last_tools.push(text.clone());
                }
                _ => return Err(wrong(format!("unknown role {role:?}"))),
            }
            in_tools = role == "tool";
            let calls = message.get("tool_calls").map_or(0, |calls| estimate_tokens(&calls.to_string()));
            read.prompt_tokens += 4 + estimate_tokens(&text) + calls;
            read.all.push(text);
        }
        if !unanswered.is_empty() {
            return Err(format!("tool calls without a tool message: {}", unanswered.join(", ")));
        }
        Ok(read)
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

fn offered_tools(json: &Value) -> Vec<String> {
    let tools = json.get("tools").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    tools.iter().filter_map(|tool| tool.pointer("/function/name")?.as_str().map(str::to_owned)).collect()
}

fn call_ids(message: &Value) -> Vec<String> {
    let calls = message.get("tool_calls").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    calls.iter().map(|call| call.get("id").and_then(Value::as_str).unwrap_or_default().to_owned()).collect()
}

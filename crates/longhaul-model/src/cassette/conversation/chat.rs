//! Reads a request of OpenAI's Chat Completions. Source: the OpenAI API reference, "Chat Completions".

use serde_json::Value;

use super::{Conversation, list, parsed, text};
use crate::{estimate_tokens, openai::text_of};

impl Conversation {
    /// Reads a request's body.
    ///
    /// # Errors
    /// What the real service would refuse, in words.
    pub(crate) fn read_chat(body: &[u8]) -> Result<Self, String> {
        let json = parsed(body)?;
        let mut read = Self::new(&json, body)?;
        let messages = json.get("messages").and_then(Value::as_array).ok_or("`messages` is missing or not a list")?;
        read.stream_usage = json.pointer("/stream_options/include_usage").and_then(Value::as_bool).unwrap_or(false);
        let names = list(&json, "tools").iter().filter_map(|tool| tool.pointer("/function/name")?.as_str());
        read.tools = names.map(str::to_owned).collect();
        read.answer_schema = json.pointer("/response_format/json_schema/schema").cloned();
        if let Some(tools) = json.get("tools") {
            read.prefix.add(&tools.to_string(), estimate_tokens(&tools.to_string()));
        }
        let mut has_prompt = false;
        let mut unanswered: Vec<String> = Vec::new();
        let mut in_tools = false;
        for (index, message) in messages.iter().enumerate() {
            let wrong = |what: String| format!("messages[{index}]: {what}");
            let role = text(message, "role");
            let said = message.get("content").map(text_of).unwrap_or_default();
            if role != "tool" && !unanswered.is_empty() {
                let open = unanswered.join(", ");
                return Err(wrong(format!("each tool_call_id before it needs a tool message; unanswered: {open}")));
            }
            match role {
                "system" | "developer" => read.system.push(said.clone()),
                "user" if has_prompt => {}
                "user" => {
                    has_prompt = true;
                    read.prompt.clone_from(&said);
                }
                "assistant" => {
                    read.turn += 1;
                    unanswered = list(message, "tool_calls").iter().map(|call| text(call, "id").to_owned()).collect();
                }
                "tool" => {
                    let id = text(message, "tool_call_id");
                    let call = unanswered.iter().position(|open| open == id);
                    let call = call.ok_or_else(|| wrong(format!("tool_call_id {id:?} answers no call before it")))?;
                    unanswered.remove(call);
                    if !in_tools {
                        read.last_tools.clear();
                    }
                    read.last_tools.push(said.clone());
                }
                _ => return Err(wrong(format!("unknown role {role:?}"))),
            }
            in_tools = role == "tool";
            let calls = message.get("tool_calls").map_or(0, |calls| estimate_tokens(&calls.to_string()));
            read.prefix.add(&message.to_string(), 4 + estimate_tokens(&said) + calls);
            read.all.push(said);
        }
        if !unanswered.is_empty() {
            return Err(format!("tool calls without a tool message: {}", unanswered.join(", ")));
        }
        Ok(read)
    }
}

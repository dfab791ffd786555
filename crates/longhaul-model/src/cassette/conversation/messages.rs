//! Reads a request of Anthropic's Messages. Source: the Anthropic API reference, "Messages", "Tool use" and "Prompt
//! caching": results stand first in the message after their calls, no text is empty, `max_tokens` is required.

use serde_json::Value;

use super::{AssistantTurn, Conversation, list, parsed, text};
use crate::estimate_tokens;

/// The most breakpoints for the cache that a request may have.
const BREAKPOINTS_MAX: usize = 4;

impl Conversation {
    /// Reads a request's body; also that of `count_tokens`, which needs no `max_tokens`.
    ///
    /// # Errors
    /// What the real service would refuse, in words.
    pub(crate) fn read_messages(body: &[u8]) -> Result<Self, String> {
        let json = parsed(body)?;
        if json.get("max_tokens").and_then(Value::as_u64).is_none_or(|tokens| tokens == 0) {
            return Err("max_tokens: Field required, an integer of at least 1".to_owned());
        }
        Self::read_counted(&json, body)
    }

    /// Reads the body of a request to count tokens.
    ///
    /// # Errors
    /// As [`Self::read_messages`].
    pub(crate) fn read_to_count(body: &[u8]) -> Result<Self, String> {
        Self::read_counted(&parsed(body)?, body)
    }

    fn read_counted(json: &Value, body: &[u8]) -> Result<Self, String> {
        let mut read = Self::new(json, body)?;
        read.stream_usage = true;
        read.thinks = matches!(json.pointer("/thinking/type").and_then(Value::as_str), Some("enabled" | "adaptive"));
        let schema = json.pointer("/output_config/format/schema").or_else(|| json.pointer("/output_format/schema"));
        read.answer_schema = schema.cloned();
        for tool in list(json, "tools") {
            read.tools.push(text(tool, "name").to_owned());
            read.add_block(tool, estimate_tokens(&bare(tool).to_string()));
        }
        for block in blocks(json.get("system")) {
            let said = text(&block, "text").to_owned();
            read.add_block(&block, 2 + estimate_tokens(&said));
            read.system.push(said.clone());
            read.all.push(said);
        }
        let messages = json.get("messages").and_then(Value::as_array).ok_or("messages: Field required")?;
        if messages.is_empty() {
            return Err("messages: at least one message is required".to_owned());
        }
        Talk::default().read(messages, &mut read)?;
        if json.get("cache_control").is_some_and(Value::is_object) {
            read.prefix.mark();
        }
        if read.prefix.breakpoints() > BREAKPOINTS_MAX {
            let found = read.prefix.breakpoints();
            return Err(format!(
                "A maximum of {BREAKPOINTS_MAX} blocks with cache_control may be provided. Found {found}."
            ));
        }
        Ok(read)
    }

    fn add_block(&mut self, block: &Value, tokens: u64) {
        self.prefix.add(&bare(block).to_string(), tokens);
        if block.get("cache_control").is_some_and(Value::is_object) {
            self.prefix.mark();
        }
    }
}

/// The messages under way.
#[derive(Default)]
struct Talk {
    has_prompt: bool,
    /// Calls of the assistant message before that have no result yet.
    unanswered: Vec<String>,
}

impl Talk {
    fn read(mut self, messages: &[Value], read: &mut Conversation) -> Result<(), String> {
        for (index, message) in messages.iter().enumerate() {
            let blocks = blocks(message.get("content"));
            if blocks.is_empty() && index + 1 < messages.len() {
                return Err(format!("messages.{index}: all messages must have non-empty content"));
            }
            for (at, block) in blocks.iter().enumerate() {
                check_block(block).map_err(|what| format!("messages.{index}.content.{at}: {what}"))?;
                read.add_block(block, 2 + block_tokens(block));
            }
            match text(message, "role") {
                "user" => self.user(&blocks, read).map_err(|what| format!("messages.{index}: {what}"))?,
                "assistant" => self.assistant(&blocks, read).map_err(|what| format!("messages.{index}: {what}"))?,
                "system" if index > 0 => {
                    let said = joined(&blocks);
                    read.system.push(said.clone());
                    read.all.push(said);
                }
                role => {
                    return Err(format!(
                        "messages.{index}: unexpected role {role:?}; allowed are \"user\" and \"assistant\", and the \
                         system prompt is the parameter `system`"
                    ));
                }
            }
        }
        if self.unanswered.is_empty() { Ok(()) } else { Err(missing_results(&self.unanswered)) }
    }

    fn user(&mut self, blocks: &[Value], read: &mut Conversation) -> Result<(), String> {
        let results: Vec<&Value> = blocks.iter().filter(|block| text(block, "type") == "tool_result").collect();
        let first = blocks.iter().take_while(|block| text(block, "type") == "tool_result").count();
        if first < results.len() {
            return Err("tool_result blocks must come first in the content of a user message".to_owned());
        }
        if !results.is_empty() {
            read.last_tools.clear();
        }
        for result in &results {
            let id = text(result, "tool_use_id");
            let call = self.unanswered.iter().position(|open| open == id).ok_or_else(|| {
                format!(
                    "unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each `tool_result` block must have a \
                     corresponding `tool_use` block in the previous message."
                )
            })?;
            self.unanswered.remove(call);
            let said = joined(&super::messages::blocks(result.get("content")));
            read.last_tools.push(said.clone());
            read.all.push(said);
        }
        if !self.unanswered.is_empty() {
            return Err(missing_results(&self.unanswered));
        }
        if results.len() < blocks.len() {
            let said = joined(&blocks[results.len()..]);
            // What a person says ends a run of turns that had to keep their reasoning; results alone do not.
            if results.is_empty() {
                read.open_turns.clear();
            }
            if !self.has_prompt {
                self.has_prompt = true;
                read.prompt.clone_from(&said);
            }
            read.all.push(said);
        }
        Ok(())
    }

    fn assistant(&mut self, blocks: &[Value], read: &mut Conversation) -> Result<(), String> {
        if !self.has_prompt {
            return Err("the first message must be from the user".to_owned());
        }
        if !self.unanswered.is_empty() {
            return Err(missing_results(&self.unanswered));
        }
        let of_type =
            |kinds: &[&str]| blocks.iter().filter(|block| kinds.contains(&text(block, "type"))).collect::<Vec<_>>();
        let calls = of_type(&["tool_use"]);
        self.unanswered = calls.iter().map(|call| text(call, "id").to_owned()).collect();
        let reasoning = of_type(&["thinking", "redacted_thinking"]).into_iter().map(bare).collect();
        read.open_turns.push(AssistantTurn { call_ids: self.unanswered.clone(), reasoning });
        read.turn += 1;
        read.all.push(joined(blocks));
        Ok(())
    }
}

fn missing_results(ids: &[String]) -> String {
    format!(
        "`tool_use` ids were found without `tool_result` blocks immediately after: {}. Each `tool_use` block must have \
         a corresponding `tool_result` block in the next message.",
        ids.join(", ")
    )
}

/// What the service refuses in a block.
fn check_block(block: &Value) -> Result<(), String> {
    let plain =
        |id: &str| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    match text(block, "type") {
        "text" if text(block, "text").is_empty() => Err("text content blocks must be non-empty".to_owned()),
        "text" if text(block, "text").trim().is_empty() => {
            Err("text content blocks must contain non-whitespace text".to_owned())
        }
        "tool_use" if !plain(text(block, "id")) => Err("tool_use.id: should match '^[a-zA-Z0-9_-]+$'".to_owned()),
        "tool_use" if !block.get("input").is_some_and(Value::is_object) => {
            Err("tool_use.input: Input should be a valid dictionary".to_owned())
        }
        "thinking" if text(block, "signature").is_empty() => Err("thinking.signature: Field required".to_owned()),
        "" => Err("type: Field required".to_owned()),
        _ => Ok(()),
    }
}

/// Content as a list of blocks: a string is short for one of text.
fn blocks(content: Option<&Value>) -> Vec<Value> {
    match content {
        Some(Value::String(text)) if !text.is_empty() => vec![serde_json::json!({"type": "text", "text": text})],
        Some(Value::Array(blocks)) => blocks.clone(),
        Some(_) | None => Vec::new(),
    }
}

/// The texts of these blocks, one line break between two.
fn joined(blocks: &[Value]) -> String {
    let texts: Vec<&str> = blocks.iter().filter_map(|block| block.get("text")?.as_str()).collect();
    texts.join("\n")
}

fn block_tokens(block: &Value) -> u64 {
    match text(block, "type") {
        "text" => estimate_tokens(text(block, "text")),
        "tool_result" => estimate_tokens(&joined(&blocks(block.get("content")))),
        "image" | "document" => 1_500,
        _ => estimate_tokens(&bare(block).to_string()),
    }
}

/// A block without its mark for the cache, which is not part of what is cached.
fn bare(block: &Value) -> Value {
    let mut block = block.clone();
    if let Some(fields) = block.as_object_mut() {
        fields.remove("cache_control");
    }
    block
}

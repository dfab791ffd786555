//! Reads a request of OpenAI's Responses. Source: the OpenAI API reference, "Responses".
//!
//! A conversation is a list of items there; items of the assistant that follow one another are one turn. This service
//! keeps no conversations, so a request that builds on an earlier response is refused.

use serde_json::{Value, json};

use super::{AssistantTurn, Conversation, list, parsed, text};
use crate::{estimate_tokens, openai::text_of};

impl Conversation {
    /// Reads a request's body.
    ///
    /// # Errors
    /// What the real service would refuse, in words.
    pub(crate) fn read_responses(body: &[u8]) -> Result<Self, String> {
        let json = parsed(body)?;
        let mut read = Self::new(&json, body)?;
        read.stream_usage = true;
        read.thinks = true;
        for name in ["previous_response_id", "conversation"] {
            if json.get(name).is_some_and(|value| !value.is_null()) {
                return Err(format!("`{name}`: a cassette keeps no conversation; send all of it as `input`"));
            }
        }
        let include = list(&json, "include");
        read.reasoning_sealed = include.iter().any(|what| what == "reasoning.encrypted_content");
        read.reasoning_told = json.pointer("/reasoning/summary").is_some_and(|summary| !summary.is_null());
        read.answer_schema = json.pointer("/text/format/schema").cloned();
        let tools = list(&json, "tools");
        read.tools = tools.iter().map(|tool| text(tool, "name").to_owned()).collect();
        if !tools.is_empty() {
            let tools = json.get("tools").map(Value::to_string).unwrap_or_default();
            read.prefix.add(&tools, estimate_tokens(&tools));
        }
        if let Some(instructions) = json.get("instructions").and_then(Value::as_str) {
            read.system(instructions);
        }
        let input = match json.get("input") {
            Some(Value::String(prompt)) => vec![json!({"role": "user", "content": prompt})],
            Some(Value::Array(items)) if !items.is_empty() => items.clone(),
            Some(_) | None => return Err("`input` is missing: a text, or a list of at least one item".to_owned()),
        };
        Items::default().read(&input, &mut read)?;
        Ok(read)
    }

    fn system(&mut self, said: &str) {
        self.prefix.add(said, 4 + estimate_tokens(said));
        self.system.push(said.to_owned());
        self.all.push(said.to_owned());
    }
}

/// The items under way.
#[derive(Default)]
struct Items {
    has_prompt: bool,
    unanswered: Vec<String>,
    /// The assistant's turn that these items belong to.
    turn: Option<AssistantTurn>,
    in_results: bool,
}

impl Items {
    fn read(mut self, input: &[Value], read: &mut Conversation) -> Result<(), String> {
        for (index, item) in input.iter().enumerate() {
            self.item(item, read).map_err(|what| format!("input[{index}]: {what}"))?;
        }
        self.end_turn(read);
        match self.unanswered.first() {
            Some(open) => Err(format!("No tool output found for function call {open}.")),
            None => Ok(()),
        }
    }

    fn item(&mut self, item: &Value, read: &mut Conversation) -> Result<(), String> {
        let kind = item.get("type").and_then(Value::as_str).unwrap_or("message");
        let is_result = kind == "function_call_output";
        match (kind, text(item, "role")) {
            ("message", "assistant") => {
                let said = item.get("content").map(text_of).unwrap_or_default();
                read.prefix.add(&item.to_string(), 4 + estimate_tokens(&said));
                read.all.push(said);
                self.turn(read);
            }
            ("message", role @ ("system" | "developer" | "user")) => {
                self.end_turn(read);
                let said = item.get("content").map(text_of).unwrap_or_default();
                if role != "user" {
                    read.system(&said);
                    return Ok(());
                }
                read.prefix.add(&item.to_string(), 4 + estimate_tokens(&said));
                read.open_turns.clear();
                if !self.has_prompt {
                    self.has_prompt = true;
                    read.prompt.clone_from(&said);
                }
                read.all.push(said);
            }
            ("reasoning", _) => {
                if text(item, "id").is_empty() {
                    return Err("reasoning items need the `id` they came with".to_owned());
                }
                read.prefix.add(&item.to_string(), estimate_tokens(text(item, "encrypted_content")));
                self.turn(read).reasoning.push(item.clone());
            }
            ("function_call", _) => {
                let id = text(item, "call_id").to_owned();
                let tokens = 8 + estimate_tokens(text(item, "name")) + estimate_tokens(text(item, "arguments"));
                read.prefix.add(&item.to_string(), tokens);
                self.unanswered.push(id.clone());
                self.turn(read).call_ids.push(id);
            }
            ("function_call_output", _) => {
                self.end_turn(read);
                let id = text(item, "call_id");
                let call = self.unanswered.iter().position(|open| open == id);
                let call =
                    call.ok_or_else(|| format!("No tool call found for function call output with call_id {id}."))?;
                self.unanswered.remove(call);
                let said = item.get("output").map(text_of).unwrap_or_default();
                read.prefix.add(&item.to_string(), 4 + estimate_tokens(&said));
                if !self.in_results {
                    read.last_tools.clear();
                }
                read.last_tools.push(said.clone());
                read.all.push(said);
            }
            (kind, role) => return Err(format!("unknown item of type {kind:?} and role {role:?}")),
        }
        self.in_results = is_result;
        Ok(())
    }

    /// The assistant's turn under way, begun by this item if there is none.
    fn turn(&mut self, read: &mut Conversation) -> &mut AssistantTurn {
        if self.turn.is_none() {
            read.turn += 1;
        }
        self.turn.get_or_insert_default()
    }

    fn end_turn(&mut self, read: &mut Conversation) {
        read.open_turns.extend(self.turn.take());
    }
}

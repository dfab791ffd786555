//! Our request as a request of Anthropic's Messages. Source: the Anthropic API reference, "Messages", "Tool use",
//! "Prompt caching", "Extended thinking".
//!
//! Their rules differ from OpenAI's: results of tools belong to a message of the user's and stand first in it, messages
//! of one role in a row are one message, no text is empty, ids have few letters.

use serde_json::{Map, Value, json};

use super::{AnthropicSettings, Thinking};
use crate::{ChatRequest, Message, service::echoed_arguments};

/// Stands for an answer without a word, which the protocol does not take back.
const NOTHING: &str = "(no answer)";

/// The request's body. `spec` is the model's own, which says whose thinking it takes back.
pub(crate) fn request_body(settings: &AnthropicSettings, spec: &str, request: &ChatRequest) -> Value {
    let mut body = Map::new();
    let mut messages = messages(request, spec);
    body.insert("model".into(), settings.model.clone().into());
    let asked_max =
        if request.answer_tokens_max > 0 { request.answer_tokens_max } else { settings.answer_tokens_default };
    let thinking = match settings.thinking {
        // A model that has to think refuses a turn of its own that did not; another model's turn is one.
        Thinking::Tokens(_) if !turns_have_thought(request, spec) => Thinking::Unstated,
        chosen => chosen,
    };
    let answer_max = match thinking {
        Thinking::Tokens(tokens) => asked_max.saturating_add(tokens),
        Thinking::Unstated | Thinking::Adaptive => asked_max,
    };
    body.insert("max_tokens".into(), answer_max.into());
    match thinking {
        Thinking::Tokens(tokens) => {
            body.insert("thinking".into(), json!({"type": "enabled", "budget_tokens": tokens}));
        }
        Thinking::Adaptive => {
            body.insert("thinking".into(), json!({"type": "adaptive"}));
        }
        Thinking::Unstated => {}
    }
    if !request.tools.is_empty() {
        let tools = request
            .tools
            .iter()
            .map(|tool| json!({"name": tool.name, "description": tool.description, "input_schema": tool.parameters}));
        body.insert("tools".into(), tools.collect());
    }
    if !request.system.trim().is_empty() {
        body.insert("system".into(), json!([{"type": "text", "text": request.system}]));
    }
    if settings.cache {
        // What comes before the system prompt, the tools, is cached with it.
        body.get_mut("system").and_then(|system| system.get_mut(0)).map(mark);
        mark_messages(&mut messages);
    }
    body.insert("messages".into(), messages.into());
    let mut output = Map::new();
    if let Some(effort) = &settings.effort {
        output.insert("effort".into(), effort.as_str().into());
    }
    if let Some(asked) = &request.answer_schema {
        output.insert("format".into(), json!({"type": "json_schema", "schema": asked.schema}));
    }
    if !output.is_empty() {
        body.insert("output_config".into(), output.into());
    }
    if settings.stream {
        body.insert("stream".into(), true.into());
    }
    body.into()
}

fn messages(request: &ChatRequest, spec: &str) -> Vec<Value> {
    let mut messages: Vec<Value> = Vec::new();
    if !matches!(request.messages.first(), Some(Message::User { .. })) {
        messages.push(json!({"role": "user", "content": [{"type": "text", "text": "(the conversation goes on)"}]}));
    }
    for message in &request.messages {
        let (role, blocks) = match message {
            Message::User { content } => ("user", text_block(content).into_iter().collect()),
            Message::Tool { call_id, content } => {
                let mut result = json!({"type": "tool_result", "tool_use_id": plain(call_id)});
                if !content.is_empty() {
                    result["content"] = content.as_str().into();
                }
                ("user", vec![result])
            }
            Message::Assistant { content, tool_calls, reasoning } => {
                let own = reasoning.iter().filter(|thought| thought.spec == spec).map(|thought| thought.block.clone());
                let calls = tool_calls.iter().map(|call| {
                    json!({"type": "tool_use", "id": plain(&call.id), "name": call.name,
                        "input": echoed_arguments(&call.arguments)})
                });
                let mut blocks: Vec<Value> = own.chain(text_block(content)).chain(calls).collect();
                if blocks.is_empty() {
                    blocks.extend(text_block(NOTHING));
                }
                ("assistant", blocks)
            }
        };
        add(&mut messages, role, blocks);
    }
    messages
}

/// Adds blocks to the last message if it is of that role, else a new message; nothing if there is nothing.
fn add(messages: &mut Vec<Value>, role: &str, blocks: Vec<Value>) {
    if blocks.is_empty() {
        return;
    }
    if let Some(last) = messages.last_mut().filter(|last| last["role"] == role)
        && let Some(content) = last["content"].as_array_mut()
    {
        content.extend(blocks);
        return;
    }
    messages.push(json!({"role": role, "content": blocks}));
}

fn text_block(text: &str) -> Option<Value> {
    (!text.trim().is_empty()).then(|| json!({"type": "text", "text": text}))
}

/// An id in the letters that the service takes; the same for a call and its result.
fn plain(id: &str) -> String {
    let letter = |letter: char| if letter.is_ascii_alphanumeric() || letter == '-' { letter } else { '_' };
    if id.is_empty() { "call".to_owned() } else { id.chars().map(letter).collect() }
}

/// Whether each turn since the last word of a person's, if it called tools, has thinking of this model's.
fn turns_have_thought(request: &ChatRequest, spec: &str) -> bool {
    let open = request.messages.iter().rev().take_while(|message| !matches!(message, Message::User { .. }));
    open.into_iter().all(|message| match message {
        Message::Assistant { tool_calls, reasoning, .. } => {
            tool_calls.is_empty() || reasoning.iter().any(|thought| thought.spec == spec)
        }
        Message::User { .. } | Message::Tool { .. } => true,
    })
}

/// Marks the first message, which lasts as long as the conversation, and the last two of the user: the service looks back
/// 20 blocks from a mark, and a turn with many results is longer. With the system prompt these are the four it allows.
fn mark_messages(messages: &mut [Value]) {
    let of_user: Vec<usize> = (0..messages.len()).filter(|at| messages[*at]["role"] == "user").collect();
    let first = of_user.first().copied();
    let chosen = of_user.iter().rev().take(2).copied().chain(first);
    for at in chosen {
        let blocks = messages[at]["content"].as_array_mut();
        blocks.and_then(|blocks| blocks.last_mut()).map(mark);
    }
}

fn mark(block: &mut Value) {
    block["cache_control"] = json!({"type": "ephemeral"});
}

#[cfg(test)]
mod tests {
    use longhaul_core::{ToolCall, ToolSpec};

    use super::*;
    use crate::{AnswerSchema, Reasoning};

    fn call(id: &str, arguments: &str) -> ToolCall {
        ToolCall { id: id.into(), name: "shell".into(), arguments: arguments.into() }
    }

    fn thought(spec: &str, text: &str) -> Reasoning {
        Reasoning { spec: spec.into(), block: json!({"type": "thinking", "thinking": text, "signature": "s"}) }
    }

    fn request() -> ChatRequest {
        ChatRequest {
            system: "be brief".into(),
            messages: vec![
                Message::User { content: "列出文件".into() },
                Message::Assistant {
                    content: " ".into(),
                    tool_calls: vec![call("call.1", r#"{"command":"ls"}"#), call("c2", "{\"command\":")],
                    reasoning: vec![thought("anthropic:c", " as it\u{2028}came "), thought("openai:o", "else")],
                },
                Message::Tool { call_id: "call.1".into(), content: "a.txt".into() },
                Message::Tool { call_id: "c2".into(), content: String::new() },
                Message::User { content: "go on".into() },
                Message::said(""),
                Message::User { content: "well?".into() },
            ],
            tools: vec![ToolSpec {
                name: "shell".into(),
                description: "runs".into(),
                parameters: json!({"type": "object"}),
            }],
            answer_tokens_max: 500,
            answer_schema: Some(AnswerSchema { name: "list".into(), schema: json!({"type": "object"}) }),
        }
    }

    #[test]
    fn a_request_is_written_as_the_protocol_says() {
        let settings = AnthropicSettings {
            thinking: Thinking::Adaptive,
            effort: Some("high".into()),
            ..AnthropicSettings::new("c")
        };
        let marked = json!({"type": "ephemeral"});
        assert_eq!(
            request_body(&settings, "anthropic:c", &request()),
            json!({
                "model": "c",
                "max_tokens": 500,
                "thinking": {"type": "adaptive"},
                "tools": [{"name": "shell", "description": "runs", "input_schema": {"type": "object"}}],
                "system": [{"type": "text", "text": "be brief", "cache_control": marked}],
                "messages": [
                    {"role": "user", "content": [{"type": "text", "text": "列出文件", "cache_control": marked}]},
                    {"role": "assistant", "content": [
                        {"type": "thinking", "thinking": " as it\u{2028}came ", "signature": "s"},
                        {"type": "tool_use", "id": "call_1", "name": "shell", "input": {"command": "ls"}},
                        {"type": "tool_use", "id": "c2", "name": "shell", "input": {"not_a_json_object": "{\"command\":"}},
                    ]},
                    {"role": "user", "content": [
                        {"type": "tool_result", "tool_use_id": "call_1", "content": "a.txt"},
                        {"type": "tool_result", "tool_use_id": "c2"},
                        {"type": "text", "text": "go on", "cache_control": marked},
                    ]},
                    {"role": "assistant", "content": [{"type": "text", "text": "(no answer)"}]},
                    {"role": "user", "content": [{"type": "text", "text": "well?", "cache_control": marked}]},
                ],
                "output_config": {"effort": "high", "format": {"type": "json_schema", "schema": {"type": "object"}}},
                "stream": true,
            })
        );
    }

    #[test]
    fn a_budget_for_thinking_comes_on_top_and_only_where_every_open_turn_has_thought() {
        let settings = AnthropicSettings { thinking: Thinking::Tokens(2_000), ..AnthropicSettings::new("c") };
        let mut asked = request();
        asked.answer_tokens_max = 0;
        let body = request_body(&settings, "anthropic:c", &asked);
        assert_eq!(body["thinking"], json!({"type": "enabled", "budget_tokens": 2_000}));
        assert_eq!(body["max_tokens"], 8_192 + 2_000);
        asked.messages.truncate(4);
        assert!(request_body(&settings, "anthropic:c", &asked).get("thinking").is_some());
        let body = request_body(&settings, "anthropic:another", &asked);
        assert_eq!((body.get("thinking"), &body["max_tokens"]), (None, &8_192.into()));
        assert_eq!(body["messages"][1]["content"][0]["type"], "tool_use", "another model's thinking is left out");
    }
}

//! Our request as a request of OpenAI's Responses. Source: the OpenAI API reference, "Responses".

use std::borrow::Cow;

use longhaul_core::Digest;
use serde_json::{Map, Value, json};

use crate::{ChatRequest, Message, OpenAiSettings, openai::wire::echoed};

/// The longest id of a call that the service takes, characters.
const CALL_ID_CHARS_MAX: usize = 64;
/// Models that do not think refuse to be asked for sealed reasoning; they are those of these names.
const PLAIN_MODELS: &[&str] = &["gpt-3", "gpt-4", "chatgpt-4"];

/// The request's body. `spec` is the model's own, which says whose reasoning it takes back.
pub(crate) fn request_body(settings: &OpenAiSettings, spec: &str, request: &ChatRequest) -> Value {
    let mut body = Map::new();
    body.insert("model".into(), settings.model.clone().into());
    if !request.system.is_empty() {
        body.insert("instructions".into(), request.system.clone().into());
    }
    body.insert("input".into(), request.messages.iter().flat_map(|message| items(message, spec)).collect());
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            json!({"type": "function", "name": tool.name, "description": tool.description,
                "parameters": tool.parameters, "strict": false})
        });
        body.insert("tools".into(), tools.collect());
    }
    if request.answer_tokens_max > 0 {
        body.insert("max_output_tokens".into(), request.answer_tokens_max.into());
    }
    body.insert("store".into(), false.into());
    if !PLAIN_MODELS.iter().any(|plain| settings.model.starts_with(plain)) {
        body.insert("include".into(), json!(["reasoning.encrypted_content"]));
    }
    if let Some(effort) = &settings.effort {
        body.insert("reasoning".into(), json!({"effort": effort}));
    }
    if let Some(asked) = &request.answer_schema {
        let format = json!({"type": "json_schema", "name": asked.name, "schema": asked.schema, "strict": true});
        body.insert("text".into(), json!({"format": format}));
    }
    if settings.stream {
        body.insert("stream".into(), true.into());
    }
    body.into()
}

fn items(message: &Message, spec: &str) -> Vec<Value> {
    match message {
        Message::User { content } => vec![json!({"role": "user", "content": content})],
        Message::Tool { call_id, content } => {
            vec![json!({"type": "function_call_output", "call_id": short(call_id), "output": content})]
        }
        Message::Assistant { content, tool_calls, reasoning } => {
            let own = reasoning.iter().filter(|thought| thought.spec == spec).map(|thought| thought.block.clone());
            let said = (!content.is_empty()).then(|| json!({"role": "assistant", "content": content}));
            let calls = tool_calls.iter().map(|call| {
                json!({"type": "function_call", "call_id": short(&call.id), "name": call.name,
                    "arguments": echoed(&call.arguments)})
            });
            own.chain(said).chain(calls).collect()
        }
    }
}

/// The id of a call, made shorter where another service's is too long.
fn short(id: &str) -> Cow<'_, str> {
    if id.chars().count() <= CALL_ID_CHARS_MAX {
        return id.into();
    }
    format!("call_{}", &Digest::of(id).hex()[..32]).into()
}

#[cfg(test)]
mod tests {
    use longhaul_core::{ToolCall, ToolSpec};

    use super::*;
    use crate::{AnswerSchema, Reasoning};

    #[test]
    fn a_request_is_written_as_the_protocol_says() {
        let call =
            |id: &str, arguments: &str| ToolCall { id: id.into(), name: "shell".into(), arguments: arguments.into() };
        let thought = |spec: &str| Reasoning { spec: spec.into(), block: json!({"type": "reasoning", "id": "rs_1"}) };
        let long = "x".repeat(65);
        let request = ChatRequest {
            system: "be brief".into(),
            messages: vec![
                Message::User { content: "列出文件".into() },
                Message::Assistant {
                    content: "so".into(),
                    tool_calls: vec![call("c1", r#"{"command": "ls"}"#), call(&long, "{\"command\":")],
                    reasoning: vec![thought("openai-responses:o9"), thought("anthropic:c")],
                },
                Message::Tool { call_id: "c1".into(), content: "a.txt".into() },
                Message::Tool { call_id: long.clone(), content: "not JSON".into() },
            ],
            tools: vec![ToolSpec {
                name: "shell".into(),
                description: "runs".into(),
                parameters: json!({"type": "object"}),
            }],
            answer_tokens_max: 500,
            answer_schema: Some(AnswerSchema { name: "list".into(), schema: json!({"type": "object"}) }),
        };
        let settings = OpenAiSettings { effort: Some("low".into()), ..OpenAiSettings::new("o9") };
        let short = short(&long).into_owned();
        assert!(short.len() <= 64 && short.starts_with("call_"), "{short}");
        assert_eq!(
            request_body(&settings, "openai-responses:o9", &request),
            json!({
                "model": "o9",
                "instructions": "be brief",
                "input": [
                    {"role": "user", "content": "列出文件"},
                    {"type": "reasoning", "id": "rs_1"},
                    {"role": "assistant", "content": "so"},
                    {"type": "function_call", "call_id": "c1", "name": "shell", "arguments": "{\"command\": \"ls\"}"},
                    {"type": "function_call", "call_id": short, "name": "shell",
                        "arguments": "{\"not_a_json_object\":\"{\\\"command\\\":\"}"},
                    {"type": "function_call_output", "call_id": "c1", "output": "a.txt"},
                    {"type": "function_call_output", "call_id": short, "output": "not JSON"},
                ],
                "tools": [{"type": "function", "name": "shell", "description": "runs",
                    "parameters": {"type": "object"}, "strict": false}],
                "max_output_tokens": 500,
                "store": false,
                "include": ["reasoning.encrypted_content"],
                "reasoning": {"effort": "low"},
                "text": {"format": {"type": "json_schema", "name": "list", "schema": {"type": "object"}, "strict": true}},
                "stream": true,
            })
        );
        let plain = request_body(&OpenAiSettings::new("gpt-4o"), "openai-responses:gpt-4o", &request);
        assert_eq!((plain.get("include"), plain.get("reasoning")), (None, None));
    }
}

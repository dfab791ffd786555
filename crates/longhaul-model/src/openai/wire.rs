//! The Chat Completions wire format: our request written out, and lenient shapes for what services send back.
//!
//! Unknown fields are ignored and absent ones tolerated, because compatible services differ; what a later part needs,
//! it checks itself. Source: the OpenAI API reference, "Chat Completions" and its streaming events.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::settings::{AnswerLimitField, OpenAiSettings};
use crate::{ChatRequest, Message, Usage, service::echoed_arguments};

/// The request's body.
pub(crate) fn request_body(settings: &OpenAiSettings, host: Option<&str>, request: &ChatRequest) -> Value {
    let mut body = Map::new();
    body.insert("model".into(), settings.model.clone().into());
    let system = system_prompt(settings, request);
    let system = (!system.is_empty()).then(|| json!({"role": "system", "content": system}));
    let messages: Vec<Value> = system.into_iter().chain(request.messages.iter().map(message)).collect();
    body.insert("messages".into(), messages.into());
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            json!({"type": "function", "function": {
                "name": tool.name, "description": tool.description, "parameters": tool.parameters,
            }})
        });
        body.insert("tools".into(), tools.collect());
    }
    if request.answer_tokens_max > 0 {
        let field = match settings.answer_limit_field {
            AnswerLimitField::ByHost if host == Some("api.openai.com") => "max_completion_tokens",
            AnswerLimitField::ByHost | AnswerLimitField::MaxTokens => "max_tokens",
            AnswerLimitField::MaxCompletionTokens => "max_completion_tokens",
        };
        body.insert(field.into(), request.answer_tokens_max.into());
    }
    if let Some(effort) = &settings.effort {
        body.insert("reasoning_effort".into(), effort.as_str().into());
    }
    if let Some(asked) = request.answer_schema.as_ref().filter(|_| settings.promises_schema) {
        let format = json!({"name": asked.name, "schema": asked.schema, "strict": true});
        body.insert("response_format".into(), json!({"type": "json_schema", "json_schema": format}));
    }
    if settings.stream {
        body.insert("stream".into(), true.into());
        if settings.stream_usage {
            body.insert("stream_options".into(), json!({"include_usage": true}));
        }
    }
    body.into()
}

/// The system prompt, with the answer's schema where the service does not promise to follow one.
fn system_prompt(settings: &OpenAiSettings, request: &ChatRequest) -> String {
    match &request.answer_schema {
        Some(asked) if !settings.promises_schema => {
            format!("{}\n\nAnswer with JSON alone, of this JSON Schema:\n{}", request.system, asked.schema)
                .trim_start()
                .to_owned()
        }
        Some(_) | None => request.system.clone(),
    }
}

fn message(message: &Message) -> Value {
    match message {
        Message::User { content } => json!({"role": "user", "content": content}),
        Message::Tool { call_id, content } => json!({"role": "tool", "tool_call_id": call_id, "content": content}),
        Message::Assistant { content, tool_calls, .. } if tool_calls.is_empty() => {
            json!({"role": "assistant", "content": content})
        }
        Message::Assistant { content, tool_calls, .. } => {
            let calls: Vec<Value> = tool_calls
                .iter()
                .map(|call| {
                    json!({"id": call.id, "type": "function", "function": {
                        "name": call.name, "arguments": echoed(&call.arguments),
                    }})
                })
                .collect();
            let content = if content.is_empty() { Value::Null } else { content.as_str().into() };
            json!({"role": "assistant", "content": content, "tool_calls": calls})
        }
    }
}

/// As [`echoed_arguments`], letter by letter where they are good.
pub(crate) fn echoed(arguments: &str) -> String {
    if serde_json::from_str::<Map<String, Value>>(arguments).is_ok() {
        return arguments.to_owned();
    }
    Value::Object(echoed_arguments(arguments)).to_string()
}

/// A chunk of a stream, or a whole completion: the two differ by `delta` and `message` only.
#[derive(Debug, Deserialize)]
pub(crate) struct Completion {
    pub(crate) choices: Option<Vec<Choice>>,
    pub(crate) usage: Option<WireUsage>,
    pub(crate) model: Option<String>,
    pub(crate) error: Option<Value>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Choice {
    pub(crate) index: Option<u64>,
    pub(crate) delta: Option<Part>,
    pub(crate) message: Option<Part>,
    pub(crate) finish_reason: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Part {
    pub(crate) content: Option<Value>,
    pub(crate) refusal: Option<String>,
    pub(crate) tool_calls: Option<Vec<CallPart>>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct CallPart {
    pub(crate) index: Option<u64>,
    pub(crate) id: Option<String>,
    pub(crate) function: Option<FunctionPart>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct FunctionPart {
    pub(crate) name: Option<String>,
    pub(crate) arguments: Option<Value>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct WireUsage {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    prompt_tokens_details: Option<PromptDetails>,
}

#[derive(Debug, Deserialize)]
struct PromptDetails {
    cached_tokens: Option<u64>,
}

impl WireUsage {
    /// Our counts, if the service gave both of the main ones.
    pub(crate) fn counts(&self) -> Option<Usage> {
        Some(Usage {
            prompt_tokens: self.prompt_tokens?,
            answer_tokens: self.completion_tokens?,
            cached_tokens: self.prompt_tokens_details.as_ref().and_then(|details| details.cached_tokens).unwrap_or(0),
            written_tokens: 0,
            estimated: false,
        })
    }
}

/// The text of a content field: a string, or a list of parts of which the text ones count.
pub(crate) fn text_of(content: &Value) -> String {
    if let Some(parts) = content.as_array() {
        return parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str)).collect();
    }
    content.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use longhaul_core::{ToolCall, ToolSpec};

    use super::*;

    fn request() -> ChatRequest {
        ChatRequest {
            system: "be brief".into(),
            messages: vec![
                Message::User { content: "列出文件".into() },
                Message::Assistant {
                    content: String::new(),
                    tool_calls: vec![
                        ToolCall { id: "c1".into(), name: "shell".into(), arguments: r#"{"command":"ls"}"#.into() },
                        ToolCall { id: "c2".into(), name: "shell".into(), arguments: "{\"command\":".into() },
                    ],
                    reasoning: vec![],
                },
                Message::Tool { call_id: "c1".into(), content: "a.txt".into() },
                Message::Tool { call_id: "c2".into(), content: "not JSON".into() },
                Message::said("done"),
            ],
            tools: vec![ToolSpec {
                name: "shell".into(),
                description: "runs".into(),
                parameters: json!({"type": "object"}),
            }],
            answer_tokens_max: 500,
            answer_schema: None,
        }
    }

    #[test]
    fn a_request_is_written_as_the_protocol_says() {
        let body = request_body(&OpenAiSettings::new("m"), Some("127.0.0.1"), &request());
        assert_eq!(
            body,
            json!({
                "model": "m",
                "messages": [
                    {"role": "system", "content": "be brief"},
                    {"role": "user", "content": "列出文件"},
                    {"role": "assistant", "content": null, "tool_calls": [
                        {"id": "c1", "type": "function", "function": {"name": "shell", "arguments": "{\"command\":\"ls\"}"}},
                        {"id": "c2", "type": "function", "function": {
                            "name": "shell", "arguments": "{\"not_a_json_object\":\"{\\\"command\\\":\"}"}},
                    ]},
                    {"role": "tool", "tool_call_id": "c1", "content": "a.txt"},
                    {"role": "tool", "tool_call_id": "c2", "content": "not JSON"},
                    {"role": "assistant", "content": "done"},
                ],
                "tools": [{"type": "function", "function": {
                    "name": "shell", "description": "runs", "parameters": {"type": "object"}}}],
                "max_tokens": 500,
                "stream": true,
                "stream_options": {"include_usage": true},
            })
        );
    }

    #[test]
    fn the_answer_limit_has_the_name_the_service_knows() {
        let body = |field, host| {
            let settings = OpenAiSettings { answer_limit_field: field, stream: false, ..OpenAiSettings::new("m") };
            request_body(&settings, Some(host), &request())
        };
        let openai = body(AnswerLimitField::ByHost, "api.openai.com");
        assert_eq!((openai.get("max_completion_tokens"), openai.get("max_tokens")), (Some(&500.into()), None));
        assert_eq!(openai.get("stream"), None);
        assert_eq!(body(AnswerLimitField::MaxTokens, "api.openai.com")["max_tokens"], 500);
        assert_eq!(body(AnswerLimitField::MaxCompletionTokens, "host")["max_completion_tokens"], 500);
    }
}

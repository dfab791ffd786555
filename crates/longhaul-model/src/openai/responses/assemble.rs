//! Builds one answer out of the events of OpenAI's Responses, or out of a whole response. No I/O.
//!
//! Texts are shown as they come; what counts is each item as it is when it is done, so that nothing depends on pieces
//! being joined rightly. Source: the OpenAI API reference, "Responses", "Streaming events".

use std::collections::BTreeMap;

use longhaul_core::ToolCall;
use serde_json::Value;

use crate::{
    Finish, Usage,
    service::{Answer, Assemble, PieceError, ServiceError},
};

/// More items than this in one answer is a service gone wrong.
const ITEMS_MAX: usize = 512;

/// An answer under way.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    items: BTreeMap<u64, Value>,
    /// The last word: the response as it is at its end.
    response: Option<Value>,
}

impl Assemble for Assembler {
    fn take(&mut self, json: &str) -> Result<String, PieceError> {
        if json.trim() == "[DONE]" {
            return Ok(String::new());
        }
        let mut event: Value = serde_json::from_str(json).map_err(|error| PieceError::Malformed(error.to_string()))?;
        if event.get("object").is_some_and(|object| object == "response") {
            let text = texts(items(&event));
            return self.end(event).map(|()| text);
        }
        let kind = event.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
        match kind.as_str() {
            "response.output_text.delta" | "response.refusal.delta" => {
                return Ok(event.get("delta").and_then(Value::as_str).unwrap_or_default().to_owned());
            }
            "response.output_item.done" => {
                let index = event.get("output_index").and_then(Value::as_u64).unwrap_or(self.items.len() as u64);
                let item = event.get_mut("item").map(Value::take);
                let item = item.ok_or_else(|| PieceError::Malformed("an item that is done is missing".to_owned()))?;
                if self.items.len() == ITEMS_MAX {
                    return Err(PieceError::Malformed(format!("more than {ITEMS_MAX} items in one answer")));
                }
                self.items.insert(index, item);
            }
            "response.completed" | "response.incomplete" | "response.failed" => {
                let response = event.get_mut("response").map(Value::take);
                let response = response.ok_or_else(|| PieceError::Malformed("its end has no response".to_owned()))?;
                self.end(response)?;
            }
            "error" => {
                let error = event.get("error").filter(|error| !error.is_null()).unwrap_or(&event);
                return Err(PieceError::Service(ServiceError::from_value(error)));
            }
            "" => {
                if let Some(error) = event.get("error").filter(|error| !error.is_null()) {
                    return Err(PieceError::Service(ServiceError::from_value(error)));
                }
            }
            // Beginnings, pieces of arguments, and whatever is added to the protocol later.
            _ => {}
        }
        Ok(String::new())
    }

    fn is_done(&self) -> bool {
        self.response.is_some()
    }

    fn is_complete(&self) -> bool {
        self.response.is_some()
    }

    fn into_answer(self) -> Answer {
        let response = self.response.unwrap_or_default();
        let whole: Vec<Value> = items(&response).to_vec();
        let items: Vec<Value> = if whole.is_empty() { self.items.into_values().collect() } else { whole };
        let text = |item: &Value, name: &str| item.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let of_type = |kind: &'static str| items.iter().filter(move |item| text(item, "type") == kind);
        let calls = of_type("function_call").map(|item| ToolCall {
            id: text(item, "call_id"),
            name: text(item, "name"),
            arguments: text(item, "arguments"),
        });
        let refuses = of_type("message").flat_map(parts).any(|part| text(part, "type") == "refusal");
        let finish = match response.pointer("/incomplete_details/reason").and_then(Value::as_str) {
            Some("max_output_tokens") => Some(Finish::Length),
            Some("content_filter") => Some(Finish::ContentFilter),
            _ if refuses => Some(Finish::ContentFilter),
            _ => None,
        };
        Answer {
            content: texts(&items),
            calls: calls.collect(),
            reasoning: of_type("reasoning").map(returned).collect(),
            usage: usage(&response),
            finish,
            model: response.get("model").and_then(Value::as_str).map(str::to_owned),
        }
    }
}

impl Assembler {
    fn end(&mut self, response: Value) -> Result<(), PieceError> {
        if let Some(error) = response.get("error").filter(|error| !error.is_null()) {
            return Err(PieceError::Service(ServiceError::from_value(error)));
        }
        self.response = Some(response);
        Ok(())
    }
}

fn items(response: &Value) -> &[Value] {
    response.get("output").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn parts(item: &Value) -> impl Iterator<Item = &Value> {
    item.get("content").and_then(Value::as_array).into_iter().flatten()
}

/// What the model said in all its messages.
fn texts(items: &[Value]) -> String {
    let messages = items.iter().filter(|item| item.get("type").is_some_and(|kind| kind == "message"));
    let said = messages.flat_map(parts).filter_map(|part| part.get("text").or_else(|| part.get("refusal"))?.as_str());
    said.collect()
}

/// Reasoning as it may go back: the service refuses the state that it gives out.
fn returned(item: &Value) -> Value {
    let mut item = item.clone();
    if let Some(fields) = item.as_object_mut() {
        fields.remove("status");
        fields.retain(|_, value| !value.is_null());
    }
    item
}

fn usage(response: &Value) -> Option<Usage> {
    let usage = response.get("usage")?;
    let count = |path: &str| usage.pointer(path).and_then(Value::as_u64);
    Some(Usage {
        prompt_tokens: count("/input_tokens")?,
        answer_tokens: count("/output_tokens")?,
        cached_tokens: count("/input_tokens_details/cached_tokens").unwrap_or(0),
        written_tokens: count("/input_tokens_details/cache_write_tokens").unwrap_or(0),
        estimated: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_response_and_an_error_event_are_failures_of_the_service() {
        for (event, code) in [
            (r#"{"type":"error","code":"server_error","message":"down","sequence_number":3}"#, "server_error"),
            (r#"{"type":"error","error":{"type":"rate_limit_exceeded","message":"down"}}"#, "rate_limit_exceeded"),
            (
                r#"{"type":"response.failed","response":{"object":"response","error":{"code":"server_error","message":"down"}}}"#,
                "server_error",
            ),
            (r#"{"error":{"code":"x","message":"down"}}"#, "x"),
        ] {
            let expected = ServiceError { message: "down".into(), code: code.into() };
            assert_eq!(Assembler::default().take(event), Err(PieceError::Service(expected)), "{event}");
        }
    }

    #[test]
    fn items_count_where_the_end_does_not_repeat_them_and_unknown_events_are_skipped() {
        let mut assembler = Assembler::default();
        for event in [
            r#"{"type":"response.created","response":{"object":"response","output":[]}}"#,
            r#"{"type":"response.something.new","x":1}"#,
            r#"{"type":"response.output_text.delta","delta":"hel"}"#,
            r#"{"type":"response.output_item.done","output_index":1,"item":{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}}"#,
            r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"message","content":[{"type":"output_text","text":"hello"}]}}"#,
        ] {
            assembler.take(event).unwrap();
        }
        assert!(!assembler.is_complete());
        assembler.take(r#"{"type":"response.completed","response":{"output":[],"usage":{"input_tokens":9,"output_tokens":4}}}"#).unwrap();
        assert!(assembler.is_done());
        let answer = assembler.into_answer();
        assert_eq!((answer.content.as_str(), answer.calls.len(), answer.finish), ("hello", 1, None));
        assert_eq!(answer.usage.map(|usage| (usage.prompt_tokens, usage.answer_tokens)), Some((9, 4)));
    }
}

//! Builds one answer out of the events of Anthropic's Messages, or out of a whole message. No I/O.
//!
//! Invariant: a thinking block is put together letter by letter and never looked into. Source: the Anthropic API
//! reference, "Streaming messages".

use std::collections::BTreeMap;

use longhaul_core::ToolCall;
use serde_json::{Value, json};

use crate::{
    Finish, Usage,
    service::{Answer, Assemble, PieceError, ServiceError},
};

/// More blocks than this in one answer is a service gone wrong.
const BLOCKS_MAX: usize = 512;

/// An answer under way.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    blocks: BTreeMap<u64, Block>,
    stop_reason: Option<String>,
    model: Option<String>,
    usage: Counts,
    begun: bool,
    done: bool,
}

/// A block of content: as it began, and the text that a tool's arguments have so far.
#[derive(Debug)]
struct Block {
    value: Value,
    arguments: String,
}

#[derive(Debug, Default)]
struct Counts {
    input: Option<u64>,
    read: u64,
    written: u64,
    output: Option<u64>,
}

impl Assemble for Assembler {
    fn take(&mut self, json: &str) -> Result<String, PieceError> {
        let event: Value = serde_json::from_str(json).map_err(|error| PieceError::Malformed(error.to_string()))?;
        match text(&event, "type") {
            "message_start" => self.begin(event.get("message").unwrap_or(&Value::Null)),
            "content_block_start" => {
                let block = event.get("content_block").cloned().unwrap_or_default();
                let shown =
                    if text(&block, "type") == "text" { text(&block, "text").to_owned() } else { String::new() };
                self.open(index(&event), block)?;
                return Ok(shown);
            }
            "content_block_delta" => {
                return self.grow(index(&event), event.get("delta").unwrap_or(&Value::Null));
            }
            "message_delta" => {
                let reason = event.pointer("/delta/stop_reason").and_then(Value::as_str);
                self.stop_reason = reason.map(str::to_owned).or(self.stop_reason.take());
                self.usage.take(event.get("usage"));
            }
            "message_stop" => self.done = true,
            "message" => return self.whole(event),
            "error" => {
                let error = event.get("error").unwrap_or(&event);
                return Err(PieceError::Service(ServiceError::from_value(error)));
            }
            // A heartbeat, the end of a block, and whatever is added to the protocol later.
            _ => {
                if let Some(error) = event.get("error").filter(|error| !error.is_null()) {
                    return Err(PieceError::Service(ServiceError::from_value(error)));
                }
            }
        }
        Ok(String::new())
    }

    fn is_done(&self) -> bool {
        self.done
    }

    fn is_complete(&self) -> bool {
        self.begun && (self.done || self.stop_reason.is_some())
    }

    fn into_answer(self) -> Answer {
        let mut answer = Answer { model: self.model, usage: self.usage.ours(), ..Answer::default() };
        answer.finish = match self.stop_reason.as_deref() {
            Some("max_tokens" | "model_context_window_exceeded") => Some(Finish::Length),
            Some("refusal") => Some(Finish::ContentFilter),
            _ => None,
        };
        for block in self.blocks.into_values() {
            match text(&block.value, "type") {
                "text" => answer.content.push_str(text(&block.value, "text")),
                "thinking" | "redacted_thinking" => answer.reasoning.push(block.value),
                "tool_use" => answer.calls.push(ToolCall {
                    id: text(&block.value, "id").to_owned(),
                    name: text(&block.value, "name").to_owned(),
                    arguments: block.written_arguments(),
                }),
                // Tools that the service runs itself are not asked for.
                _ => {}
            }
        }
        answer
    }
}

impl Assembler {
    fn begin(&mut self, message: &Value) {
        self.begun = true;
        self.model = message.get("model").and_then(Value::as_str).map(str::to_owned);
        self.usage.take(message.get("usage"));
    }

    fn open(&mut self, index: u64, value: Value) -> Result<(), PieceError> {
        if self.blocks.len() == BLOCKS_MAX {
            return Err(PieceError::Malformed(format!("more than {BLOCKS_MAX} blocks in one answer")));
        }
        if !value.is_object() {
            return Err(PieceError::Malformed("a block that is no object".to_owned()));
        }
        self.blocks.insert(index, Block { value, arguments: String::new() });
        Ok(())
    }

    /// Adds a piece to a block and gives the text to be shown.
    fn grow(&mut self, index: u64, delta: &Value) -> Result<String, PieceError> {
        let Some(block) = self.blocks.get_mut(&index) else {
            return Err(PieceError::Malformed(format!("a piece of block {index}, which has not begun")));
        };
        match text(delta, "type") {
            "text_delta" => {
                block.append("text", text(delta, "text"));
                return Ok(text(delta, "text").to_owned());
            }
            "thinking_delta" => block.append("thinking", text(delta, "thinking")),
            "signature_delta" => block.append("signature", text(delta, "signature")),
            "input_json_delta" => block.arguments.push_str(text(delta, "partial_json")),
            _ => {}
        }
        Ok(String::new())
    }

    fn whole(&mut self, mut message: Value) -> Result<String, PieceError> {
        self.begin(&message);
        self.stop_reason = message.get("stop_reason").and_then(Value::as_str).map(str::to_owned);
        let blocks = message.get_mut("content").map(Value::take);
        let Some(Value::Array(blocks)) = blocks else {
            return Err(PieceError::Malformed("a message without content".to_owned()));
        };
        let said = blocks.iter().filter(|block| text(block, "type") == "text").map(|block| text(block, "text"));
        let said: String = said.collect();
        for (index, block) in blocks.into_iter().enumerate() {
            self.open(index as u64, block)?;
        }
        self.done = true;
        Ok(said)
    }
}

impl Block {
    fn append(&mut self, field: &str, piece: &str) {
        let whole = format!("{}{piece}", text(&self.value, field));
        self.value[field] = json!(whole);
    }

    /// The arguments as the model wrote them; a whole message has them as an object.
    fn written_arguments(&self) -> String {
        if !self.arguments.is_empty() {
            return self.arguments.clone();
        }
        self.value.get("input").map_or_else(|| "{}".to_owned(), Value::to_string)
    }
}

impl Counts {
    fn take(&mut self, usage: Option<&Value>) {
        let count = |name: &str| usage.and_then(|usage| usage.get(name)).and_then(Value::as_u64);
        self.input = count("input_tokens").or(self.input);
        self.output = count("output_tokens").or(self.output);
        self.read = count("cache_read_input_tokens").unwrap_or(self.read);
        self.written = count("cache_creation_input_tokens").unwrap_or(self.written);
    }

    /// Our counts, of which the prompt's include what was cached; theirs do not.
    fn ours(&self) -> Option<Usage> {
        Some(Usage {
            prompt_tokens: self.input? + self.read + self.written,
            answer_tokens: self.output?,
            cached_tokens: self.read,
            written_tokens: self.written,
            estimated: false,
        })
    }
}

fn text<'a>(json: &'a Value, name: &str) -> &'a str {
    json.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn index(event: &Value) -> u64 {
    event.get("index").and_then(Value::as_u64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assembled(events: &[&str]) -> Answer {
        let mut assembler = Assembler::default();
        for event in events {
            assembler.take(event).unwrap();
        }
        assert!(assembler.is_complete());
        assembler.into_answer()
    }

    #[test]
    fn a_stream_and_a_whole_message_are_the_same_answer() {
        let streamed = assembled(&[
            r#"{"type":"message_start","message":{"model":"c-1","usage":{"input_tokens":3,"cache_read_input_tokens":10,"cache_creation_input_tokens":4,"output_tokens":1}}}"#,
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#,
            r#"{"type":"ping"}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":" so\n"}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"是 \ud83d\ude00"}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"Ab+/="}}"#,
            r#"{"type":"content_block_stop","index":0}"#,
            r#"{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"xyz"}}"#,
            r#"{"type":"content_block_start","index":2,"content_block":{"type":"text","text":""}}"#,
            r#"{"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"hel"}}"#,
            r#"{"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"lo"}}"#,
            r#"{"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"t1","name":"f","input":{}}}"#,
            r#"{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":""}}"#,
            r#"{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"{\"x\":"}}"#,
            r#"{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"1}"}}"#,
            r#"{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":20}}"#,
            r#"{"type":"message_stop"}"#,
        ]);
        let whole = assembled(&[
            r#"{"type":"message","model":"c-1","content":[{"type":"thinking","thinking":" so\n是 😀","signature":"Ab+/="},{"type":"redacted_thinking","data":"xyz"},{"type":"text","text":"hello"},{"type":"tool_use","id":"t1","name":"f","input":{"x":1}}],"stop_reason":"tool_use","usage":{"input_tokens":3,"cache_read_input_tokens":10,"cache_creation_input_tokens":4,"output_tokens":20}}"#,
        ]);
        for answer in [&streamed, &whole] {
            assert_eq!((answer.content.as_str(), answer.finish), ("hello", None));
            assert_eq!(
                answer.reasoning,
                [
                    json!({"type": "thinking", "thinking": " so\n是 😀", "signature": "Ab+/="}),
                    json!({"type": "redacted_thinking", "data": "xyz"}),
                ]
            );
            assert_eq!(answer.calls, [ToolCall { id: "t1".into(), name: "f".into(), arguments: r#"{"x":1}"#.into() }]);
            let usage = answer.usage.unwrap();
            assert_eq!(
                (usage.prompt_tokens, usage.cached_tokens, usage.written_tokens, usage.answer_tokens),
                (17, 10, 4, 20)
            );
        }
    }

    #[test]
    fn errors_and_pieces_of_nothing_are_no_answer() {
        let mut assembler = Assembler::default();
        assert_eq!(
            assembler.take(r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#),
            Err(PieceError::Service(ServiceError { message: "Overloaded".into(), code: "overloaded_error".into() }))
        );
        let stray = r#"{"type":"content_block_delta","index":7,"delta":{"type":"text_delta","text":"x"}}"#;
        assert!(matches!(assembler.take(stray), Err(PieceError::Malformed(_))));
        assert!(!assembler.is_complete());
        let open =
            |index| format!(r#"{{"type":"content_block_start","index":{index},"content_block":{{"type":"text"}}}}"#);
        assert!((0..1_000).find_map(|index| assembler.take(&open(index)).err()).is_some());
    }
}

//! Builds one answer out of the pieces of a stream, or out of a whole completion. No I/O.
//!
//! Invariant: an answer is given out only when the service said that it is complete.

use longhaul_core::ToolCall;
use serde_json::Value;

use super::wire::{CallPart, Completion, Part, text_of};
use crate::{
    Finish, Usage,
    service::{Answer, Assemble, PieceError, ServiceError},
};

/// More tool calls than this in one answer is a service gone wrong.
const CALLS_MAX: usize = 256;

/// An answer under way.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    content: String,
    calls: Vec<(Option<u64>, ToolCall)>,
    finish_reason: Option<String>,
    usage: Option<Usage>,
    model: Option<String>,
    choices_seen: bool,
    done: bool,
}

impl Assemble for Assembler {
    fn take(&mut self, json: &str) -> Result<String, PieceError> {
        if json.trim() == "[DONE]" {
            self.done = true;
            return Ok(String::new());
        }
        let piece: Completion = serde_json::from_str(json).map_err(|error| PieceError::Malformed(error.to_string()))?;
        if let Some(error) = piece.error.filter(|error| !error.is_null()) {
            return Err(PieceError::Service(ServiceError::from_value(&error)));
        }
        if let Some(model) = piece.model.filter(|model| !model.is_empty()) {
            self.model = Some(model);
        }
        if let Some(usage) = piece.usage.and_then(|usage| usage.counts()) {
            self.usage = Some(usage);
        }
        let mut added = String::new();
        // We ask for one choice; a service that sends more is read as if it had not.
        let first = piece.choices.unwrap_or_default().into_iter().filter(|choice| choice.index.unwrap_or(0) == 0);
        for choice in first {
            self.choices_seen = true;
            self.finish_reason = choice.finish_reason.or(self.finish_reason.take());
            for part in [choice.delta, choice.message].into_iter().flatten() {
                added.push_str(&self.take_part(part)?);
            }
        }
        Ok(added)
    }

    fn is_done(&self) -> bool {
        self.done
    }

    fn is_complete(&self) -> bool {
        self.choices_seen && (self.done || self.finish_reason.is_some())
    }

    fn into_answer(self) -> Answer {
        let calls: Vec<ToolCall> = self.calls.into_iter().map(|(_, call)| call).collect();
        Answer {
            finish: Some(finish(self.finish_reason.as_deref(), !calls.is_empty())),
            content: self.content,
            calls,
            reasoning: Vec::new(),
            usage: self.usage,
            model: self.model,
        }
    }
}

impl Assembler {
    fn take_part(&mut self, part: Part) -> Result<String, PieceError> {
        let mut text = part.content.as_ref().map(text_of).unwrap_or_default();
        text.push_str(part.refusal.as_deref().unwrap_or_default());
        self.content.push_str(&text);
        for call in part.tool_calls.unwrap_or_default() {
            self.take_call(call)?;
        }
        Ok(text)
    }

    /// Joins a call's piece to its call: by index, and where services leave that out or reuse it, by id.
    fn take_call(&mut self, piece: CallPart) -> Result<(), PieceError> {
        let id = piece.id.unwrap_or_default();
        let is_same = |call: &ToolCall| id.is_empty() || call.id.is_empty() || call.id == id;
        let known = match piece.index {
            Some(index) => self.calls.iter().rposition(|(at, call)| *at == Some(index) && is_same(call)),
            None if id.is_empty() => self.calls.len().checked_sub(1),
            None => self.calls.iter().rposition(|(_, call)| call.id == id),
        };
        let position = match known {
            Some(position) => position,
            None if self.calls.len() == CALLS_MAX => {
                return Err(PieceError::Malformed(format!("more than {CALLS_MAX} tool calls in one answer")));
            }
            None => {
                let call = ToolCall { id: String::new(), name: String::new(), arguments: String::new() };
                self.calls.push((piece.index, call));
                self.calls.len() - 1
            }
        };
        let call = &mut self.calls[position].1;
        if call.id.is_empty() {
            call.id = id;
        }
        if let Some(function) = piece.function {
            let name = function.name.unwrap_or_default();
            // Some services repeat the whole name in each piece, none sends it in pieces that repeat it.
            if call.name != name {
                call.name.push_str(&name);
            }
            match function.arguments {
                Some(Value::String(text)) => call.arguments.push_str(&text),
                Some(value) if !value.is_null() => call.arguments.push_str(&value.to_string()),
                Some(_) | None => {}
            }
        }
        Ok(())
    }
}

fn finish(reason: Option<&str>, has_calls: bool) -> Finish {
    match reason {
        Some("length" | "max_tokens" | "model_length") => Finish::Length,
        Some("content_filter") => Finish::ContentFilter,
        // Some services say "stop" with tool calls and others invent their own words for a normal end.
        _ if has_calls => Finish::ToolCalls,
        _ => Finish::Stop,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assembled(pieces: &[&str]) -> Answer {
        let mut assembler = Assembler::default();
        for piece in pieces {
            assembler.take(piece).unwrap();
        }
        assert!(assembler.is_complete());
        assembler.into_answer()
    }

    fn calls(response: &Answer) -> Vec<(&str, &str, &str)> {
        response.calls.iter().map(|c| (c.id.as_str(), c.name.as_str(), c.arguments.as_str())).collect()
    }

    #[test]
    fn interleaved_calls_are_joined_by_index() {
        let response = assembled(&[
            r#"{"model":"m-2026","choices":[{"index":0,"delta":{"role":"assistant","content":"I "}}]}"#,
            r#"{"choices":[{"index":0,"delta":{"content":"will"}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"one","arguments":""}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":1,"id":"b","function":{"name":"two","arguments":"{\"y\""}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"x\":"}},{"index":1,"function":{"arguments":":2}"}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\"안녕\"}"}}]}}]}"#,
            r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#,
            r#"{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":3}}}"#,
            "[DONE]",
        ]);
        assert_eq!(response.content, "I will");
        assert_eq!(calls(&response), [("a", "one", r#"{"x":"안녕"}"#), ("b", "two", r#"{"y":2}"#)]);
        assert_eq!(response.finish, Some(Finish::ToolCalls));
        assert_eq!(response.model.as_deref(), Some("m-2026"));
        assert_eq!(
            response.usage.unwrap(),
            Usage { prompt_tokens: 9, answer_tokens: 4, cached_tokens: 3, written_tokens: 0, estimated: false }
        );
    }

    #[test]
    fn services_that_leave_out_or_reuse_indexes_and_ids_are_understood() {
        // No index, whole calls (seen with Gemini's compatible endpoint); arguments as an object; no id; no arguments.
        let response = assembled(&[
            r#"{"choices":[{"delta":{"tool_calls":[{"id":"a","function":{"name":"one","arguments":{"x":1}}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"id":"b","function":{"name":"two","arguments":"{\"y\":"}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"2}"}}]},"finish_reason":"stop"}]}"#,
        ]);
        assert_eq!(calls(&response), [("a", "one", r#"{"x":1}"#), ("b", "two", r#"{"y":2}"#)]);
        assert_eq!(response.finish, Some(Finish::ToolCalls));
        // One index for two calls.
        let response = assembled(&[
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"one","arguments":"{}"}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"b","function":{"name":"two"}}]},"finish_reason":"tool_calls"}]}"#,
        ]);
        assert_eq!(calls(&response), [("a", "one", "{}"), ("b", "two", "")]);
        // No id at all, in a whole completion with parts for content.
        let response = assembled(&[
            r#"{"choices":[{"message":{"content":[{"type":"text","text":"hi"}],"tool_calls":[{"function":{"name":"one"}}]},"finish_reason":"tool_calls"}]}"#,
        ]);
        assert_eq!((response.content.as_str(), calls(&response)), ("hi", vec![("", "one", "")]));
    }

    #[test]
    fn finish_reasons_are_mapped() {
        assert_eq!(finish(Some("stop"), false), Finish::Stop);
        assert_eq!(finish(Some("stop"), true), Finish::ToolCalls);
        assert_eq!(finish(Some("tool_calls"), true), Finish::ToolCalls);
        assert_eq!(finish(Some("length"), true), Finish::Length);
        assert_eq!(finish(Some("content_filter"), false), Finish::ContentFilter);
        assert_eq!(finish(Some("eos"), false), Finish::Stop);
    }

    #[test]
    fn errors_and_floods_are_told_apart_from_answers() {
        let mut assembler = Assembler::default();
        assert!(matches!(assembler.take("{nonsense"), Err(PieceError::Malformed(_))));
        assert_eq!(
            assembler.take(r#"{"error":{"message":"overloaded","type":"server_error"}}"#),
            Err(PieceError::Service(ServiceError { message: "overloaded".into(), code: "server_error".into() }))
        );
        let flood =
            |index| format!(r#"{{"choices":[{{"delta":{{"tool_calls":[{{"index":{index},"id":"i{index}"}}]}}}}]}}"#);
        let refused = (0..1_000).find_map(|index| assembler.take(&flood(index)).err());
        assert!(matches!(refused, Some(PieceError::Malformed(_))));
        assert!(!assembler.is_complete());
    }
}

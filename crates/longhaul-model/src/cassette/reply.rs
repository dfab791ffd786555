//! An entry written as the service writes an answer: one completion object, or the chunks of a stream. No I/O.
//!
//! Source: the OpenAI API reference, "Chat Completions" and its streaming events. Text comes in several pieces and so
//! do a call's arguments, so that a client which cannot join them does not pass.

use serde_json::{Value, json};

use super::{
    conversation::Conversation,
    file::{Call, Entry},
};
use crate::{Finish, estimate_tokens};

/// Pieces are at least this long, and a long text has about [`PIECES`] of them.
const PIECE_CHARS_MIN: usize = 8;
const PIECES: usize = 48;

/// The whole answer as one object.
pub(crate) fn completion(entry: &Entry, asked: &Conversation, created_s: i64) -> Value {
    let content = if entry.reply.is_empty() { Value::Null } else { entry.reply.as_str().into() };
    let mut message = json!({"role": "assistant", "content": content, "refusal": null});
    if !entry.calls.is_empty() {
        let calls = entry.calls.iter().enumerate().map(|(index, call)| {
            json!({"id": call_id(entry, index), "type": "function",
                "function": {"name": call.tool, "arguments": call.arguments}})
        });
        message["tool_calls"] = calls.collect();
    }
    let mut completion = envelope(entry, asked, created_s, "chat.completion");
    completion["choices"] =
        json!([{"index": 0, "message": message, "logprobs": null, "finish_reason": finish(entry.finish)}]);
    completion["usage"] = usage(entry, asked);
    completion
}

/// The `data` of each event of the stream, `[DONE]` included.
pub(crate) fn stream(entry: &Entry, asked: &Conversation, created_s: i64) -> Vec<String> {
    let chunk = |delta: Value, finish: Option<&str>| {
        let mut chunk = envelope(entry, asked, created_s, "chat.completion.chunk");
        chunk["choices"] = json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}]);
        if asked.stream_usage {
            chunk["usage"] = Value::Null;
        }
        chunk.to_string()
    };
    let content = if entry.reply.is_empty() { Value::Null } else { "".into() };
    let mut events = vec![chunk(json!({"role": "assistant", "content": content, "refusal": null}), None)];
    events.extend(pieces(&entry.reply).into_iter().map(|piece| chunk(json!({"content": piece}), None)));
    for (index, call) in entry.calls.iter().enumerate() {
        events.extend(call_deltas(entry, index, call).into_iter().map(|delta| chunk(delta, None)));
    }
    events.push(chunk(json!({}), Some(finish(entry.finish))));
    if asked.stream_usage {
        let mut last = envelope(entry, asked, created_s, "chat.completion.chunk");
        last["choices"] = json!([]);
        last["usage"] = usage(entry, asked);
        events.push(last.to_string());
    }
    events.push("[DONE]".to_owned());
    events
}

fn call_deltas(entry: &Entry, index: usize, call: &Call) -> Vec<Value> {
    let opening = json!({"tool_calls": [{"index": index, "id": call_id(entry, index), "type": "function",
        "function": {"name": call.tool, "arguments": ""}}]});
    let rest = pieces(&call.arguments)
        .into_iter()
        .map(|piece| json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}));
    std::iter::once(opening).chain(rest).collect()
}

fn envelope(entry: &Entry, asked: &Conversation, created_s: i64, object: &str) -> Value {
    json!({
        "id": format!("chatcmpl-{}", entry.id),
        "object": object,
        "created": created_s,
        "model": asked.model,
        "system_fingerprint": "cassette",
    })
}

/// Stable, since a replayed conversation must be the same to the byte; unique within a conversation by the entry's id.
fn call_id(entry: &Entry, index: usize) -> String {
    format!("call_{}_{index}", entry.id)
}

fn usage(entry: &Entry, asked: &Conversation) -> Value {
    let calls = entry.calls.iter().map(|call| 8 + estimate_tokens(&call.tool) + estimate_tokens(&call.arguments));
    let answer = estimate_tokens(&entry.reply) + calls.sum::<u64>();
    json!({
        "prompt_tokens": asked.prompt_tokens,
        "completion_tokens": answer,
        "total_tokens": asked.prompt_tokens + answer,
        "prompt_tokens_details": {"cached_tokens": 0},
    })
}

fn finish(finish: Finish) -> &'static str {
    match finish {
        Finish::Stop => "stop",
        Finish::ToolCalls => "tool_calls",
        Finish::Length => "length",
        Finish::ContentFilter => "content_filter",
    }
}

fn pieces(text: &str) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    let piece_chars = characters.len().div_ceil(PIECES).max(PIECE_CHARS_MIN.min(characters.len().div_ceil(2))).max(1);
    characters.chunks(piece_chars).map(|piece| piece.iter().collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_several_and_join_to_the_text() {
        for text in ["", "a", "ab", "你好，世界", &"a long text 长 ".repeat(1_000)] {
            let pieces = pieces(text);
            assert_eq!(pieces.concat(), text);
            assert!(pieces.len() <= PIECES && (text.chars().count() < 2 || pieces.len() > 1), "{}", pieces.len());
        }
    }
}

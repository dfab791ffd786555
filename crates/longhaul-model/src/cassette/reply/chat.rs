//! An entry written as OpenAI's Chat Completions write an answer: one completion object, or the chunks of a stream.
//!
//! Source: the OpenAI API reference, "Chat Completions" and its streaming events.

use serde_json::{Value, json};

use super::{
    super::{
        conversation::Conversation,
        file::{Call, Entry},
    },
    answer_tokens, call_id, pieces,
};
use crate::Finish;

/// The whole answer as one object.
pub(crate) fn completion(entry: &Entry, asked: &Conversation, created_s: i64) -> Value {
    let content = if entry.reply.is_empty() { Value::Null } else { entry.reply.as_str().into() };
    let mut message = json!({"role": "assistant", "content": content, "refusal": null});
    if !entry.calls.is_empty() {
        let calls = entry.calls.iter().enumerate().map(|(index, call)| {
            json!({"id": call_id("call", entry, index), "type": "function",
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

/// Each event of the stream, `[DONE]` included.
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
    events.into_iter().map(|data| format!("data: {data}\n\n")).collect()
}

fn call_deltas(entry: &Entry, index: usize, call: &Call) -> Vec<Value> {
    let opening = json!({"tool_calls": [{"index": index, "id": call_id("call", entry, index), "type": "function",
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

fn usage(entry: &Entry, asked: &Conversation) -> Value {
    let answer = answer_tokens(entry, false);
    json!({
        "prompt_tokens": asked.prompt_tokens(),
        "completion_tokens": answer,
        "total_tokens": asked.prompt_tokens() + answer,
        "prompt_tokens_details": {"cached_tokens": asked.cached_tokens},
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

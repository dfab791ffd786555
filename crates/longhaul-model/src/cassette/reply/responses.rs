//! An entry written as OpenAI's Responses write an answer: one response object, or the events of a stream.
//!
//! Source: the OpenAI API reference, "Responses" and "Streaming events".

use serde_json::{Value, json};

use super::{
    super::{conversation::Conversation, file::Entry},
    answer_tokens, call_id, pieces, signature,
};
use crate::{Finish, estimate_tokens};

/// The whole answer as one object.
pub(crate) fn response(entry: &Entry, asked: &Conversation, created_s: i64) -> Value {
    let mut response = envelope(entry, asked, created_s);
    response["status"] = status(entry.finish).into();
    response["incomplete_details"] = match entry.finish {
        Finish::Length => json!({"reason": "max_output_tokens"}),
        Finish::ContentFilter => json!({"reason": "content_filter"}),
        Finish::Stop | Finish::ToolCalls => Value::Null,
    };
    response["output"] = items(entry, asked).into_iter().map(|item| item.whole).collect();
    response["usage"] = usage(entry, asked);
    response
}

/// The events of the stream, each with its name and number.
pub(crate) fn stream(entry: &Entry, asked: &Conversation, created_s: i64) -> Vec<String> {
    let opening = envelope(entry, asked, created_s);
    let mut events = vec![
        json!({"type": "response.created", "response": opening}),
        json!({"type": "response.in_progress", "response": opening}),
    ];
    for (index, item) in items(entry, asked).into_iter().enumerate() {
        events.push(json!({"type": "response.output_item.added", "output_index": index, "item": item.opening}));
        events.extend(item.events.into_iter().map(|mut event| {
            event["output_index"] = index.into();
            event["item_id"] = item.whole["id"].clone();
            event
        }));
        events.push(json!({"type": "response.output_item.done", "output_index": index, "item": item.whole}));
    }
    let whole = response(entry, asked, created_s);
    events.push(json!({"type": format!("response.{}", status(entry.finish)), "response": whole}));
    let numbered = events.into_iter().enumerate().map(|(number, mut event)| {
        event["sequence_number"] = number.into();
        let name = event["type"].as_str().unwrap_or_default();
        format!("event: {name}\ndata: {event}\n\n")
    });
    numbered.collect()
}

/// Whether this is the entry's reasoning as it was given out.
pub(crate) fn is_reasoning_of(entry: &Entry, item: &Value) -> bool {
    let sealed = item.get("encrypted_content").and_then(Value::as_str);
    item.get("id").and_then(Value::as_str) == Some(&reasoning_id(entry))
        && sealed.is_none_or(|sealed| sealed == signature(entry.reasoning.as_deref().unwrap_or_default()))
}

fn reasoning_id(entry: &Entry) -> String {
    call_id("rs", entry, 0)
}

/// One item of the output: whole, as it begins, and the events between.
struct Item {
    whole: Value,
    opening: Value,
    events: Vec<Value>,
}

fn items(entry: &Entry, asked: &Conversation) -> Vec<Item> {
    let reasoning = entry.reasoning.as_deref().map(|text| reasoning(entry, asked, text));
    let message = (!entry.reply.is_empty()).then(|| message(entry));
    let calls = entry.calls.iter().enumerate().map(|(index, call)| {
        let whole = json!({
            "type": "function_call", "id": call_id("fc", entry, index), "call_id": call_id("call", entry, index),
            "name": call.tool, "arguments": call.arguments, "status": "completed",
        });
        let mut events: Vec<Value> = pieces(&call.arguments)
            .into_iter()
            .map(|piece| json!({"type": "response.function_call_arguments.delta", "delta": piece}))
            .collect();
        events.push(json!({
            "type": "response.function_call_arguments.done", "name": call.tool, "arguments": call.arguments,
        }));
        Item { opening: with(&whole, "arguments", "".into()), whole, events }
    });
    reasoning.into_iter().chain(message).chain(calls).collect()
}

fn reasoning(entry: &Entry, asked: &Conversation, text: &str) -> Item {
    let told = asked.reasoning_told && !entry.reasoning_hidden;
    let summary = if told { json!([{"type": "summary_text", "text": text}]) } else { json!([]) };
    let mut whole = json!({"type": "reasoning", "id": reasoning_id(entry), "summary": summary});
    if asked.reasoning_sealed {
        whole["encrypted_content"] = signature(text).into();
    }
    let mut events = Vec::new();
    if told {
        let part = |text: &str| json!({"type": "summary_text", "text": text});
        events.push(json!({"type": "response.reasoning_summary_part.added", "summary_index": 0, "part": part("")}));
        events.extend(
            pieces(text).into_iter().map(
                |piece| json!({"type": "response.reasoning_summary_text.delta", "summary_index": 0, "delta": piece}),
            ),
        );
        events.push(json!({"type": "response.reasoning_summary_text.done", "summary_index": 0, "text": text}));
        events.push(json!({"type": "response.reasoning_summary_part.done", "summary_index": 0, "part": part(text)}));
    }
    Item { opening: with(&whole, "summary", json!([])), whole, events }
}

fn message(entry: &Entry) -> Item {
    let refuses = entry.finish == Finish::ContentFilter;
    let part = |text: &str| {
        if refuses {
            json!({"type": "refusal", "refusal": text})
        } else {
            json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
        }
    };
    let (kind, field) = if refuses { ("refusal", "refusal") } else { ("output_text", "text") };
    let whole = json!({
        "type": "message", "id": call_id("msg", entry, 0), "role": "assistant", "status": "completed",
        "content": [part(&entry.reply)],
    });
    let mut events = vec![json!({"type": "response.content_part.added", "content_index": 0, "part": part("")})];
    events.extend(pieces(&entry.reply).into_iter().map(
        |piece| json!({"type": format!("response.{kind}.delta"), "content_index": 0, "delta": piece, "logprobs": []}),
    ));
    let mut done = json!({"type": format!("response.{kind}.done"), "content_index": 0, "logprobs": []});
    done[field] = entry.reply.as_str().into();
    events.push(done);
    events.push(json!({"type": "response.content_part.done", "content_index": 0, "part": part(&entry.reply)}));
    Item { opening: with(&whole, "content", json!([])), whole, events }
}

/// An item as it begins: in progress, one field still empty.
fn with(whole: &Value, field: &str, empty: Value) -> Value {
    let mut opening = whole.clone();
    opening[field] = empty;
    if opening.get("status").is_some() {
        opening["status"] = "in_progress".into();
    }
    opening
}

fn envelope(entry: &Entry, asked: &Conversation, created_s: i64) -> Value {
    json!({
        "id": call_id("resp", entry, asked.turn),
        "object": "response",
        "created_at": created_s,
        "status": "in_progress",
        "error": null,
        "incomplete_details": null,
        "instructions": null,
        "max_output_tokens": null,
        "metadata": {},
        "model": asked.model,
        "output": [],
        "parallel_tool_calls": true,
        "previous_response_id": null,
        "reasoning": {"effort": null, "summary": null},
        "store": false,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": null,
        "user": null,
    })
}

fn usage(entry: &Entry, asked: &Conversation) -> Value {
    let answer = answer_tokens(entry, true);
    let reasoning = estimate_tokens(entry.reasoning.as_deref().unwrap_or_default());
    json!({
        "input_tokens": asked.prompt_tokens(),
        "input_tokens_details": {"cached_tokens": asked.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": answer,
        "output_tokens_details": {"reasoning_tokens": reasoning},
        "total_tokens": asked.prompt_tokens() + answer,
    })
}

fn status(finish: Finish) -> &'static str {
    match finish {
        Finish::Stop | Finish::ToolCalls => "completed",
        Finish::Length | Finish::ContentFilter => "incomplete",
    }
}

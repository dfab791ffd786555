//! An entry written as Anthropic's Messages write an answer: one message object, or the events of a stream.
//!
//! Source: the Anthropic API reference, "Messages" and "Streaming messages". A tool's arguments that are no JSON object
//! exist in a stream only, where they are text; in a whole answer they stand in an object of one field.

use serde_json::{Map, Value, json};

use super::{
    super::{conversation::Conversation, file::Entry},
    answer_tokens, call_id, pieces, signature,
};
use crate::Finish;

/// The whole answer as one object.
pub(crate) fn message(entry: &Entry, asked: &Conversation) -> Value {
    let mut message = envelope(entry, asked);
    message["content"] = blocks(entry, asked).into_iter().map(|block| block.whole).collect();
    message["stop_reason"] = stop_reason(entry.finish).into();
    message["usage"] = usage(asked, answer_tokens(entry, asked.thinks));
    message
}

/// The events of the stream, each with its name.
pub(crate) fn stream(entry: &Entry, asked: &Conversation) -> Vec<String> {
    let event = |data: Value| {
        let name = data.get("type").and_then(Value::as_str).unwrap_or_default();
        format!("event: {name}\ndata: {data}\n\n")
    };
    let mut opening = envelope(entry, asked);
    opening["usage"] = usage(asked, 1);
    let mut events = vec![event(json!({"type": "message_start", "message": opening}))];
    for (index, block) in blocks(entry, asked).into_iter().enumerate() {
        events.push(event(json!({"type": "content_block_start", "index": index, "content_block": block.opening})));
        if index == 0 {
            events.push(event(json!({"type": "ping"})));
        }
        let deltas = block.deltas.into_iter();
        events
            .extend(deltas.map(|delta| event(json!({"type": "content_block_delta", "index": index, "delta": delta}))));
        events.push(event(json!({"type": "content_block_stop", "index": index})));
    }
    events.push(event(json!({
        "type": "message_delta",
        "delta": {"stop_reason": stop_reason(entry.finish), "stop_sequence": null},
        "usage": usage(asked, answer_tokens(entry, asked.thinks)),
    })));
    events.push(event(json!({"type": "message_stop"})));
    events
}

/// The entry's reasoning as the block that has to come back unchanged.
pub(crate) fn reasoning_block(entry: &Entry) -> Option<Value> {
    let reasoning = entry.reasoning.as_deref()?;
    Some(if entry.reasoning_hidden {
        json!({"type": "redacted_thinking", "data": signature(reasoning)})
    } else {
        json!({"type": "thinking", "thinking": reasoning, "signature": signature(reasoning)})
    })
}

/// The answer to a request to count tokens.
pub(crate) fn count(asked: &Conversation) -> Value {
    json!({"input_tokens": asked.prompt_tokens()})
}

/// One block of content: whole, and as the pieces that a stream sends.
struct Block {
    whole: Value,
    opening: Value,
    deltas: Vec<Value>,
}

fn blocks(entry: &Entry, asked: &Conversation) -> Vec<Block> {
    let reasoning = reasoning_block(entry).filter(|_| asked.thinks).map(|whole| reasoning_pieces(entry, whole));
    let text = (!entry.reply.is_empty()).then(|| Block {
        whole: json!({"type": "text", "text": entry.reply}),
        opening: json!({"type": "text", "text": ""}),
        deltas: pieces(&entry.reply).into_iter().map(|text| json!({"type": "text_delta", "text": text})).collect(),
    });
    let calls = entry.calls.iter().enumerate().map(|(index, call)| {
        let id = call_id("toolu", entry, index);
        let input = serde_json::from_str::<Map<String, Value>>(&call.arguments)
            .map_or_else(|_| json!({"not_a_json_object": call.arguments}), Value::Object);
        let json_pieces = std::iter::once(String::new()).chain(pieces(&call.arguments));
        Block {
            whole: json!({"type": "tool_use", "id": id, "name": call.tool, "input": input}),
            opening: json!({"type": "tool_use", "id": id, "name": call.tool, "input": {}}),
            deltas: json_pieces.map(|piece| json!({"type": "input_json_delta", "partial_json": piece})).collect(),
        }
    });
    reasoning.into_iter().chain(text).chain(calls).collect()
}

fn reasoning_pieces(entry: &Entry, whole: Value) -> Block {
    if entry.reasoning_hidden {
        return Block { opening: whole.clone(), whole, deltas: Vec::new() };
    }
    let text = entry.reasoning.as_deref().unwrap_or_default();
    let thinking = pieces(text).into_iter().map(|piece| json!({"type": "thinking_delta", "thinking": piece}));
    let signed = json!({"type": "signature_delta", "signature": signature(text)});
    Block {
        whole,
        opening: json!({"type": "thinking", "thinking": "", "signature": ""}),
        deltas: thinking.chain([signed]).collect(),
    }
}

fn envelope(entry: &Entry, asked: &Conversation) -> Value {
    json!({
        "id": format!("msg_{}", entry.id),
        "type": "message",
        "role": "assistant",
        "model": asked.model,
        "content": [],
        "stop_reason": null,
        "stop_sequence": null,
    })
}

fn usage(asked: &Conversation, answer_tokens: u64) -> Value {
    let cached = asked.cached_tokens + asked.written_tokens;
    json!({
        "input_tokens": asked.prompt_tokens().saturating_sub(cached),
        "cache_creation_input_tokens": asked.written_tokens,
        "cache_read_input_tokens": asked.cached_tokens,
        "output_tokens": answer_tokens,
        "service_tier": "standard",
    })
}

fn stop_reason(finish: Finish) -> &'static str {
    match finish {
        Finish::Stop => "end_turn",
        Finish::ToolCalls => "tool_use",
        Finish::Length => "max_tokens",
        Finish::ContentFilter => "refusal",
    }
}

//! Whether an answer has the form that was asked for. No I/O.
//!
//! It knows the part of JSON Schema that the services take ([`crate::AnswerSchema`]); what it does not know, it lets
//! pass. A service that promises the form is checked all the same: an answer is recorded once, and then relied upon.

use serde_json::Value;

use crate::{ChatRequest, ChatResponse, Finish};

/// The answer's text without the fence that models without the promise put around JSON.
pub(super) fn bare(request: &ChatRequest, content: String) -> String {
    if request.answer_schema.is_none() {
        return content;
    }
    let trimmed = content.trim();
    let inner = trimmed.strip_prefix("```json").or(trimmed.strip_prefix("```"));
    let inner = inner.and_then(|rest| rest.trim_end().strip_suffix("```"));
    inner.map_or_else(|| trimmed.to_owned(), |inner| inner.trim().to_owned())
}

/// What is wrong with an answer that should have a form; one that calls tools, was cut or withheld has none.
pub(super) fn problem(request: &ChatRequest, response: &ChatResponse) -> Option<String> {
    let asked = request.answer_schema.as_ref()?;
    if response.finish != Finish::Stop || !response.tool_calls.is_empty() {
        return None;
    }
    match serde_json::from_str::<Value>(&response.content) {
        Err(error) => Some(format!("it should be JSON: {error}")),
        Ok(value) => mismatch(&asked.schema, &value, "").map(|what| format!("it does not follow the schema: {what}")),
    }
}

/// The first place where a value does not follow its schema.
fn mismatch(schema: &Value, value: &Value, place: &str) -> Option<String> {
    let at = if place.is_empty() { "the answer" } else { place };
    if let Some(any) = schema.get("anyOf").and_then(Value::as_array) {
        let fits = any.iter().any(|one| mismatch(one, value, place).is_none());
        return (!fits).then(|| format!("{at} follows none of `anyOf`"));
    }
    if let Some(allowed) = schema.get("enum").and_then(Value::as_array)
        && !allowed.contains(value)
    {
        return Some(format!("{at} is none of the allowed values"));
    }
    let kinds: Vec<&str> = match schema.get("type") {
        Some(Value::String(kind)) => vec![kind],
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
        Some(_) | None => Vec::new(),
    };
    if !kinds.is_empty() && !kinds.iter().any(|kind| is_of(kind, value)) {
        return Some(format!("{at} is not of type {}", kinds.join(" or ")));
    }
    match value {
        Value::Object(fields) => {
            let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
            let missing = required.filter_map(Value::as_str).find(|name| !fields.contains_key(*name));
            if let Some(missing) = missing {
                return Some(format!("{at} has no `{missing}`"));
            }
            let known = schema.get("properties");
            let closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
            fields.iter().find_map(|(name, field)| match known.and_then(|known| known.get(name)) {
                Some(schema) => mismatch(schema, field, &format!("{place}/{name}")),
                None => closed.then(|| format!("{at} has `{name}`, which is not allowed")),
            })
        }
        Value::Array(items) => {
            let schema = schema.get("items")?;
            items.iter().enumerate().find_map(|(at, item)| mismatch(schema, item, &format!("{place}/{at}")))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

fn is_of(kind: &str, value: &Value) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_does_not_follow_is_named_with_its_place() {
        let schema = json!({
            "type": "object", "additionalProperties": false, "required": ["name", "parts"],
            "properties": {
                "name": {"type": ["string", "null"]},
                "kind": {"enum": ["a", "b"]},
                "parts": {"type": "array", "items": {"anyOf": [{"type": "integer"}, {"type": "boolean"}]}},
            },
        });
        for (value, expected) in [
            (json!({"name": "你", "parts": [1, true, 2.0], "kind": "a"}), None),
            (json!({"name": null, "parts": []}), None),
            (json!([]), Some("the answer is not of type object")),
            (json!({"name": "x"}), Some("the answer has no `parts`")),
            (json!({"name": 1, "parts": []}), Some("/name is not of type string or null")),
            (json!({"name": "x", "parts": [1, "two"]}), Some("/parts/1 follows none of `anyOf`")),
            (json!({"name": "x", "parts": [1.5]}), Some("/parts/0 follows none of `anyOf`")),
            (json!({"name": "x", "parts": [], "kind": "c"}), Some("/kind is none of the allowed values")),
            (json!({"name": "x", "parts": [], "more": 1}), Some("the answer has `more`, which is not allowed")),
        ] {
            assert_eq!(mismatch(&schema, &value, "").as_deref(), expected, "{value}");
        }
    }
}

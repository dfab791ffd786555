//! Checks a model's arguments against a tool's JSON Schema, with errors a model can act on.
//!
//! It owns the subset of JSON Schema which tools may use: `type` (`object`, `array`, `string`, `integer`, `number`,
//! `boolean`), `properties`, `required`, `additionalProperties: true` (default: refused), `items`, `enum`, `minimum`,
//! `maximum`, `maxItems` and `description`. A schema outside the subset is refused when the registry is built, so no
//! keyword is ever silently ignored.

use longhaul_core::ToolSpec;
use serde_json::{Map, Value};

use crate::registry::TOOL_ARGUMENTS_BYTES_MAX;

const KEYWORDS: [&str; 11] = [
    "type",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "enum",
    "minimum",
    "maximum",
    "maxItems",
    "description",
    "title",
];
const TYPES: [&str; 6] = ["object", "array", "string", "integer", "number", "boolean"];

/// Parses and checks the arguments of a call; the error is for the model.
pub(crate) fn parse_arguments(spec: &ToolSpec, arguments: &str) -> Result<Value, String> {
    let name = &spec.name;
    if arguments.len() > TOOL_ARGUMENTS_BYTES_MAX {
        return Err(format!(
            "the arguments of {name} have {} bytes, above the limit of {TOOL_ARGUMENTS_BYTES_MAX}; send less at once",
            arguments.len()
        ));
    }
    let text = if arguments.trim().is_empty() { "{}" } else { arguments };
    let value: Value = serde_json::from_str(text).map_err(|error| {
        format!("the arguments of {name} are not JSON ({error}); send one JSON object: {}", outline(&spec.parameters))
    })?;
    check(&spec.parameters, &value, "").map_err(|problem| {
        format!("the arguments of {name} are wrong: {problem}; expected {}", outline(&spec.parameters))
    })?;
    Ok(value)
}

/// Checks that a schema stays within the subset; the error names the place.
pub(crate) fn check_schema(schema: &Value) -> Result<(), String> {
    check_schema_at(schema, "parameters")?;
    match type_of(schema) {
        "object" => Ok(()),
        other => Err(format!("parameters: the type must be object, not {other:?}")),
    }
}

fn check_schema_at(schema: &Value, place: &str) -> Result<(), String> {
    let Some(map) = schema.as_object() else { return Err(format!("{place}: not an object")) };
    if let Some(keyword) = map.keys().find(|key| !KEYWORDS.contains(&key.as_str())) {
        return Err(format!("{place}: the keyword {keyword:?} is not supported"));
    }
    if !TYPES.contains(&type_of(schema)) {
        return Err(format!("{place}: type must be one of {}", TYPES.join(", ")));
    }
    for (name, inner) in properties(schema) {
        check_schema_at(inner, &format!("{place}.{name}"))?;
    }
    for name in required(schema) {
        if properties(schema).all(|(known, _)| known != name) {
            return Err(format!("{place}: required names {name:?}, which is not among the properties"));
        }
    }
    map.get("items").map_or(Ok(()), |items| check_schema_at(items, &format!("{place}[]")))
}

fn check(schema: &Value, value: &Value, place: &str) -> Result<(), String> {
    let expected = type_of(schema);
    let fits = match expected {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        _ => value.is_boolean(),
    };
    if !fits {
        return Err(format!("{} must be {}, not {}", shown(place), article(expected), describe(value)));
    }
    if let Some(choices) = schema.get("enum").and_then(Value::as_array)
        && !choices.contains(value)
    {
        let choices: Vec<String> = choices.iter().map(Value::to_string).collect();
        return Err(format!("{} must be one of {}, not {}", shown(place), choices.join(", "), describe(value)));
    }
    check_bounds(schema, value, place)?;
    match value {
        Value::Object(map) => check_object(schema, map, place),
        Value::Array(items) => match schema.get("items") {
            Some(inner) => {
                items.iter().enumerate().try_for_each(|(index, item)| check(inner, item, &format!("{place}[{index}]")))
            }
            None => Ok(()),
        },
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}

fn check_bounds(schema: &Value, value: &Value, place: &str) -> Result<(), String> {
    let bound = |key: &str| schema.get(key).and_then(Value::as_f64);
    let (number, minimum, maximum) = match value {
        Value::Number(number) => (number.as_f64(), bound("minimum"), bound("maximum")),
        #[expect(clippy::cast_precision_loss, reason = "an array of 2^52 items does not fit the arguments")]
        Value::Array(items) => (Some(items.len() as f64), None, bound("maxItems")),
        Value::Null | Value::Bool(_) | Value::String(_) | Value::Object(_) => (None, None, None),
    };
    let Some(number) = number else { return Ok(()) };
    let what = if value.is_array() { "the number of items of " } else { "" };
    if let Some(minimum) = minimum.filter(|minimum| number < *minimum) {
        return Err(format!("{what}{} must be at least {minimum}, not {number}", shown(place)));
    }
    if let Some(maximum) = maximum.filter(|maximum| number > *maximum) {
        return Err(format!("{what}{} must be at most {maximum}, not {number}", shown(place)));
    }
    Ok(())
}

fn check_object(schema: &Value, map: &Map<String, Value>, place: &str) -> Result<(), String> {
    let missing: Vec<String> = required(schema)
        .filter(|name| !map.contains_key(*name))
        .map(|name| format!("{:?}", join(place, name)))
        .collect();
    if !missing.is_empty() {
        let noun = if missing.len() == 1 { "field" } else { "fields" };
        return Err(format!("required {noun} {} missing", missing.join(", ")));
    }
    for (name, inner) in map {
        match properties(schema).find(|(known, _)| *known == name) {
            Some((_, inner_schema)) => {
                // Models often send null for an optional field they do not want to set.
                if inner.is_null() && required(schema).all(|known| known != name) {
                    continue;
                }
                check(inner_schema, inner, &join(place, name))?;
            }
            None if schema.get("additionalProperties") == Some(&Value::Bool(true)) => {}
            None => {
                let hint = nearest(name, properties(schema).map(|(known, _)| known))
                    .map_or_else(String::new, |near| format!(" (did you mean {near:?}?)"));
                return Err(format!("unknown field {:?}{hint}", join(place, name)));
            }
        }
    }
    Ok(())
}

/// The candidate that is probably meant, if one is close enough.
pub(crate) fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate))
        .filter(|(score, _)| *score > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

/// A schema in one line: `{path: string, limit?: integer}`.
fn outline(schema: &Value) -> String {
    match type_of(schema) {
        "object" => {
            let fields: Vec<String> = properties(schema)
                .map(|(name, inner)| {
                    let mark = if required(schema).any(|known| known == name) { "" } else { "?" };
                    format!("{name}{mark}: {}", outline(inner))
                })
                .collect();
            format!("{{{}}}", fields.join(", "))
        }
        "array" => format!("[{}]", schema.get("items").map_or_else(|| "any".to_owned(), outline)),
        scalar => scalar.to_owned(),
    }
}

fn type_of(schema: &Value) -> &str {
    schema.get("type").and_then(Value::as_str).unwrap_or_default()
}

fn properties(schema: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let map = schema.get("properties").and_then(Value::as_object);
    map.into_iter().flatten().map(|(name, inner)| (name.as_str(), inner))
}

fn required(schema: &Value) -> impl Iterator<Item = &str> {
    schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

fn join(place: &str, name: &str) -> String {
    if place.is_empty() { name.to_owned() } else { format!("{place}.{name}") }
}

fn shown(place: &str) -> String {
    if place.is_empty() { "the whole".to_owned() } else { format!("{place:?}") }
}

fn article(kind: &str) -> String {
    if kind.starts_with(['a', 'i', 'o']) { format!("an {kind}") } else { format!("a {kind}") }
}

fn describe(value: &Value) -> String {
    let short = |text: String| {
        if text.chars().count() > 40 { text.chars().take(40).chain(['…']).collect() } else { text }
    };
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => format!("the boolean {value}"),
        Value::Number(_) => format!("the number {value}"),
        Value::String(_) => format!("the string {}", short(value.to_string())),
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

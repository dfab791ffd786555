//! The subset of JSON Schema that an answer can be checked against.
//!
//! It owns `type` (one of the seven, or a list of them), `properties`, `required`, `additionalProperties: bool`,
//! `items`, `enum`, `const`, `minimum`, `maximum`, `minLength`, `maxLength`, `minItems`, `maxItems`, and the notes
//! `title`, `description`, `default`, `examples`. Invariant: a schema with any other keyword is refused when the wait
//! is declared, so that no rule is ever silently ignored.

use serde_json::Value;

const KEYWORDS: [&str; 17] = [
    "type",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "enum",
    "const",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "title",
    "description",
    "default",
    "examples",
];
const TYPES: [&str; 7] = ["null", "boolean", "integer", "number", "string", "array", "object"];

/// A schema outside the subset, or an answer that does not fit its schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {problem}")]
pub struct AnswerSchemaError {
    /// Where: `schema.properties.amount`, `answer.amount`.
    pub path: String,
    /// What is wrong there.
    pub problem: String,
}

fn wrong(path: &str, problem: impl Into<String>) -> AnswerSchemaError {
    AnswerSchemaError { path: path.to_owned(), problem: problem.into() }
}

/// Checks that a schema stays within the subset.
pub(crate) fn check_schema(schema: &Value, path: &str) -> Result<(), AnswerSchemaError> {
    let Some(map) = schema.as_object() else { return Err(wrong(path, "a schema is an object")) };
    if let Some(keyword) = map.keys().find(|key| !KEYWORDS.contains(&key.as_str())) {
        return Err(wrong(path, format!("the keyword {keyword:?} is not supported: use {}", KEYWORDS.join(", "))));
    }
    if map.contains_key("type") && types(schema).is_none_or(|types| types.iter().any(|name| !TYPES.contains(name))) {
        return Err(wrong(path, format!("the type must be among {}", TYPES.join(", "))));
    }
    if let Some(properties) = map.get("properties") {
        let properties = properties.as_object().ok_or_else(|| wrong(path, "properties is an object"))?;
        for (name, inner) in properties {
            check_schema(inner, &format!("{path}.properties.{name}"))?;
        }
    }
    let names = |value: &Value| value.as_array().is_some_and(|names| names.iter().all(Value::is_string));
    let count = |value: &Value| value.is_u64();
    for (keyword, fits, expected) in [
        ("required", &names as &dyn Fn(&Value) -> bool, "a list of names"),
        ("additionalProperties", &Value::is_boolean, "true or false"),
        ("enum", &Value::is_array, "a list"),
        ("minimum", &Value::is_number, "a number"),
        ("maximum", &Value::is_number, "a number"),
        ("minLength", &count, "a count"),
        ("maxLength", &count, "a count"),
        ("minItems", &count, "a count"),
        ("maxItems", &count, "a count"),
    ] {
        if map.get(keyword).is_some_and(|value| !fits(value)) {
            return Err(wrong(path, format!("{keyword} must be {expected}")));
        }
    }
    map.get("items").map_or(Ok(()), |items| check_schema(items, &format!("{path}.items")))
}

fn types(schema: &Value) -> Option<Vec<&str>> {
    match schema.get("type")? {
        Value::String(name) => Some(vec![name]),
        Value::Array(names) => names.iter().map(Value::as_str).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    }
}

/// Checks an answer against a schema of the subset.
pub(crate) fn check(schema: &Value, value: &Value, path: &str) -> Result<(), AnswerSchemaError> {
    if let Some(types) = types(schema)
        && !types.iter().any(|name| is_of_type(value, name))
    {
        return Err(wrong(path, format!("must be {}, not {}", types.join(" or "), shown(value))));
    }
    if let Some(choices) = schema.get("enum").and_then(Value::as_array)
        && !choices.contains(value)
    {
        let choices: Vec<String> = choices.iter().map(Value::to_string).collect();
        return Err(wrong(path, format!("must be one of {}, not {}", choices.join(", "), shown(value))));
    }
    if let Some(only) = schema.get("const")
        && only != value
    {
        return Err(wrong(path, format!("must be {only}, not {}", shown(value))));
    }
    match value {
        Value::Null | Value::Bool(_) => Ok(()),
        Value::Number(number) => check_range(schema, number.as_f64(), "minimum", "maximum", path, "the number"),
        Value::String(text) => {
            let chars = text.chars().count();
            check_range(schema, Some(count(chars)), "minLength", "maxLength", path, "the number of characters")
        }
        Value::Array(items) => {
            let many = Some(count(items.len()));
            check_range(schema, many, "minItems", "maxItems", path, "the number of items")?;
            let Some(inner) = schema.get("items") else { return Ok(()) };
            items.iter().enumerate().try_for_each(|(n, item)| check(inner, item, &format!("{path}[{n}]")))
        }
        Value::Object(fields) => {
            let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
            if let Some(name) = required.filter_map(Value::as_str).find(|name| !fields.contains_key(*name)) {
                return Err(wrong(path, format!("{name:?} is missing")));
            }
            for (name, field) in fields {
                match schema.get("properties").and_then(|properties| properties.get(name)) {
                    Some(inner) => check(inner, field, &format!("{path}.{name}"))?,
                    None if schema.get("additionalProperties") == Some(&Value::Bool(false)) => {
                        return Err(wrong(path, format!("{name:?} is not expected")));
                    }
                    None => {}
                }
            }
            Ok(())
        }
    }
}

fn is_of_type(value: &Value, name: &str) -> bool {
    match value {
        Value::Null => name == "null",
        Value::Bool(_) => name == "boolean",
        Value::Number(number) => name == "number" || (name == "integer" && (number.is_i64() || number.is_u64())),
        Value::String(_) => name == "string",
        Value::Array(_) => name == "array",
        Value::Object(_) => name == "object",
    }
}

#[expect(clippy::cast_precision_loss, reason = "nothing that is answered has 2^52 parts")]
fn count(parts: usize) -> f64 {
    parts as f64
}

fn check_range(
    schema: &Value,
    found: Option<f64>,
    minimum: &str,
    maximum: &str,
    path: &str,
    what: &str,
) -> Result<(), AnswerSchemaError> {
    let Some(found) = found else { return Ok(()) };
    let bound = |keyword: &str| schema.get(keyword).and_then(Value::as_f64);
    if let Some(bound) = bound(minimum).filter(|bound| found < *bound) {
        return Err(wrong(path, format!("{what} must be at least {bound}, not {found}")));
    }
    if let Some(bound) = bound(maximum).filter(|bound| found > *bound) {
        return Err(wrong(path, format!("{what} must be at most {bound}, not {found}")));
    }
    Ok(())
}

fn shown(value: &Value) -> String {
    value.to_string().chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_answer_is_refused_at_the_place_that_does_not_fit() {
        let schema = json!({
            "type": "object", "required": ["approved"], "additionalProperties": false,
            "properties": {
                "approved": { "type": "boolean" },
                "amount": { "type": ["integer", "null"], "minimum": 1, "maximum": 10 },
                "tags": { "type": "array", "maxItems": 2, "items": { "type": "string", "enum": ["a", "b"] } },
            },
        });
        check_schema(&schema, "schema").unwrap();
        let said = |value: &Value| check(&schema, value, "answer").map_err(|error| error.to_string());
        for fits in [json!({"approved": true}), json!({"approved": false, "amount": null, "tags": ["a", "b"]})] {
            assert_eq!(said(&fits), Ok(()));
        }
        for (value, expected) in [
            (json!(true), "answer: must be object, not true"),
            (json!({}), "answer: \"approved\" is missing"),
            (json!({"approved": "yes"}), "answer.approved: must be boolean, not \"yes\""),
            (json!({"approved": true, "why": 1}), "answer: \"why\" is not expected"),
            (json!({"approved": true, "amount": 11}), "answer.amount: the number must be at most 10, not 11"),
            (json!({"approved": true, "amount": 1.5}), "answer.amount: must be integer or null, not 1.5"),
            (json!({"approved": true, "tags": ["a", "c"]}), "answer.tags[1]: must be one of \"a\", \"b\", not \"c\""),
        ] {
            assert_eq!(said(&value), Err(expected.to_owned()));
        }
    }

    #[test]
    fn a_schema_with_a_rule_that_would_be_ignored_is_refused() {
        for schema in [
            json!({"type": "string", "pattern": "^a"}),
            json!({"properties": {"a": {"oneOf": []}}}),
            json!({"type": "text"}),
            json!({"maxLength": "3"}),
            json!(true),
        ] {
            assert!(check_schema(&schema, "schema").is_err(), "{schema}");
        }
    }
}

//! Whether an answer is what was asked for: a JSON Schema, and a type of Rust.
//!
//! It owns the words in which a misfit is told, with the path to it. Invariants: a schema that cannot be used is refused
//! when the wait is declared; nothing is ever loaded from elsewhere to check an answer.

use std::error::Error;

use boon::{CompileError, Compiler, ErrorKind, InstanceToken, SchemaIndex, Schemas, UrlLoader, ValidationError};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Where the schema stands for its own references; nothing is asked there.
const ADDRESS: &str = "https://longhaul.invalid/answer";

/// Problems that are listed where one of several forms was to be met.
const ALTERNATIVES_MAX: usize = 4;

/// A schema that cannot be used, or an answer that does not fit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {problem}")]
pub struct AnswerSchemaError {
    /// Where: `schema.properties.amount`, `answer.amount`.
    pub path: String,
    /// What is wrong there.
    pub problem: String,
}

/// Longest path, and longest problem: an answer may be large, and what is said of it is kept in an event.
const WORDS_CHARS_MAX: usize = 500;

fn wrong(path: &str, problem: &str) -> AnswerSchemaError {
    let cut = |text: &str| text.chars().take(WORDS_CHARS_MAX).collect();
    AnswerSchemaError { path: cut(path), problem: cut(problem) }
}

/// Refuses whatever a schema refers to outside of itself.
struct Nothing;

impl UrlLoader for Nothing {
    fn load(&self, url: &str) -> Result<Value, Box<dyn Error>> {
        Err(format!("{url} is outside of the schema: put it into $defs").into())
    }
}

/// Checks that a schema can be used: JSON Schema, draft 2020-12 unless it names another, complete in itself.
pub(crate) fn check_schema(schema: &Value, path: &str) -> Result<(), AnswerSchemaError> {
    compile(schema, path).map(drop)
}

fn compile(schema: &Value, path: &str) -> Result<(Schemas, SchemaIndex), AnswerSchemaError> {
    let mut compiler = Compiler::new();
    compiler.use_loader(Box::new(Nothing));
    compiler.enable_format_assertions();
    let mut schemas = Schemas::new();
    compiler.add_resource(ADDRESS, schema.clone()).map_err(|error| unusable(&error, path))?;
    let compiled = compiler.compile(ADDRESS, &mut schemas).map_err(|error| unusable(&error, path))?;
    Ok((schemas, compiled))
}

fn unusable(error: &CompileError, path: &str) -> AnswerSchemaError {
    if let CompileError::ValidationError { src, .. } = error {
        misfit(src, path)
    } else if let CompileError::LoadUrlError { src, .. } = error {
        wrong(path, &src.to_string())
    } else {
        wrong(path, &error.to_string().replace(ADDRESS, ""))
    }
}

/// Checks an answer against a schema.
pub(crate) fn check(schema: &Value, value: &Value, path: &str) -> Result<(), AnswerSchemaError> {
    let (schemas, compiled) = compile(schema, "schema")?;
    schemas.validate(value, compiled).map_err(|error| misfit(&error, path))
}

/// Reads an answer as a `T`, and says where it is none.
pub(crate) fn read<T: DeserializeOwned>(value: &Value, path: &str) -> Result<T, AnswerSchemaError> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let within = error.path().to_string();
        let path = if within == "." { path.to_owned() } else { format!("{path}.{within}").replace(".[", "[") };
        wrong(&path, &error.into_inner().to_string())
    })
}

/// The first thing that is wrong.
fn misfit(error: &ValidationError<'_, '_>, path: &str) -> AnswerSchemaError {
    let several = matches!(error.kind, ErrorKind::AnyOf | ErrorKind::OneOf(None));
    match error.causes.as_slice() {
        [_, _, ..] if several => {
            let problems: Vec<String> =
                error.causes.iter().take(ALTERNATIVES_MAX).map(|cause| misfit(cause, path).to_string()).collect();
            wrong(&at(error, path), &format!("fits none of the allowed forms ({})", problems.join("; ")))
        }
        [first, ..] => misfit(first, path),
        [] => wrong(&at(error, path), &error.kind.to_string()),
    }
}

fn at(error: &ValidationError<'_, '_>, path: &str) -> String {
    let mut path = path.to_owned();
    for token in &error.instance_location.tokens {
        match token {
            InstanceToken::Prop(name) => {
                path.push('.');
                path.push_str(name);
            }
            InstanceToken::Item(index) => path.push_str(&format!("[{index}]")),
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_does_not_fit_is_said_with_its_place() {
        let schema = json!({
            "type": "object",
            "required": ["approved"],
            "additionalProperties": false,
            "properties": {
                "approved": {"type": "boolean"},
                "amount": {"anyOf": [{"$ref": "#/$defs/amount"}, {"type": "null"}]},
                "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 2},
                "by": {"type": "string", "pattern": "^[a-z]+$"},
                "on": {"type": "string", "format": "date"},
            },
            "$defs": {"amount": {"type": "integer", "minimum": 0, "maximum": 10}},
        });
        check_schema(&schema, "schema").unwrap();
        let said = |value: &Value| check(&schema, value, "answer").map_err(|error| error.to_string());
        for fits in [json!({"approved": true}), json!({"approved": false, "amount": null, "tags": ["a", "b"]})] {
            assert_eq!(said(&fits), Ok(()));
        }
        for (value, place, problem) in [
            (json!(true), "answer:", "want object"),
            (json!({}), "answer:", "missing properties 'approved'"),
            (json!({"approved": "yes"}), "answer.approved:", "want boolean, but got string"),
            (json!({"approved": true, "why": 1}), "answer:", "'why' not allowed"),
            (json!({"approved": true, "amount": 11}), "answer.amount:", "must be <=10"),
            (json!({"approved": true, "tags": ["a", "c"]}), "answer.tags[1]:", "one of 'a', 'b'"),
            (json!({"approved": true, "by": "Ada"}), "answer.by:", "does not match pattern"),
            (json!({"approved": true, "on": "2026-02-30"}), "answer.on:", "is not valid date"),
        ] {
            let said = said(&value).unwrap_err();
            assert!(said.starts_with(place) && said.contains(problem), "{said}");
        }
    }

    #[test]
    fn a_schema_that_cannot_be_used_is_refused() {
        for (schema, expected) in [
            (json!({"type": "text"}), "schema.type: "),
            (json!({"properties": {"a": {"maxLength": "3"}}}), "schema.properties.a.maxLength: "),
            (json!({"$ref": "https://example.com/answer"}), "outside of the schema"),
            (json!({"$ref": "file:///etc/passwd"}), "outside of the schema"),
            (json!(3), "schema: "),
        ] {
            let said = check_schema(&schema, "schema").unwrap_err().to_string();
            assert!(said.contains(expected), "{schema}: {said}");
        }
    }

    #[test]
    fn an_answer_of_another_type_is_told_with_its_place() {
        #[derive(Debug, serde::Deserialize)]
        #[expect(dead_code, reason = "only read")]
        struct Decision {
            amounts: Vec<u32>,
        }
        let said = read::<Decision>(&json!({"amounts": [1, "two"]}), "answer").unwrap_err();
        assert_eq!(said.path, "answer.amounts[1]");
        assert_eq!(read::<bool>(&json!("yes"), "answer").unwrap_err().path, "answer");
    }
}

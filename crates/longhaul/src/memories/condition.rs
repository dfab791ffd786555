//! Conditions and metadata as they are typed: `session=3`, `stars>=4`, `!draft`. Pure.
//!
//! A value is read as JSON where it is a number, `true`, `false`, a text in quotes or a list in brackets; anything else
//! is text as it stands. So `id=007` is text, `id=7` a number and `id="7"` text.

use longhaul_memory::{Condition, Op};
use serde_json::{Map, Value};

use super::MemoriesError;

/// The longer first, so that `>=` is not taken for `>`.
const OPERATORS: [(&str, Op); 7] =
    [("!=", Op::Ne), (">=", Op::Ge), ("<=", Op::Le), ("==", Op::Eq), (">", Op::Gt), ("<", Op::Lt), ("=", Op::Eq)];

/// One condition.
///
/// # Errors
/// [`MemoriesError::Condition`].
pub(crate) fn condition(text: &str) -> Result<Condition, MemoriesError> {
    let refuse = |problem| MemoriesError::Condition { text: text.chars().take(80).collect(), problem };
    let found = OPERATORS
        .iter()
        .filter_map(|(sign, op)| text.find(sign).map(|at| (at, sign, *op)))
        .min_by_key(|(at, sign, _)| (*at, usize::MAX - sign.len()));
    let Some((at, sign, op)) = found else {
        let (name, there) = text.trim().strip_prefix('!').map_or((text.trim(), true), |name| (name, false));
        return if name.is_empty() {
            Err(refuse("the key is missing"))
        } else {
            Ok(Condition::new(name, Op::Exists, there))
        };
    };
    let (name, given) = (text[..at].trim(), text[at + sign.len()..].trim());
    if name.is_empty() {
        return Err(refuse("the key is missing"));
    }
    match (op, value(given)) {
        (_, Value::Object(_) | Value::Null) => Err(refuse("the value must be a text, a number, true or false")),
        (Op::Eq, list @ Value::Array(_)) => Ok(Condition::new(name, Op::In, list)),
        (_, Value::Array(_)) => Err(refuse("a list goes with `=` only")),
        (op, value) => Ok(Condition::new(name, op, value)),
    }
}

/// One entry of metadata.
///
/// # Errors
/// [`MemoriesError::Meta`].
pub(crate) fn meta(text: &str) -> Result<(String, Value), MemoriesError> {
    let (name, given) = text.split_once('=').unwrap_or_default();
    if name.trim().is_empty() {
        return Err(MemoriesError::Meta { text: text.chars().take(80).collect() });
    }
    Ok((name.trim().to_owned(), value(given.trim())))
}

/// Several entries of metadata; a later one replaces an earlier of the same name.
///
/// # Errors
/// [`MemoriesError::Meta`].
pub(crate) fn metadata(texts: &[String]) -> Result<Map<String, Value>, MemoriesError> {
    texts.iter().map(|text| meta(text)).collect()
}

fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn conditions_are_read_as_they_are_meant() {
        for (text, name, op, value) in [
            ("session=3", "session", Op::Eq, json!(3)),
            ("session==3", "session", Op::Eq, json!(3)),
            ("lang=zh", "lang", Op::Eq, json!("zh")),
            ("id=\"7\"", "id", Op::Eq, json!("7")),
            ("id=007", "id", Op::Eq, json!("007")),
            ("done = true", "done", Op::Eq, json!(true)),
            ("stars>=4", "stars", Op::Ge, json!(4)),
            ("stars<2.5", "stars", Op::Lt, json!(2.5)),
            ("lang!=en", "lang", Op::Ne, json!("en")),
            ("url=http://a/?b=c", "url", Op::Eq, json!("http://a/?b=c")),
            ("lang=[\"en\",\"zh\"]", "lang", Op::In, json!(["en", "zh"])),
            ("lang", "lang", Op::Exists, json!(true)),
            ("!draft", "draft", Op::Exists, json!(false)),
            ("note=", "note", Op::Eq, json!("")),
        ] {
            let found = condition(text).expect(text);
            assert_eq!((found.field.as_str(), found.op, found.value), (name, op, value), "{text}");
        }
        for text in ["", "=3", "!", ">5", "a=null", "a={\"b\":1}", "a>[1]"] {
            let error = condition(text).expect_err(text).to_string();
            assert!(error.starts_with(&format!("--where {text}: ")) && error.contains("write key=value"), "{error}");
        }
    }

    #[test]
    fn metadata_keeps_its_types() {
        let given = ["n=3", "s=three", "q=\"3\"", "l=[1]", "n=4"].map(str::to_owned);
        let read = metadata(&given).expect("metadata");
        assert_eq!(Value::Object(read), json!({ "n": 4, "s": "three", "q": "3", "l": [1] }));
        assert!(metadata(&["three".to_owned()]).is_err() && metadata(&["=3".to_owned()]).is_err());
    }
}

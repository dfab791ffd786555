//! Invariant 5: state holds no large content. Measured on the JSON that is stored.

use longhaul_core::limits::{STATE_BYTES_MAX, STATE_LEAF_BYTES_MAX};
use serde_json::Value;

/// Something in the state, or in an update to it, is too large.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{path} takes {bytes} bytes, at most {bytes_max} are allowed: keep the content as a record or blob and only its \
     reference here"
)]
pub struct LimitError {
    /// Where: `state.features[3].notes`, `state`, `update`.
    pub path: String,
    /// Its size as JSON.
    pub bytes: usize,
    /// The limit.
    pub bytes_max: usize,
}

/// Checks a whole state.
pub(crate) fn check_whole<S: crate::GraphState>(state: &S) -> Result<usize, LimitError> {
    let value = serde_json::to_value(state).unwrap_or_default();
    check_state(&value, &append_only::<S>()).map(|()| 0)
}

/// Checks a state at the close of a superstep.
pub(crate) fn check_close<S: crate::GraphState>(state: &S) -> Result<usize, LimitError> {
    check_whole(state)
}

/// The fields that only grow.
pub(crate) fn append_only<S: crate::GraphState>() -> Vec<&'static str> {
    S::FIELDS.iter().filter(|field| field.reducer == crate::Reducer::Append).map(|field| field.name).collect()
}

/// Checks a whole state; `append_only` fields are limited by item.
pub(crate) fn check_state(state: &Value, append_only: &[&str]) -> Result<(), LimitError> {
    let mut total = 0;
    if let Value::Object(fields) = state {
        for (name, field) in fields {
            let path = format!("state.{name}");
            if append_only.contains(&name.as_str()) {
                check_items(field, &path)?;
            } else {
                total += name.len() + 4 + measure(field, &path)?;
            }
        }
    } else {
        total = measure(state, "state")?;
    }
    within("state", total, STATE_BYTES_MAX)
}

/// Checks what one superstep writes.
pub(crate) fn check_update(json: &str) -> Result<(), LimitError> {
    within("update", json.len(), STATE_BYTES_MAX)
}

fn check_items(field: &Value, path: &str) -> Result<(), LimitError> {
    let Value::Array(items) = field else {
        return measure(field, path).map(drop);
    };
    for (n, item) in items.iter().enumerate() {
        let path = format!("{path}[{n}]");
        let bytes = measure(item, &path)?;
        within(&path, bytes, STATE_LEAF_BYTES_MAX)?;
    }
    Ok(())
}

/// The size of a value as JSON, give or take the escapes of its strings; every leaf within it is checked.
fn measure(value: &Value, path: &str) -> Result<usize, LimitError> {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(8),
        Value::String(text) => {
            let bytes = text.len() + 2;
            within(path, bytes, STATE_LEAF_BYTES_MAX)?;
            Ok(bytes)
        }
        Value::Array(items) => {
            let sizes = items.iter().enumerate().map(|(n, item)| Ok(1 + measure(item, &format!("{path}[{n}]"))?));
            sizes.sum::<Result<usize, _>>().map(|bytes| bytes + 2)
        }
        Value::Object(fields) => {
            let sizes =
                fields.iter().map(|(name, field)| Ok(name.len() + 4 + measure(field, &format!("{path}.{name}"))?));
            sizes.sum::<Result<usize, _>>().map(|bytes| bytes + 2)
        }
    }
}

fn within(path: &str, bytes: usize, bytes_max: usize) -> Result<(), LimitError> {
    if bytes <= bytes_max { Ok(()) } else { Err(LimitError { path: path.to_owned(), bytes, bytes_max }) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn path_of(state: &Value, append_only: &[&str]) -> Option<String> {
        check_state(state, append_only).err().map(|error| error.path)
    }

    #[test]
    fn the_path_to_what_is_too_large_is_named() {
        let large = "x".repeat(STATE_LEAF_BYTES_MAX);
        assert_eq!(path_of(&json!({"a": [1, {"b": large}]}), &[]).unwrap(), "state.a[1].b");
        assert_eq!(path_of(&json!({"a": [1, {"b": large}]}), &["a"]).unwrap(), "state.a[1].b");
        assert_eq!(path_of(&json!(large), &[]).unwrap(), "state");
    }

    #[test]
    fn only_append_only_fields_may_grow_beyond_the_state() {
        let item = "x".repeat(STATE_LEAF_BYTES_MAX / 2);
        let items = vec![item; 10];
        assert_eq!(path_of(&json!({ "log": items }), &["log"]), None);
        assert_eq!(path_of(&json!({ "log": items }), &[]).unwrap(), "state");
        let parts = vec!["x".repeat(1000); 70];
        assert_eq!(path_of(&json!({ "log": [1, parts] }), &["log"]).unwrap(), "state.log[1]");
    }
}

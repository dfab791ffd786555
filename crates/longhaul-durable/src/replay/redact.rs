//! What must not be in a case file.
//!
//! It owns how values are replaced. Invariant: what is replaced is replaced everywhere, by the same text, so that a
//! graph that only carries it along comes to the redacted result when its case is replayed.

use std::{collections::BTreeMap, fmt, sync::Arc};

use longhaul_core::Digest;
use serde_json::Value;

use super::case::{Case, CaseError};

/// Shorter texts are replaced where a path names them only: `no` would be found in every sentence.
const EVERYWHERE_CHARS_MIN: usize = 4;

/// Where a case has what came from outside, rather than names of its own.
const CONTENT: [&str; 11] = [
    "/executions/*/begins",
    "/executions/*/checkpoints/*/updates",
    "/executions/*/checkpoints/*/next",
    "/executions/*/steps/*/result",
    "/executions/*/waits/*/payload",
    "/executions/*/waits/*/value",
    "/executions/*/waits/*/actor",
    "/executions/*/end/error",
    "/events/*/data",
    "/interventions/*",
    "/final_state",
];

/// Gives another text for one that must not be shown.
type Hook = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// What is replaced before a case is written.
#[derive(Clone, Default)]
pub struct Redaction {
    paths: Vec<String>,
    hook: Option<Hook>,
}

impl fmt::Debug for Redaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redaction").field("paths", &self.paths).field("hook", &self.hook.is_some()).finish()
    }
}

impl Redaction {
    /// Nothing is replaced.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Replaces what is at this JSON pointer of the case file; `*` stands for any key or number. A text that is found
    /// there is replaced wherever else it is, too.
    #[must_use]
    pub fn path(mut self, path: &str) -> Self {
        self.paths.push(path.to_owned());
        self
    }

    /// Asks this of every text in inputs, results, answers, updates and events: what it gives stands there instead.
    #[must_use]
    pub fn hook(mut self, hook: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        self.hook = Some(Arc::new(hook));
        self
    }

    pub(super) fn apply(&self, case: Case) -> Result<Case, CaseError> {
        if self.paths.is_empty() && self.hook.is_none() {
            return Ok(case);
        }
        let form = |source| CaseError::Form { source };
        let mut value = serde_json::to_value(&case).map_err(form)?;
        let mut secrets = BTreeMap::new();
        let mut replaced = 0;
        for path in &self.paths {
            let found = at(&mut value, path, &mut |found| take(found, &mut secrets));
            if found == 0 {
                return Err(CaseError::RedactsNothing { path: path.clone() });
            }
            replaced += found;
        }
        // The longest first: one secret may be part of another.
        let mut secrets: Vec<_> = secrets.into_iter().collect();
        secrets.sort_by_key(|(secret, _)| std::cmp::Reverse(secret.len()));
        for part in CONTENT {
            at(&mut value, part, &mut |part| {
                texts(part, &mut |text| {
                    let mut new = text.to_owned();
                    for (secret, instead) in &secrets {
                        new = new.replace(secret.as_str(), instead);
                    }
                    if let Some(hook) = &self.hook {
                        new = hook(&new).unwrap_or(new);
                    }
                    if new == text {
                        return None;
                    }
                    replaced += 1;
                    Some(new)
                });
            });
        }
        let mut case: Case = serde_json::from_value(value).map_err(form)?;
        case.redacted = replaced;
        case.executions.iter_mut().for_each(super::case::CaseExecution::rechain);
        Ok(case)
    }
}

/// What stands in place of a text: the same for the same text, so that what was equal stays equal.
fn instead_of(secret: &str) -> String {
    let digest = Digest::of_parts([b"redacted".as_slice(), secret.as_bytes()]).hex();
    format!("redacted-{}", digest.split_at(8).0)
}

/// Replaces a value and all inside it.
fn take(value: &mut Value, secrets: &mut BTreeMap<String, String>) {
    match value {
        Value::String(text) => {
            let instead = instead_of(text);
            if text.chars().count() >= EVERYWHERE_CHARS_MIN {
                secrets.insert(text.clone(), instead.clone());
            }
            *text = instead;
        }
        Value::Number(_) => *value = Value::from(0),
        Value::Bool(_) => *value = Value::Bool(false),
        Value::Null => {}
        Value::Array(items) => items.iter_mut().for_each(|item| take(item, secrets)),
        Value::Object(fields) => fields.values_mut().for_each(|field| take(field, secrets)),
    }
}

/// Does this to every value at the path; tells how many there were.
fn at(value: &mut Value, path: &str, act: &mut impl FnMut(&mut Value)) -> u64 {
    let Some(path) = path.strip_prefix('/') else {
        if path.is_empty() {
            act(value);
            return 1;
        }
        return 0;
    };
    let (key, rest) = path.find('/').map_or((path, ""), |end| path.split_at(end));
    let key = key.replace("~1", "/").replace("~0", "~");
    match value {
        Value::Object(fields) if key == "*" => fields.values_mut().map(|field| at(field, rest, act)).sum(),
        Value::Array(items) if key == "*" => items.iter_mut().map(|item| at(item, rest, act)).sum(),
        Value::Object(fields) => fields.get_mut(&key).map_or(0, |field| at(field, rest, act)),
        Value::Array(items) => {
            let index = key.parse::<usize>().ok();
            index.and_then(|index| items.get_mut(index)).map_or(0, |item| at(item, rest, act))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

fn texts(value: &mut Value, act: &mut impl FnMut(&str) -> Option<String>) {
    match value {
        Value::String(text) => {
            if let Some(new) = act(text) {
                *text = new;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| texts(item, act)),
        Value::Object(fields) => fields.values_mut().for_each(|field| texts(field, act)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_with_stars_find_all_that_they_mean() {
        let mut value = json!({ "a": [{ "key": "one" }, { "key": "two", "b/c": 3 }], "d": "one" });
        let mut found = Vec::new();
        let mut note = |value: &mut Value| found.push(value.clone());
        assert_eq!(at(&mut value, "/a/*/key", &mut note), 2);
        assert_eq!(at(&mut value, "/a/1/b~1c", &mut note), 1);
        assert_eq!(at(&mut value, "/a/7/key", &mut note), 0);
        assert_eq!(at(&mut value, "a", &mut note), 0);
        assert_eq!(found, [json!("one"), json!("two"), json!(3)]);
    }
}

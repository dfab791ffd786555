//! Acceptance criteria: what must hold of an execution whatever way it took.
//!
//! It owns their meaning. Invariant: a criterion that cannot be checked does not hold, and says what is missing.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::case::Case;

/// What must hold. Everything may be left out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Criteria {
    /// How the execution ends: `completed`, `waiting`, `failed` …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Of the state it ends with.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub state: Vec<StateCriterion>,
    /// Of its business events.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<EventCriterion>,
    /// Kinds of events that come in this order; others may come between.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub order: Vec<String>,
    /// How many supersteps the outermost graph takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supersteps: Option<Bounds>,
    /// How many steps there are, those of children included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<Bounds>,
}

/// What must hold of one place of the state. At least one of the others is to be said besides `at`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StateCriterion {
    /// JSON pointer into the state; empty for all of it.
    pub at: String,
    /// It is this; `null` is a value.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "some")]
    pub equals: Option<Value>,
    /// A text has this in it, a list has this item, an object these fields.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "some")]
    pub contains: Option<Value>,
    /// It is a text that this regular expression finds something in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matches: Option<String>,
    /// It is a number not below this, or a list or text with so many items or characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    /// It is a number not above this, or a list or text with so many items or characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
    /// Whether there is anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub present: Option<bool>,
}

/// How many events of a kind there must be; at least one if nothing else is said.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EventCriterion {
    /// The kind.
    pub kind: String,
    /// Only those whose data has these fields.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "some")]
    pub data: Option<Value>,
    /// Exactly so many; 0 says that there must be none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// At least so many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<u64>,
    /// At most so many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<u64>,
}

/// Between these, both included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Bounds {
    /// Not below.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<u64>,
    /// Not above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<u64>,
}

/// A value that may be `null`.
fn some<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// What one criterion came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checked {
    /// The criterion in words.
    pub criterion: String,
    /// Whether it holds.
    pub holds: bool,
    /// What was found.
    pub found: String,
}

/// Checks the criteria of `accept` against what `case` holds.
#[must_use]
pub fn check(accept: &Criteria, case: &Case) -> Vec<Checked> {
    let mut checked = Vec::new();
    let root = case.root();
    if let Some(status) = &accept.status {
        let found = match &root.end.error {
            Some(error) => format!("{}: {error}", root.end.status),
            None => root.end.status.clone(),
        };
        checked.push(Checked { criterion: format!("status is {status}"), holds: *status == root.end.status, found });
    }
    checked.extend(accept.state.iter().map(|criterion| criterion.check(case.final_state.as_ref())));
    checked.extend(accept.events.iter().map(|criterion| criterion.check(case)));
    if !accept.order.is_empty() {
        checked.push(order(&accept.order, case));
    }
    if let Some(bounds) = accept.supersteps {
        checked.push(bounds.check("supersteps", root.last_superstep()));
    }
    if let Some(bounds) = accept.steps {
        let steps = case.executions.iter().map(|execution| execution.steps.len() as u64).sum();
        checked.push(bounds.check("steps", steps));
    }
    checked
}

impl Bounds {
    fn check(self, what: &str, found: u64) -> Checked {
        let holds = self.min.is_none_or(|min| found >= min) && self.max.is_none_or(|max| found <= max);
        let criterion = match (self.min, self.max) {
            (Some(min), Some(max)) if min == max => format!("{min} {what}"),
            (Some(min), Some(max)) => format!("{min} to {max} {what}"),
            (Some(min), None) => format!("at least {min} {what}"),
            (None, Some(max)) => format!("at most {max} {what}"),
            (None, None) => format!("any number of {what}"),
        };
        Checked { criterion, holds, found: found.to_string() }
    }
}

impl StateCriterion {
    fn check(&self, state: Option<&Value>) -> Checked {
        let criterion = self.words();
        let Some(state) = state else {
            let found = "the state is not in the case: record with --program, or run with --program".to_owned();
            return Checked { criterion, holds: false, found };
        };
        let found = state.pointer(&self.at);
        let (holds, problem) = self.holds(found);
        let found = problem.unwrap_or_else(|| found.map_or_else(|| "nothing".to_owned(), short));
        Checked { criterion, holds, found }
    }

    fn holds(&self, found: Option<&Value>) -> (bool, Option<String>) {
        if self.present.is_some_and(|present| present != found.is_some()) {
            return (false, None);
        }
        let says_more = self.equals.is_some()
            || self.contains.is_some()
            || self.matches.is_some()
            || self.min.is_some()
            || self.max.is_some();
        if !says_more {
            let problem = self.present.is_none().then(|| "the criterion says nothing".to_owned());
            return (self.present.is_some(), problem);
        }
        let Some(found) = found else { return (false, None) };
        let matched = match &self.matches {
            Some(pattern) => match regex::Regex::new(pattern) {
                Ok(pattern) => found.as_str().is_some_and(|text| pattern.is_match(text)),
                Err(error) => return (false, Some(format!("the pattern is none: {error}"))),
            },
            None => true,
        };
        let size = size(found);
        let within = |bound: Option<f64>, fits: fn(f64, f64) -> bool| {
            bound.is_none_or(|bound| size.is_some_and(|size| fits(size, bound)))
        };
        let holds = matched
            && self.equals.as_ref().is_none_or(|wanted| same(wanted, found))
            && self.contains.as_ref().is_none_or(|wanted| contains(found, wanted))
            && within(self.min, |size, min| size >= min)
            && within(self.max, |size, max| size <= max);
        (holds, None)
    }

    fn words(&self) -> String {
        let mut words = Vec::new();
        if let Some(present) = self.present {
            words.push(if present { "is there".to_owned() } else { "is not there".to_owned() });
        }
        words.extend(self.equals.as_ref().map(|value| format!("is {}", short(value))));
        words.extend(self.contains.as_ref().map(|value| format!("contains {}", short(value))));
        words.extend(self.matches.as_ref().map(|pattern| format!("matches /{pattern}/")));
        words.extend(self.min.map(|min| format!("is at least {min}")));
        words.extend(self.max.map(|max| format!("is at most {max}")));
        let at = if self.at.is_empty() { "the state" } else { &self.at };
        format!("{at} {}", words.join(" and "))
    }
}

/// The number itself, or how much there is of it.
#[expect(clippy::cast_precision_loss, reason = "lengths are far below 2^52")]
fn size(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => Some(text.chars().count() as f64),
        Value::Array(items) => Some(items.len() as f64),
        Value::Object(fields) => Some(fields.len() as f64),
        Value::Null | Value::Bool(_) => None,
    }
}

/// Numbers that say the same are the same: 3 and 3.0.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (_, _) => a == b,
    }
}

fn contains(found: &Value, wanted: &Value) -> bool {
    match (found, wanted) {
        (Value::String(text), Value::String(part)) => text.contains(part.as_str()),
        (Value::Array(items), wanted) => items.iter().any(|item| same(item, wanted) || has(item, wanted)),
        (found, wanted) => has(found, wanted),
    }
}

/// Whether an object has these fields.
fn has(found: &Value, wanted: &Value) -> bool {
    match (found, wanted) {
        (Value::Object(found), Value::Object(wanted)) => wanted
            .iter()
            .all(|(key, wanted)| found.get(key).is_some_and(|found| same(found, wanted) || has(found, wanted))),
        (_, _) => same(found, wanted),
    }
}

impl EventCriterion {
    fn check(&self, case: &Case) -> Checked {
        let meant = case.events.iter().filter(|event| {
            event.kind == self.kind && self.data.as_ref().is_none_or(|wanted| has(&event.data, wanted))
        });
        let found = meant.count() as u64;
        let nothing_said = self.count.is_none() && self.min.is_none() && self.max.is_none();
        let bounds =
            Bounds { min: self.count.or(self.min).or(nothing_said.then_some(1)), max: self.count.or(self.max) };
        let with = self.data.as_ref().map_or_else(String::new, |data| format!(" with {}", short(data)));
        let what = format!("× {}{with}", self.kind);
        bounds.check(&what, found)
    }
}

fn order(kinds: &[String], case: &Case) -> Checked {
    let criterion = format!("events in the order {}", kinds.join(", "));
    let mut events = case.events.iter();
    for kind in kinds {
        if !events.any(|event| event.kind == *kind) {
            return Checked { criterion, holds: false, found: format!("no {kind} at its place") };
        }
    }
    Checked { criterion, holds: true, found: "so they are".to_owned() }
}

/// A value as text, cut where it gets long.
pub(super) fn short(value: &Value) -> String {
    const CHARS_MAX: usize = 200;
    let text = value.to_string();
    match text.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], text.len()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn holds(criterion: Value, state: &Value) -> bool {
        let criterion: StateCriterion = serde_json::from_value(criterion).unwrap();
        criterion.check(Some(state)).holds
    }

    #[test]
    fn places_of_the_state_are_compared_as_said() {
        let state =
            json!({ "risk": "high", "pages": 30, "tags": ["a", { "id": 1, "x": 2 }], "none": null, "报告": "第七条" });
        for (criterion, expected) in [
            (json!({ "at": "/risk", "equals": "high" }), true),
            (json!({ "at": "/risk", "equals": "low" }), false),
            (json!({ "at": "/pages", "equals": 30.0 }), true),
            (json!({ "at": "/pages", "min": 30, "max": 30 }), true),
            (json!({ "at": "/pages", "max": 29.5 }), false),
            (json!({ "at": "/tags", "min": 2 }), true),
            (json!({ "at": "/tags", "contains": "a" }), true),
            (json!({ "at": "/tags", "contains": { "id": 1 } }), true),
            (json!({ "at": "/tags", "contains": { "id": 2 } }), false),
            (json!({ "at": "/报告", "contains": "七" }), true),
            (json!({ "at": "/报告", "matches": "^第.条$" }), true),
            (json!({ "at": "/risk", "matches": "(" }), false),
            (json!({ "at": "/none", "equals": null }), true),
            (json!({ "at": "/missing", "equals": null }), false),
            (json!({ "at": "/missing", "present": false }), true),
            (json!({ "at": "/risk", "present": false }), false),
            (json!({ "at": "/risk" }), false),
        ] {
            assert_eq!(holds(criterion.clone(), &state), expected, "{criterion}");
        }
        let unknown = serde_json::from_value::<StateCriterion>(json!({ "at": "/risk", "equal": 1 }));
        assert!(unknown.unwrap_err().to_string().contains("equal"));
        let without = StateCriterion { at: "/risk".into(), present: Some(true), ..StateCriterion::default() };
        assert!(!without.check(None).holds);
    }
}

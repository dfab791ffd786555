//! From a model's `plan_features` arguments to locked definitions. Parsing only; whoever calls writes the rows.
//!
//! Every refusal names the place in the arguments, so that a model can mend exactly that.

use longhaul_core::FeatureId;
use serde_json::{Map, Value};

use crate::{
    checks::{digest, parse_feature_checks},
    features::Definition,
};

/// Most features of one project.
pub const FEATURES_MAX: usize = 2_000;
/// Most features of one call.
pub const BATCH_MAX: usize = 60;
const STEPS_MAX: usize = 60;
const TEXT_CHARS_MAX: usize = 600;

/// Why a plan was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {message}")]
pub struct PlanError {
    /// Where in the arguments: `features[3].checks[5].target`.
    pub place: String,
    /// What is wrong and what is expected.
    pub message: String,
}

fn refuse<T>(place: impl Into<String>, message: impl Into<String>) -> Result<T, PlanError> {
    Err(PlanError { place: place.into(), message: message.into() })
}

/// Parses one batch against the ids that exist already.
///
/// # Errors
/// The first thing that is wrong, with its place.
pub fn parse_batch(arguments: &Value, existing: &[FeatureId]) -> Result<Vec<Definition>, PlanError> {
    let Some(items) = arguments.get("features").and_then(Value::as_array) else {
        return refuse("features", "must be an array of features");
    };
    if items.is_empty() || items.len() > BATCH_MAX {
        return refuse("features", format!("has {} entries; give 1 to {BATCH_MAX} a call", items.len()));
    }
    if existing.len() + items.len() > FEATURES_MAX {
        return refuse("features", format!("would make more than {FEATURES_MAX} features in the project"));
    }
    let mut batch: Vec<Definition> = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let place = format!("features[{index}]");
        let feature = parse_feature(&place, item)?;
        if existing.contains(&feature.id) || batch.iter().any(|earlier| earlier.id == feature.id) {
            return refuse(format!("{place}.id"), format!("{} is already planned; give another id", feature.id));
        }
        if let Some(twin) = batch.iter().find(|earlier| earlier.description == feature.description) {
            return refuse(format!("{place}.description"), format!("says the same as {}; plan it once", twin.id));
        }
        batch.push(feature);
    }
    check_dependencies(&batch, existing)?;
    Ok(batch)
}

fn parse_feature(place: &str, item: &Value) -> Result<Definition, PlanError> {
    const KNOWN: [&str; 6] = ["id", "category", "description", "steps", "depends_on", "checks"];
    let Some(object) = item.as_object() else { return refuse(place, "must be an object") };
    if let Some(unknown) = object.keys().find(|key| !KNOWN.contains(&key.as_str())) {
        let advice = if unknown == "passes" { "; a feature starts as not passing" } else { "" };
        return refuse(
            format!("{place}.{unknown}"),
            format!("is not a field of a feature (known: {}){advice}", KNOWN.join(", ")),
        );
    }
    let id: FeatureId = text(object, place, "id")?
        .parse()
        .map_err(|e: longhaul_core::IdError| PlanError { place: format!("{place}.id"), message: e.to_string() })?;
    let steps = texts(object, place, "steps")?;
    if steps.is_empty() || steps.len() > STEPS_MAX {
        return refuse(format!("{place}.steps"), format!("has {} sentences; give 1 to {STEPS_MAX}", steps.len()));
    }
    let checks_value = object.get("checks").cloned().unwrap_or(Value::Null);
    let checks = parse_feature_checks(&checks_value, &steps)
        .map_err(|e| PlanError { place: format!("{place}.{}", e.place), message: e.message })?;
    let mut depends_on = Vec::new();
    if object.contains_key("depends_on") {
        for (n, name) in texts(object, place, "depends_on")?.iter().enumerate() {
            let parsed = name.parse();
            depends_on.push(parsed.map_err(|e: longhaul_core::IdError| PlanError {
                place: format!("{place}.depends_on[{n}]"),
                message: e.to_string(),
            })?);
        }
    }
    Ok(Definition {
        id,
        category: text(object, place, "category")?,
        description: text(object, place, "description")?,
        checks_hash: digest(&steps, &checks),
        steps,
        depends_on,
        checks,
    })
}

fn check_dependencies(batch: &[Definition], existing: &[FeatureId]) -> Result<(), PlanError> {
    for (index, feature) in batch.iter().enumerate() {
        for (n, wanted) in feature.depends_on.iter().enumerate() {
            // Only earlier features: the order of the list is the priority, and no cycle can arise.
            let earlier = existing.contains(wanted) || batch[..index].iter().any(|f| f.id == *wanted);
            if !earlier {
                return refuse(
                    format!("features[{index}].depends_on[{n}]"),
                    format!("{wanted} is not an earlier feature; plan it before {}", feature.id),
                );
            }
        }
    }
    Ok(())
}

fn text(object: &Map<String, Value>, place: &str, field: &str) -> Result<String, PlanError> {
    let at = || format!("{place}.{field}");
    match object.get(field).and_then(Value::as_str).map(str::trim) {
        None => refuse(at(), "is missing or not a text"),
        Some("") => refuse(at(), "is empty"),
        Some(long) if long.chars().count() > TEXT_CHARS_MAX => {
            refuse(at(), format!("is longer than {TEXT_CHARS_MAX} characters"))
        }
        Some(good) => Ok(good.to_owned()),
    }
}

fn texts(object: &Map<String, Value>, place: &str, field: &str) -> Result<Vec<String>, PlanError> {
    let Some(items) = object.get(field).and_then(Value::as_array) else {
        return refuse(format!("{place}.{field}"), "is missing or not an array of texts");
    };
    let mut all = Vec::with_capacity(items.len());
    for (n, item) in items.iter().enumerate() {
        match item.as_str().map(str::trim) {
            Some(good) if !good.is_empty() && good.chars().count() <= TEXT_CHARS_MAX => all.push(good.to_owned()),
            _ => {
                return refuse(
                    format!("{place}.{field}[{n}]"),
                    format!("must be a text of 1 to {TEXT_CHARS_MAX} characters"),
                );
            }
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn feature(id: &str) -> Value {
        json!({
            "id": id, "category": "functional", "description": format!("{id} greets the visitor"),
            "steps": ["Open the page", "Verify the heading"],
            "checks": [
                {"step": 1, "check": "goto", "path": "/"},
                {"step": 2, "check": "expect", "target": {"role": "heading", "name": "Hello"}, "visible": true},
            ],
        })
    }

    /// Parses one feature after a change; gives the place and the message of the refusal, or `accepted`.
    fn check(change: impl FnOnce(&mut Value)) -> String {
        let mut changed = feature("F01");
        change(&mut changed);
        match parse_batch(&json!({"features": [changed]}), &["F00".parse().unwrap()]) {
            Ok(_) => "accepted".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_batch_is_locked_with_its_hash() {
        let batch = parse_batch(&json!({"features": [feature("F01"), feature("F02")]}), &[]).unwrap();
        assert_eq!(batch.len(), 2);
        assert_eq!(batch[0].checks_hash, digest(&batch[0].steps, &batch[0].checks));
    }

    #[test]
    fn every_refusal_names_its_place() {
        assert_eq!(check(|_| ()), "accepted");
        type Change = Box<dyn FnOnce(&mut Value)>;
        let cases: Vec<(Change, &str)> = vec![
            (Box::new(|f| f["passes"] = json!(true)), "features[0].passes: is not a field of a feature"),
            (Box::new(|f| f["id"] = json!("F 1")), "features[0].id: "),
            (Box::new(|f| f["id"] = json!("F00")), "features[0].id: F00 is already planned"),
            (Box::new(|f| f["steps"] = json!([])), "features[0].steps: has 0 sentences"),
            (Box::new(|f| f["steps"][1] = json!(7)), "features[0].steps[1]: must be a text"),
            (Box::new(|f| f["description"] = json!(" ")), "features[0].description: is empty"),
            (
                Box::new(|f| f["depends_on"] = json!(["F09"])),
                "features[0].depends_on[0]: F09 is not an earlier feature",
            ),
            (Box::new(|f| f["checks"][1]["check"] = json!("look")), "features[0].checks[1]"),
            (Box::new(|f| f["checks"] = json!([f["checks"][0]])), "features[0].checks"),
        ];
        for (change, expected) in cases {
            let refusal = check(change);
            assert!(refusal.starts_with(expected), "{refusal:?} does not start with {expected:?}");
        }
    }

    #[test]
    fn a_feature_may_depend_on_earlier_ones_only() {
        let mut second = feature("F02");
        second["depends_on"] = json!(["F01"]);
        assert!(parse_batch(&json!({"features": [feature("F01"), second.clone()]}), &[]).is_ok());
        assert!(parse_batch(&json!({"features": [second, feature("F01")]}), &[]).is_err());
    }
}

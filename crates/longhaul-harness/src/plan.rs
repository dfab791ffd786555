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

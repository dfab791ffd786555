//! From a model's `plan_features` arguments to locked definitions. Parsing only; whoever calls writes the rows.
//!
//! Every refusal names the place in the arguments, so that a model can mend exactly that; a call is told of all its
//! mistakes at once, as writing many features again is dear.

use longhaul_core::FeatureId;
use serde_json::{Map, Value};

use super::{order, sentences::unverifiable, words::Profile};
use crate::{
    checks::{digest, parse_feature_checks},
    features::{Definition, PRIORITY_DEFAULT},
};

/// Most features of one project.
pub const FEATURES_MAX: usize = 2_000;
/// Most features of one call.
pub const BATCH_MAX: usize = 60;
/// Most mistakes that a refusal names.
const MISTAKES_MAX: usize = 20;
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
    /// Further mistakes of the same call, each with its place.
    pub more: Vec<String>,
}

impl PlanError {
    pub(super) fn at(place: impl Into<String>, message: impl Into<String>) -> Self {
        Self { place: place.into(), message: message.into(), more: Vec::new() }
    }

    /// The first of these with the others behind it; nothing when there are none.
    fn all(found: Vec<Self>) -> Result<(), Self> {
        let mut found = found.into_iter();
        let Some(mut first) = found.next() else { return Ok(()) };
        let others: Vec<String> = found.map(|other| other.to_string()).collect();
        let hidden = others.len().saturating_sub(MISTAKES_MAX - 1);
        first.more = others.into_iter().take(MISTAKES_MAX - 1).collect();
        if hidden > 0 {
            first.more.push(format!("and {hidden} more"));
        }
        Err(first)
    }
}

fn refuse<T>(place: impl Into<String>, message: impl Into<String>) -> Result<T, PlanError> {
    Err(PlanError::at(place, message))
}

/// Parses one batch against the features that exist already.
///
/// # Errors
/// Everything that is wrong, each with its place.
pub fn parse_batch(arguments: &Value, existing: &[Definition]) -> Result<Vec<Definition>, PlanError> {
    parse_within(arguments, existing, &[])
}

/// The same where some ids are taken by features that are no longer part of the plan.
pub(crate) fn parse_within(
    arguments: &Value,
    existing: &[Definition],
    retired: &[FeatureId],
) -> Result<Vec<Definition>, PlanError> {
    let Some(items) = arguments.get("features").and_then(Value::as_array) else {
        return refuse("features", "must be an array of features");
    };
    if items.is_empty() || items.len() > BATCH_MAX {
        return refuse("features", format!("has {} entries; give 1 to {BATCH_MAX} a call", items.len()));
    }
    if existing.len() + items.len() > FEATURES_MAX {
        return refuse("features", format!("would make more than {FEATURES_MAX} features in the project"));
    }
    let mut known: Vec<(&FeatureId, Profile)> = existing.iter().map(|one| (&one.id, Profile::of(one))).collect();
    let mut batch: Vec<Definition> = Vec::with_capacity(items.len());
    let mut mistakes = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let place = format!("features[{index}]");
        let feature = match parse_feature(&place, item) {
            Ok(feature) => feature,
            Err(mistake) => {
                mistakes.push(mistake);
                continue;
            }
        };
        let taken = retired.contains(&feature.id) || existing.iter().chain(&batch).any(|one| one.id == feature.id);
        if taken {
            let message = format!("{} is already planned; give another id", feature.id);
            mistakes.push(PlanError::at(format!("{place}.id"), message));
            continue;
        }
        mistakes.extend(unverifiable(&place, &feature.description, &feature.steps, &feature.checks));
        batch.push(feature);
    }
    let profiles: Vec<Profile> = batch.iter().map(Profile::of).collect();
    for (feature, profile) in batch.iter().zip(profiles) {
        let twin = known.iter().find_map(|(id, other)| Some((*id, profile.twin_of(other)?)));
        if let Some((id, why)) = twin {
            let place = items.iter().position(|item| item["id"] == feature.id.as_str()).unwrap_or_default();
            let message = format!("{:?} {why} {id}; plan it once, or say what differs", feature.description);
            mistakes.push(PlanError::at(format!("features[{place}].description"), message));
        }
        known.push((&feature.id, profile));
    }
    if mistakes.is_empty() {
        mistakes = order::faults(&batch, existing);
    }
    mistakes.sort_by_key(|mistake| feature_number(&mistake.place));
    PlanError::all(mistakes)?;
    Ok(batch)
}

/// The 3 of `features[3].steps`.
fn feature_number(place: &str) -> usize {
    let inside = place.split(['[', ']']).nth(1);
    inside.and_then(|number| number.parse().ok()).unwrap_or_default()
}

fn parse_feature(place: &str, item: &Value) -> Result<Definition, PlanError> {
    const KNOWN: [&str; 7] = ["id", "category", "description", "steps", "depends_on", "priority", "checks"];
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
        .map_err(|e: longhaul_core::IdError| PlanError::at(format!("{place}.id"), e.to_string()))?;
    let mut depends_on = Vec::new();
    if object.contains_key("depends_on") {
        for (n, name) in texts(object, place, "depends_on")?.iter().enumerate() {
            let parsed = name.parse();
            depends_on.push(parsed.map_err(|e: longhaul_core::IdError| {
                PlanError::at(format!("{place}.depends_on[{n}]"), e.to_string())
            })?);
        }
    }
    let category = text(object, place, "category")?;
    let description = text(object, place, "description")?;
    let priority = priority(object, place)?;
    let (steps, checks) = parse_proof(object, place)?;
    let checks_hash = digest(&steps, &checks);
    Ok(Definition { id, category, description, steps, depends_on, priority, checks, checks_hash })
}

/// Sentences and checks of a feature, by themselves.
fn parse_proof(
    object: &Map<String, Value>,
    place: &str,
) -> Result<(Vec<String>, Vec<crate::checks::Check>), PlanError> {
    let steps = texts(object, place, "steps")?;
    if steps.is_empty() || steps.len() > STEPS_MAX {
        return refuse(format!("{place}.steps"), format!("has {} sentences; give 1 to {STEPS_MAX}", steps.len()));
    }
    let checks_value = object.get("checks").cloned().unwrap_or(Value::Null);
    let checks = parse_feature_checks(&checks_value, &steps)
        .map_err(|e| PlanError::at(format!("{place}.{}", e.place), e.message))?;
    Ok((steps, checks))
}

/// A known feature with other sentences and checks, held to the same rules; `arguments` has `steps` and `checks`.
///
/// # Errors
/// Everything that is wrong, each with its place.
pub(crate) fn parse_definition(arguments: &Value, feature: &Definition) -> Result<Definition, PlanError> {
    let empty = Map::new();
    let object = arguments.as_object().unwrap_or(&empty);
    let in_place = |mistake: PlanError| PlanError { place: mistake.place.replacen("change.", "", 1), ..mistake };
    let (steps, checks) = parse_proof(object, "change").map_err(in_place)?;
    let faults = unverifiable("change", &feature.description, &steps, &checks);
    PlanError::all(faults.into_iter().map(in_place).collect())?;
    Ok(Definition { checks_hash: digest(&steps, &checks), steps, checks, ..feature.clone() })
}

fn priority(object: &Map<String, Value>, place: &str) -> Result<u8, PlanError> {
    match object.get("priority") {
        None => Ok(PRIORITY_DEFAULT),
        Some(value) => match value.as_u64().and_then(|n| u8::try_from(n).ok()).filter(|n| (1..=5).contains(n)) {
            Some(priority) => Ok(priority),
            None => refuse(format!("{place}.priority"), "must be a number from 1 (first) to 5 (last)"),
        },
    }
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

    /// F00, whose checks are its own.
    fn existing() -> Vec<Definition> {
        let mut planned = feature("F00");
        planned["checks"][1]["target"]["name"] = json!("Welcome");
        parse_batch(&json!({"features": [planned]}), &[]).unwrap()
    }

    /// Parses one feature after a change; gives the place and the message of the refusal, or `accepted`.
    fn check(change: impl FnOnce(&mut Value)) -> String {
        let mut changed = feature("F01");
        change(&mut changed);
        match parse_batch(&json!({"features": [changed]}), &existing()) {
            Ok(_) => "accepted".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_batch_is_locked_with_its_hash() {
        let mut second = feature("F02");
        second["checks"][1]["target"]["name"] = json!("Hello again");
        let batch = parse_batch(&json!({"features": [feature("F01"), second]}), &[]).unwrap();
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
            (Box::new(|f| f["depends_on"] = json!(["F09"])), "features[0].depends_on[0]: F09 is not planned"),
            (
                Box::new(|f| f["depends_on"] = json!(["F01"])),
                "features[0].depends_on[0]: depends in a circle: F01 → F01",
            ),
            (Box::new(|f| f["priority"] = json!(6)), "features[0].priority: must be a number from 1"),
            (
                Box::new(|f| f["steps"][1] = json!("Verify that it works properly")),
                "features[0].steps[1]: \"Verify that it works properly\" is praise",
            ),
            (
                Box::new(|f| f["description"] = json!("The visitor is greeted by F00")),
                "features[0].description: \"The visitor is greeted by F00\" ",
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
    fn all_mistakes_of_a_call_are_told_at_once() {
        let (mut second, mut third) = (feature("F02"), feature("F03"));
        second["steps"] = json!([]);
        third["checks"][1]["target"]["name"] = json!("Third");
        third["passes"] = json!(false);
        let refused = parse_batch(&json!({"features": [feature("F00"), second, third]}), &existing()).unwrap_err();
        assert_eq!(refused.place, "features[0].id");
        let more: Vec<&str> = refused.more.iter().map(|line| line.split(": ").next().unwrap()).collect();
        assert_eq!(more, ["features[1].steps", "features[2].passes"]);
    }

    #[test]
    fn a_circle_of_dependencies_is_named() {
        let plan = |dependencies: [&[&str]; 3]| {
            let planned = dependencies.iter().enumerate().map(|(n, depends_on)| {
                let mut planned = feature(&format!("F0{}", n + 1));
                planned["checks"][1]["target"]["name"] = json!(format!("Heading {n}"));
                planned["description"] = json!(["apples fall", "pears roll", "plums hang"][n]);
                planned["depends_on"] = json!(depends_on);
                planned
            });
            parse_batch(&json!({"features": planned.collect::<Vec<_>>()}), &[]).map_err(|error| error.to_string())
        };
        assert!(plan([&["F02"], &["F03"], &[]]).is_ok(), "any order within a call");
        let refused = plan([&["F02"], &["F03"], &["F01"]]).unwrap_err();
        assert_eq!(
            refused,
            "features[0].depends_on[0]: depends in a circle: F01 → F02 → F03 → F01; take one of these away"
        );
    }
}

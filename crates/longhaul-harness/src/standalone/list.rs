//! A folder's own feature list, as any project may keep one: `feature_list.json`, with the checks in `feature_checks.json`
//! or beside each feature. Reading only. It takes nobody's word for `passes`; that is shown and decides nothing.
//!
//! Invariant: checks that were locked with a hash are read only while sentences and checks still have it.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

use longhaul_core::{Digest, FeatureId};
use serde_json::{Map, Value};

use crate::{
    checks::{digest, parse_feature_checks},
    features::Definition,
    projections::{FEATURE_CHECKS, FEATURE_LIST},
};

/// Largest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Why a folder's list cannot be verified.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// There is no list.
    #[error(
        "{path} does not exist; name a folder with a feature list by `--dir DIR`, or write one: docs/verifying.md says how"
    )]
    Missing {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// A file cannot be read.
    #[error("{path} cannot be read; make it a readable JSON file of at most 64 MiB")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file says something that cannot be verified.
    #[error("{path}: {place}: {message}")]
    Wrong {
        /// The file.
        path: PathBuf,
        /// Where in it: `features[3].checks[1].target`.
        place: String,
        /// What is wrong and what is expected.
        message: String,
    },
    /// No feature has checks.
    #[error(
        "none of the {features} features in {path} has checks, so nothing can be verified; write them into feature_checks.json: docs/checks.md says how"
    )]
    NoChecks {
        /// The list.
        path: PathBuf,
        /// How many features it has.
        features: usize,
    },
}

/// One entry of the list.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed {
    /// What it is; without checks when nobody wrote any.
    pub definition: Definition,
    /// What the list says of it. Nothing is believed.
    pub passes: bool,
}

impl Listed {
    /// Whether there is anything to carry out.
    #[must_use]
    pub fn has_checks(&self) -> bool {
        !self.definition.checks.is_empty()
    }
}

/// Whether the folder has a feature list.
#[must_use]
pub fn has_list(dir: &Path) -> bool {
    dir.join(FEATURE_LIST).is_file()
}

/// Reads the folder's list and checks.
///
/// # Errors
/// When there is none, or it cannot be verified as it stands; the message names the place.
pub fn read_list(dir: &Path) -> Result<Vec<Listed>, ListError> {
    let path = dir.join(FEATURE_LIST);
    let Some(list) = read(&path)? else { return Err(ListError::Missing { path }) };
    let checks_path = dir.join(FEATURE_CHECKS);
    let checks = read(&checks_path)?;
    let listed = parse(&list, checks.as_ref()).map_err(|wrong| {
        let path = if wrong.in_checks { checks_path } else { path.clone() };
        ListError::Wrong { path, place: wrong.place, message: wrong.message }
    })?;
    if !listed.iter().any(Listed::has_checks) {
        return Err(ListError::NoChecks { path, features: listed.len() });
    }
    Ok(listed)
}

fn read(path: &Path) -> Result<Option<Value>, ListError> {
    let unreadable = |source| ListError::Unreadable { path: path.to_owned(), source };
    let length = match fs::metadata(path) {
        Ok(found) => found.len(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(error)),
    };
    if length > FILE_BYTES_MAX {
        return Err(unreadable(io::Error::new(io::ErrorKind::FileTooLarge, format!("it has {length} bytes"))));
    }
    let text = fs::read(path).map_err(unreadable)?;
    serde_json::from_slice(&text).map(Some).map_err(|error| unreadable(error.into()))
}

struct Wrong {
    in_checks: bool,
    place: String,
    message: String,
}

fn wrong<T>(in_checks: bool, place: impl Into<String>, message: impl Into<String>) -> Result<T, Wrong> {
    Err(Wrong { in_checks, place: place.into(), message: message.into() })
}

fn parse(list: &Value, checks: Option<&Value>) -> Result<Vec<Listed>, Wrong> {
    let Some(entries) = entries(list) else {
        return wrong(false, "the file", "must be an array of features, or an object with the array `features`");
    };
    let mut beside = match checks {
        None => Vec::new(),
        Some(checks) => checks_by_id(checks)?,
    };
    let mut ids = BTreeSet::new();
    let mut listed = Vec::with_capacity(entries.len());
    for (index, entry) in entries.iter().enumerate() {
        let place = format!("features[{index}]");
        let Some(object) = entry.as_object() else { return wrong(false, place, "must be an object") };
        let id = id_of(object, index, &place)?;
        if !ids.insert(id.clone()) {
            return wrong(false, format!("{place}.id"), format!("{id} is used twice; give every feature its own"));
        }
        let at = beside.iter().position(|checks| checks.id == id);
        let own = at.map(|at| beside.swap_remove(at));
        listed.push(feature(id, object, own, &place)?);
    }
    if let Some(unknown) = beside.first() {
        let message = format!("{} is not in feature_list.json; write it there, or remove its checks", unknown.id);
        return wrong(true, unknown.place.clone(), message);
    }
    Ok(listed)
}

fn entries(value: &Value) -> Option<&Vec<Value>> {
    value.as_array().or_else(|| value.get("features").and_then(Value::as_array))
}

/// The checks of one feature, as `feature_checks.json` has them.
struct Beside<'a> {
    id: FeatureId,
    place: String,
    checks: &'a Value,
    hash: Option<Digest>,
    depends_on: Vec<FeatureId>,
}

fn checks_by_id(checks: &Value) -> Result<Vec<Beside<'_>>, Wrong> {
    let Some(entries) = entries(checks) else {
        return wrong(true, "the file", "must be an object with the array `features`, each with an id and its checks");
    };
    let mut all: Vec<Beside<'_>> = Vec::with_capacity(entries.len());
    for (index, entry) in entries.iter().enumerate() {
        let place = format!("features[{index}]");
        let id = match entry.get("id").and_then(Value::as_str).map(str::parse::<FeatureId>) {
            Some(Ok(id)) => id,
            Some(Err(error)) => return wrong(true, format!("{place}.id"), error.to_string()),
            None => return wrong(true, format!("{place}.id"), "is missing or not a text"),
        };
        if all.iter().any(|earlier| earlier.id == id) {
            return wrong(true, format!("{place}.id"), format!("{id} has checks twice"));
        }
        let hash = match entry.get("hash").and_then(Value::as_str).map(str::parse::<Digest>) {
            None => None,
            Some(Ok(hash)) => Some(hash),
            Some(Err(error)) => return wrong(true, format!("{place}.hash"), error.to_string()),
        };
        let depends_on = entry.get("depends_on").and_then(Value::as_array).into_iter().flatten();
        let depends_on = depends_on.filter_map(|id| id.as_str()?.parse().ok()).collect();
        let checks = entry.get("checks").unwrap_or(&Value::Null);
        all.push(Beside { id, place, checks, hash, depends_on });
    }
    Ok(all)
}

/// The entry's own id; a list without ids is numbered from F01 in its order.
fn id_of(object: &Map<String, Value>, index: usize, place: &str) -> Result<FeatureId, Wrong> {
    let text = match object.get("id") {
        None => format!("F{:02}", index + 1),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => format!("F{number}"),
        Some(_) => return wrong(false, format!("{place}.id"), "must be a text"),
    };
    text.parse().or_else(|error: longhaul_core::IdError| wrong(false, format!("{place}.id"), error.to_string()))
}

fn feature(
    id: FeatureId,
    object: &Map<String, Value>,
    beside: Option<Beside<'_>>,
    place: &str,
) -> Result<Listed, Wrong> {
    let text = |name: &str| object.get(name).and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty());
    let Some(description) = ["description", "name", "title"].into_iter().find_map(text) else {
        return wrong(false, format!("{place}.description"), "is missing; say in a sentence what a user can do");
    };
    let steps = match object.get("steps") {
        None => Vec::new(),
        Some(steps) => match serde_json::from_value::<Vec<String>>(steps.clone()) {
            Ok(steps) => steps,
            Err(_) => return wrong(false, format!("{place}.steps"), "must be an array of sentences"),
        },
    };
    let own = object.get("checks").filter(|checks| !checks.is_null());
    let (given, in_checks, at) = match (own, &beside) {
        (Some(_), Some(beside)) if !beside.checks.is_null() => {
            return wrong(true, &beside.place, format!("{id} has checks in feature_list.json too; keep one of them"));
        }
        (Some(own), _) => (Some(own), false, place.to_owned()),
        (None, Some(beside)) => (Some(beside.checks).filter(|c| !c.is_null()), true, beside.place.clone()),
        (None, None) => (None, false, place.to_owned()),
    };
    let checks = match given {
        None => Vec::new(),
        Some(given) => match parse_feature_checks(given, &steps) {
            Ok(checks) => checks,
            Err(error) => return wrong(in_checks, format!("{at}.{}", error.place), error.message),
        },
    };
    let checks_hash = digest(&steps, &checks);
    if let Some(locked) = beside.as_ref().and_then(|beside| beside.hash)
        && locked != checks_hash
    {
        let message = format!(
            "the sentences and checks of {id} are not those that were locked; take both files from the commit that locked \
             them, or remove the hash if you mean the change"
        );
        return wrong(true, format!("{at}.hash"), message);
    }
    Ok(Listed {
        passes: object.get("passes").and_then(Value::as_bool).unwrap_or(false),
        definition: Definition {
            category: text("category").unwrap_or("feature").to_owned(),
            description: description.to_owned(),
            depends_on: beside.map(|beside| beside.depends_on).unwrap_or_default(),
            priority: crate::features::PRIORITY_DEFAULT,
            id,
            steps,
            checks,
            checks_hash,
        },
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn checks() -> Value {
        json!([
            {"step": 1, "check": "goto", "path": "/"},
            {"step": 2, "check": "expect", "target": {"role": "heading", "name": "Hello"}, "visible": true},
        ])
    }

    fn entry(id: &str) -> Value {
        json!({"id": id, "category": "functional", "description": "It greets", "steps": ["Open", "Look"], "passes": true})
    }

    fn said(list: &Value, checks: Option<&Value>) -> String {
        match parse(list, checks) {
            Ok(listed) => {
                format!("{} listed, {} checked", listed.len(), listed.iter().filter(|l| l.has_checks()).count())
            }
            Err(wrong) => format!("{}: {}", wrong.place, wrong.message),
        }
    }

    #[test]
    fn a_list_is_read_with_checks_beside_it_or_within_it() {
        let beside = json!({"features": [{"id": "F01", "checks": checks()}]});
        assert_eq!(said(&json!([entry("F01"), entry("F02")]), Some(&beside)), "2 listed, 1 checked");
        let mut within = entry("F01");
        within["checks"] = checks();
        assert_eq!(said(&json!({"features": [within.clone()]}), None), "1 listed, 1 checked");
        assert!(said(&json!([within]), Some(&beside)).contains("has checks in feature_list.json too"));
        // The published form of such a list has neither ids nor checks.
        let bare = json!([{"category": "style", "description": "It is blue", "steps": ["Look"], "passes": false}]);
        assert_eq!(parse(&bare, None).ok().unwrap()[0].definition.id.to_string(), "F01");
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        let beside = |checks: Value| json!({"features": [checks]});
        let list = json!([entry("F01")]);
        assert!(said(&json!("x"), None).starts_with("the file: must be an array"));
        assert!(said(&json!([entry("F01"), entry("F01")]), None).starts_with("features[1].id: F01 is used twice"));
        assert!(said(&json!([{"steps": []}]), None).starts_with("features[0].description: is missing"));
        let stranger = beside(json!({"id": "F09", "checks": checks()}));
        assert!(said(&list, Some(&stranger)).starts_with("features[0]: F09 is not in feature_list.json"));
        let mut unknown = checks();
        unknown[1]["check"] = json!("look");
        let unknown = beside(json!({"id": "F01", "checks": unknown}));
        assert!(said(&list, Some(&unknown)).starts_with("features[0].checks[1]"), "{}", said(&list, Some(&unknown)));
    }

    #[test]
    fn checks_that_were_edited_after_they_were_locked_are_refused() {
        let list = json!([entry("F01")]);
        let steps = ["Open".to_owned(), "Look".to_owned()];
        let locked = digest(&steps, &parse_feature_checks(&checks(), &steps).unwrap());
        let mut file = json!({"features": [{"id": "F01", "checks": checks(), "hash": locked}]});
        assert_eq!(said(&list, Some(&file)), "1 listed, 1 checked");
        file["features"][0]["checks"][1]["target"]["name"] = json!("Bye");
        assert!(said(&list, Some(&file)).contains("are not those that were locked"));
    }
}

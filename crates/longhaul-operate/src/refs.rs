//! References to records in values: finding them, and whether what they refer to is there and is what they say.
//!
//! It owns what a reference looks like: an object whose `id` is a record's id and whose `digest` is a digest. A record's
//! id by itself is a reference too, without a word about the content. Nothing here changes anything.

use std::collections::HashMap;

use longhaul_core::{Digest, RecordId, TenantId};
use longhaul_durable::recorded_values;
use longhaul_store::{Check, Look, ReadTx, StoreError, values};
use serde_json::Value;

use crate::rows;

/// What every JSON with a reference in it holds.
pub(crate) const MARK: &str = "\"rec_";

/// A reference found in a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mentioned {
    /// The record.
    pub(crate) id: String,
    /// Digest of the content that is meant, if it says so.
    pub(crate) digest: Option<String>,
    /// Where in the value: `/report/0`.
    pub(crate) path: String,
}

/// All references in a value, in the order of the value.
pub(crate) fn in_value(value: &Value) -> Vec<Mentioned> {
    let mut found = Vec::new();
    walk(value, &mut String::new(), &mut found);
    found
}

fn walk(value: &Value, path: &mut String, found: &mut Vec<Mentioned>) {
    let at = |path: &String| if path.is_empty() { "/".to_owned() } else { path.clone() };
    match value {
        Value::String(text) => {
            if is_record(text) {
                found.push(Mentioned { id: text.clone(), digest: None, path: at(path) });
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                let length = path.len();
                path.push_str(&format!("/{index}"));
                walk(item, path, found);
                path.truncate(length);
            }
        }
        Value::Object(fields) => {
            let id = fields.get("id").and_then(Value::as_str).filter(|id| is_record(id));
            let digest = fields.get("digest").and_then(Value::as_str).filter(|text| text.parse::<Digest>().is_ok());
            let whole = id.zip(digest);
            if let Some((id, digest)) = whole {
                found.push(Mentioned { id: id.to_owned(), digest: Some(digest.to_owned()), path: at(path) });
            }
            for (name, item) in fields.iter().filter(|(name, _)| whole.is_none() || *name != "id") {
                let length = path.len();
                path.push('/');
                path.push_str(&name.replace('~', "~0").replace('/', "~1"));
                walk(item, path, found);
                path.truncate(length);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn is_record(text: &str) -> bool {
    text.starts_with("rec_") && text.parse::<RecordId>().is_ok()
}

const LOST: &str = "restore a backup; if the record was erased, what refers to it has to be brought up to date by its \
                    program";

/// What references must satisfy.
pub(crate) const CHECKS: &[Check] = &[
    Check {
        component: "workspace",
        name: "every record that recorded values refer to is there, with the content they mean",
        advice: LOST,
        look: Look::Code(references),
    },
    Check {
        component: "workspace",
        name: "every end of a link is there",
        advice: "restore a backup; if there is none, report it with this line",
        look: Look::Code(link_ends),
    },
];

/// Looks records up, each once.
#[derive(Default)]
struct Looked(HashMap<(String, String), Option<String>>);

impl Looked {
    /// What is wrong with a reference, if something is.
    fn wrong(&mut self, read: &ReadTx<'_>, tenant: &TenantId, found: &Mentioned) -> Result<Option<String>, StoreError> {
        let key = (tenant.to_string(), found.id.clone());
        if !self.0.contains_key(&key) {
            let digest = read.query_optional(
                "SELECT digest FROM records WHERE tenant_id = ?1 AND record_id = ?2",
                &values![tenant, &found.id],
                |row| row.get::<String>(0),
            )?;
            self.0.insert(key.clone(), digest);
        }
        let there = self.0.get(&key).and_then(Option::as_ref);
        Ok(match (there, &found.digest) {
            (None, _) => Some(format!("{}, which is not there", found.id)),
            (Some(is), Some(meant)) if is != meant => {
                Some(format!("{} with the content {meant}, and its content is {is}", found.id))
            }
            (Some(_), _) => None,
        })
    }
}

fn references(read: &ReadTx<'_>) -> Result<Vec<String>, StoreError> {
    let mut looked = Looked::default();
    let mut wrong = Vec::new();
    let known = rows::components(read)?;
    if known.iter().any(|known| known == "durable") {
        let mut found = Vec::new();
        recorded_values(read, None, MARK, |recorded| {
            for mentioned in in_value(&recorded.value) {
                found.push((recorded.tenant.clone(), format!("the {} {}", recorded.what, recorded.id), mentioned));
            }
            Ok(())
        })?;
        for (tenant, place, mentioned) in found {
            if let Some(what) = looked.wrong(read, &tenant, &mentioned)? {
                wrong.push(format!("{place} refers at {} to {what}", mentioned.path));
            }
        }
    }
    for (tenant, place, value) in rows::kept_references(read)? {
        for mentioned in in_value(&value) {
            if let Some(what) = looked.wrong(read, &tenant, &mentioned)? {
                wrong.push(format!("{place} refers at {} to {what}", mentioned.path));
            }
        }
    }
    Ok(wrong)
}

fn link_ends(read: &ReadTx<'_>) -> Result<Vec<String>, StoreError> {
    rows::dangling_links(read)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn references_are_found_wherever_they_stand_and_nothing_else_is() {
        let digest = Digest::of("x").to_string();
        let value = json!({
            "report": { "id": "rec_1", "digest": digest },
            "list": [{ "deep/er": ["rec_2"] }, "rec_", "record rec_3", "rec_bad!"],
            "half": { "id": "rec_4", "digest": "no digest" },
        });
        let found: Vec<_> = in_value(&value).into_iter().map(|found| (found.id, found.digest, found.path)).collect();
        assert_eq!(
            found,
            [
                ("rec_1".to_owned(), Some(digest), "/report".to_owned()),
                ("rec_2".to_owned(), None, "/list/0/deep~1er/0".to_owned()),
                ("rec_4".to_owned(), None, "/half/id".to_owned()),
            ]
        );
    }
}

//! Memories as others keep them: `{"text": …}` a line, and what mem0's `get_all` and export give.
//!
//! What is known by a name of ours goes there; the rest becomes metadata, so that nothing is lost in silence. Invariant:
//! the same entry always becomes the same memory with the same id, so that importing twice doubles nothing.

use longhaul_core::{Digest, MemoryId, Scope, TaskId};
use serde_json::{Map, Value};

use super::record::Moment;
use crate::{Fact, Index, Item, Kind, Namespace, Source, Tier};

/// What foreign entries get where they do not say.
#[derive(Debug, Clone)]
pub(crate) struct Defaults {
    pub(crate) scope: Scope,
    pub(crate) namespace: Namespace,
    pub(crate) collection: String,
    pub(crate) kind: Kind,
    pub(crate) source: Source,
}

/// The members that hold the text, the first that is there.
const TEXT: [&str; 4] = ["text", "memory", "content", "data"];
/// Members that say nothing about the memory itself.
const DROPPED: [&str; 4] = ["hash", "score", "embedding", "text_lemmatized"];

/// The memory that an entry means.
///
/// # Errors
/// What is missing or cannot be, in words that follow the entry's place.
pub(crate) fn item(mut entry: Map<String, Value>, defaults: &Defaults) -> Result<Item, String> {
    let content = text(&mut entry)?;
    let mut meta = match entry.remove("metadata").or_else(|| entry.remove("meta")) {
        Some(Value::Object(meta)) => meta,
        Some(Value::Null) | None => Map::new(),
        Some(other) => Map::from_iter([("metadata".to_owned(), other)]),
    };
    let created = time(&mut entry, &["created_at", "timestamp", "time", "date"])?;
    let happened = time(&mut entry, &["happened_at"])?.or(created);
    let expires = expiry(&mut entry)?;
    let fact = fact(&mut entry)?;
    let tags = tags(&mut entry);
    let thread = ["thread", "run_id", "session_id", "conversation_id"].iter().find_map(|name| word(&mut entry, name));
    let namespace = parsed(&mut entry, "namespace")?.unwrap_or_else(|| defaults.namespace.clone());
    let collection = word(&mut entry, "collection").unwrap_or_else(|| defaults.collection.clone());
    let kind = parsed(&mut entry, "kind")?.unwrap_or(if fact.is_some() { Kind::Fact } else { defaults.kind });
    let source = parsed(&mut entry, "source").ok().flatten().unwrap_or(defaults.source);
    let task: Option<TaskId> = parsed(&mut entry, "task")?;
    let importance = number(&mut entry, "importance")?.unwrap_or(0.5);
    let pinned = matches!(entry.remove("pinned"), Some(Value::Bool(true)));
    let id = entry.remove("id");
    for name in DROPPED {
        entry.remove(name);
    }
    for (name, value) in entry {
        if !value.is_null() {
            meta.entry(name).or_insert(value);
        }
    }
    let named = match &id {
        Some(Value::String(id)) => id.parse::<MemoryId>().ok(),
        Some(_) | None => None,
    };
    let id = match (named, id) {
        (Some(id), _) => id,
        (None, Some(id)) if !id.is_null() => {
            let known = derived(&[namespace.as_str(), &id.to_string()]);
            meta.insert("imported_id".to_owned(), id);
            known
        }
        (None, _) => {
            let at = created.map_or_else(String::new, |at| at.0.0.to_string());
            let meta = Value::Object(meta.clone()).to_string();
            derived(&[namespace.as_str(), &collection, &content, &at, &meta])
        }
    };
    // Without a time of its own the import fills it in.
    let unknown = longhaul_core::TimeMs(0);
    Ok(Item {
        id,
        namespace,
        collection,
        kind,
        source,
        content,
        meta,
        tags,
        importance,
        pinned,
        user: defaults.scope.user.clone(),
        task,
        thread,
        created_at: created.map_or(unknown, |at| at.0),
        happened_at: happened.map_or(unknown, |at| at.0),
        expires_at: expires.map(|at| at.0),
        fact,
        superseded_by: None,
        superseded_at: None,
        index: Index::Both,
        tier: Tier::Hot,
    })
}

/// An id that follows from what it stands for.
pub(crate) fn derived(parts: &[&str]) -> MemoryId {
    let digest = Digest::of_parts(parts.iter().map(|part| part.as_bytes()));
    MemoryId::from_body(&format!("i{}", &digest.hex()[..31]))
}

fn text(entry: &mut Map<String, Value>) -> Result<String, String> {
    for name in TEXT {
        match entry.get(name) {
            Some(Value::String(text)) => {
                let text = text.clone();
                entry.remove(name);
                return Ok(text);
            }
            // A conversation's message.
            Some(Value::Object(inner)) => {
                if let Some(Value::String(text)) = inner.get("text").or_else(|| inner.get("content")) {
                    let text = text.clone();
                    entry.remove(name);
                    return Ok(text);
                }
            }
            Some(_) | None => {}
        }
    }
    Err("has no text: it needs a member `text` (or `memory`, `content`, `data`) with a string".to_owned())
}

fn time(entry: &mut Map<String, Value>, names: &[&str]) -> Result<Option<Moment>, String> {
    for name in names {
        match entry.remove(*name) {
            None | Some(Value::Null) => {}
            Some(value) => {
                let at = Moment::parse(&value);
                return at.map(Some).ok_or_else(|| format!("has a `{name}` that is no time: {}", cut(&value)));
            }
        }
    }
    Ok(None)
}

/// mem0's date of expiry is the last day on which the memory is shown.
fn expiry(entry: &mut Map<String, Value>) -> Result<Option<Moment>, String> {
    const DAY_MS: i64 = 86_400_000;
    if let Some(at) = time(entry, &["expires_at"])? {
        return Ok(Some(at));
    }
    let last = time(entry, &["expiration_date"])?;
    Ok(last.map(|at| Moment(longhaul_core::TimeMs(at.0.0.saturating_add(DAY_MS)))))
}

fn fact(entry: &mut Map<String, Value>) -> Result<Option<Fact>, String> {
    let (valid_from, valid_to) = (time(entry, &["valid_from", "valid_at"])?, time(entry, &["valid_to", "invalid_at"])?);
    match (word(entry, "subject"), word(entry, "attribute")) {
        (Some(subject), Some(attribute)) => Ok(Some(Fact {
            subject,
            attribute,
            valid_from: valid_from.map(|at| at.0),
            valid_to: valid_to.map(|at| at.0),
        })),
        (None, None) => Ok(None),
        (Some(_), None) | (None, Some(_)) => Err("has one of `subject` and `attribute`; a fact needs both".to_owned()),
    }
}

fn tags(entry: &mut Map<String, Value>) -> Vec<String> {
    let mut tags = Vec::new();
    for name in ["tags", "categories"] {
        if let Some(Value::Array(values)) = entry.remove(name) {
            tags.extend(values.into_iter().filter_map(|value| match value {
                Value::String(tag) => Some(tag),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => None,
            }));
        }
    }
    tags.sort();
    tags.dedup();
    tags
}

/// A text that is not empty.
fn word(entry: &mut Map<String, Value>, name: &str) -> Option<String> {
    let text = entry.get(name)?.as_str().filter(|text| !text.is_empty())?.to_owned();
    entry.remove(name);
    Some(text)
}

fn parsed<T: std::str::FromStr>(entry: &mut Map<String, Value>, name: &str) -> Result<Option<T>, String>
where
    T::Err: std::fmt::Display,
{
    let Some(text) = entry.get(name).and_then(Value::as_str) else { return Ok(None) };
    let read = text.parse().map_err(|error| format!("cannot be taken: {error}"))?;
    entry.remove(name);
    Ok(Some(read))
}

fn number(entry: &mut Map<String, Value>, name: &str) -> Result<Option<f32>, String> {
    match entry.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => {
            let number = value.as_f64().map(|number| number as f32);
            number.map(Some).ok_or_else(|| format!("has `{name}` that is no number: {}", cut(&value)))
        }
    }
}

fn cut(value: &Value) -> String {
    value.to_string().chars().take(60).collect()
}

#[cfg(test)]
mod tests {
    use longhaul_core::TimeMs;
    use serde_json::json;

    use super::*;

    fn defaults() -> Defaults {
        Defaults {
            scope: Scope::single_user(),
            namespace: Namespace::default(),
            collection: "imported".to_owned(),
            kind: Kind::Note,
            source: Source::Outside,
        }
    }

    fn of(value: Value) -> Result<Item, String> {
        let Value::Object(entry) = value else { panic!("an object") };
        item(entry, &defaults())
    }

    #[test]
    fn a_text_alone_is_a_memory() {
        let found = of(json!({ "text": "Ada likes tea" })).expect("a memory");
        assert_eq!(
            (found.content.as_str(), found.kind, found.collection.as_str()),
            ("Ada likes tea", Kind::Note, "imported")
        );
        assert_eq!(found.id, of(json!({ "text": "Ada likes tea" })).expect("the same").id);
        assert_ne!(found.id, of(json!({ "text": "Ada likes coffee" })).expect("another").id);
    }

    #[test]
    fn what_mem0_gives_keeps_its_time_its_categories_and_its_metadata() {
        let entry = json!({
            "id": "550e8400-e29b-41d4-a716-446655440000", "memory": "Prefers morning meetings", "hash": "a1b2", "score": 0.3,
            "user_id": "arjun", "agent_id": null, "run_id": "run-7", "categories": ["work", "schedule"],
            "metadata": { "type": "preference" }, "created_at": "2026-02-03T04:05:06.789-08:00", "updated_at": null,
            "expiration_date": "2027-01-01"
        });
        let found = of(entry.clone()).expect("a memory");
        assert_eq!(found.content, "Prefers morning meetings");
        assert_eq!(found.created_at, TimeMs(1_770_120_306_789));
        assert_eq!((found.happened_at, found.expires_at), (found.created_at, Some(TimeMs(1_798_848_000_000))));
        assert_eq!(
            (found.tags, found.thread.as_deref()),
            (vec!["schedule".to_owned(), "work".to_owned()], Some("run-7"))
        );
        let meta =
            json!({ "type": "preference", "user_id": "arjun", "imported_id": "550e8400-e29b-41d4-a716-446655440000" });
        assert_eq!(Value::Object(found.meta), meta);
        assert_eq!(found.id, of(entry).expect("the same").id);
    }

    #[test]
    fn what_cannot_be_a_memory_says_why() {
        for (entry, said) in [
            (json!({}), "has no text: it needs a member `text`"),
            (json!({ "text": 7 }), "has no text"),
            (json!({ "text": "x", "created_at": "soon" }), "has a `created_at` that is no time: \"soon\""),
            (json!({ "text": "x", "kind": "thought" }), "cannot be taken: kind is thought: expected one of"),
            (json!({ "text": "x", "subject": "ada" }), "has one of `subject` and `attribute`"),
            (json!({ "text": "x", "importance": "high" }), "has `importance` that is no number"),
        ] {
            let problem = of(entry).expect_err(said);
            assert!(problem.starts_with(said), "{problem}");
        }
    }
}

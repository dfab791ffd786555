//! Collections as `network.yaml` chooses them: what is kept where, for whom, found how, with which metadata. Pure.

use longhaul_memory::{Index, Kind};
use longhaul_network::{Pattern, Refusal};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// A collection of a network.
#[derive(Debug, Clone)]
pub(super) struct Collection {
    pub(super) name: String,
    pub(super) description: String,
    /// Each group has its own part, which others do not find.
    pub(super) by_group: bool,
    pub(super) index: Index,
    pub(super) kind: Kind,
    /// Fields that metadata has to have.
    pub(super) required: Vec<String>,
    /// Type and allowed values of fields.
    pub(super) properties: Map<String, Value>,
    /// Other fields are refused.
    pub(super) is_closed: bool,
    pub(super) retrieval: Retrieval,
    /// Groups that may; empty for everybody.
    pub(super) read: Vec<String>,
    pub(super) write: Vec<String>,
    pub(super) keep_days: Option<i64>,
    pub(super) observes: Vec<Watch>,
}

/// How a collection is searched, unless a search says otherwise.
#[derive(Debug, Clone)]
pub(super) struct Retrieval {
    pub(super) k: i64,
    pub(super) min_score: f64,
    pub(super) newest_first: bool,
    pub(super) context: bool,
}

/// Events whose text is kept.
#[derive(Debug, Clone)]
pub(super) struct Watch {
    pub(super) pattern: Pattern,
    /// The field of the payload with the text, with dots; the usual ones without it.
    pub(super) text: Option<String>,
    pub(super) kind: Option<Kind>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    partition: Option<String>,
    #[serde(default)]
    embedding: Option<String>,
    #[serde(default)]
    search_by: Option<String>,
    #[serde(default)]
    kind: Option<String>,
    #[serde(default)]
    metadata: Option<Schema>,
    #[serde(default)]
    retrieval: Option<WrittenRetrieval>,
    #[serde(default)]
    read: Vec<String>,
    #[serde(default)]
    write: Vec<String>,
    #[serde(default)]
    keep_days: Option<i64>,
    #[serde(default)]
    observe: Vec<WrittenWatch>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Schema {
    #[serde(default)]
    required: Vec<String>,
    #[serde(default)]
    properties: Map<String, Value>,
    #[serde(default)]
    closed: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenRetrieval {
    #[serde(default)]
    k: Option<i64>,
    #[serde(default)]
    min_score: Option<f64>,
    #[serde(default)]
    order: Option<String>,
    #[serde(default)]
    context: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenWatch {
    event: String,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    kind: Option<String>,
}

/// The collections of a mod's `config`; the three usual ones where it names none.
pub(super) fn read(config: &Map<String, Value>, embedder: Option<&str>) -> Result<Vec<Collection>, Refusal> {
    let by_group = match config.get("partition").and_then(Value::as_str) {
        None | Some("network") => false,
        Some("group") => true,
        Some(other) => return Err(wrong(format!("partition {other:?}: write \"network\" or \"group\""))),
    };
    let written = match config.get("collections") {
        None | Some(Value::Null) => usual(),
        Some(collections) => collections.clone(),
    };
    let written: Vec<Value> = match written {
        Value::Array(list) => list,
        _ => return Err(wrong("collections: a list is needed".to_owned())),
    };
    let mut read: Vec<Collection> = Vec::new();
    for each in written {
        // A name alone is one of the usual ones, or a new one with nothing special.
        let each = match each {
            Value::String(name) => named(&name),
            each => each,
        };
        let written: Written =
            serde_path_to_error::deserialize(each).map_err(|error| wrong(format!("collections: {error}")))?;
        if read.iter().any(|other| other.name == written.name) {
            return Err(wrong(format!("collections: {:?} is there twice", written.name)));
        }
        read.push(made(written, by_group, embedder)?);
    }
    Ok(read)
}

fn made(written: Written, by_group: bool, embedder: Option<&str>) -> Result<Collection, Refusal> {
    let at = |what: String| wrong(format!("collections: {}: {what}", written.name));
    let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_.-".contains(&b);
    if !(1..=64).contains(&written.name.len()) || !written.name.bytes().all(fits) {
        return Err(at("a name is 1 to 64 of a-z, 0-9, `_`, `.`, `-`".to_owned()));
    }
    let by_group = match written.partition.as_deref() {
        None => by_group,
        Some("network") => false,
        Some("group") => true,
        Some(other) => return Err(at(format!("partition {other:?}: write \"network\" or \"group\""))),
    };
    let index = match (written.embedding.as_deref(), written.search_by.as_deref()) {
        (Some("none"), None | Some("words")) => Index::Words,
        (Some("none"), Some(other)) => return Err(at(format!("search_by {other:?} needs an embedding"))),
        (Some(model), _) if model != "default" && Some(model) != embedder => {
            let has = embedder.unwrap_or("none");
            return Err(at(format!(
                "embedding {model:?}: this host embeds with {has}: write \"default\", \"none\", or give the host that model"
            )));
        }
        (_, None | Some("both")) => Index::Both,
        (_, Some("words")) => Index::Words,
        (_, Some("meaning")) => Index::Meaning,
        (_, Some(other)) => return Err(at(format!("search_by {other:?}: write both, words or meaning"))),
    };
    let kind = |word: &str| word.parse::<Kind>().map_err(|error| at(error.to_string()));
    let retrieval = written.retrieval.as_ref();
    let newest_first = match retrieval.and_then(|retrieval| retrieval.order.as_deref()) {
        None | Some("relevance") => false,
        Some("newest") => true,
        Some(other) => return Err(at(format!("retrieval.order {other:?}: write relevance or newest"))),
    };
    let mut observes = Vec::new();
    for watch in &written.observe {
        let kind = watch.kind.as_deref().map(kind).transpose()?;
        observes.push(Watch { pattern: Pattern::new(&watch.event), text: watch.text.clone(), kind });
    }
    let schema = written.metadata.as_ref();
    Ok(Collection {
        by_group,
        index,
        kind: kind(written.kind.as_deref().unwrap_or("note"))?,
        required: schema.map(|schema| schema.required.clone()).unwrap_or_default(),
        properties: schema.map(|schema| schema.properties.clone()).unwrap_or_default(),
        is_closed: schema.is_some_and(|schema| schema.closed),
        retrieval: Retrieval {
            k: retrieval.and_then(|retrieval| retrieval.k).unwrap_or(5).clamp(1, 100),
            min_score: retrieval.and_then(|retrieval| retrieval.min_score).unwrap_or(0.0),
            newest_first,
            context: retrieval.and_then(|retrieval| retrieval.context).unwrap_or(true),
        },
        keep_days: written.keep_days.filter(|days| *days > 0),
        observes,
        name: written.name,
        description: written.description,
        read: written.read,
        write: written.write,
    })
}

/// Knowledge, history and solutions, as in communities of experts.
fn usual() -> Value {
    json!(["expert_knowledge", "collaboration_history", "problem_solutions"].map(named))
}

fn named(name: &str) -> Value {
    match name {
        "expert_knowledge" => json!({
            "name": name, "kind": "fact", "description": "what experts know, stated so that others can use it",
        }),
        "collaboration_history" => json!({
            "name": name, "kind": "episode", "description": "what was said and done together",
            "observe": [
                {"event": "thread.channel_message.notification"}, {"event": "thread.reply.notification"},
                {"event": "agent.tool_output", "kind": "episode"}, {"event": "agent.decision", "kind": "decision"},
            ],
        }),
        "problem_solutions" => json!({
            "name": name, "kind": "lesson", "description": "questions with the answers that solved them",
        }),
        name => json!({"name": name}),
    }
}

fn wrong(what: String) -> Refusal {
    Refusal::invalid(format!("the mod \"memory\": {what}"))
}

impl Collection {
    pub(super) fn may_read(&self, group: &str) -> bool {
        self.read.is_empty() || self.read.iter().any(|allowed| allowed == group)
    }

    pub(super) fn may_write(&self, group: &str) -> bool {
        self.write.is_empty() || self.write.iter().any(|allowed| allowed == group)
    }

    /// What is wrong with a memory's metadata, if anything is.
    pub(super) fn problem(&self, metadata: &Map<String, Value>) -> Option<String> {
        if let Some(missing) = self.required.iter().find(|field| metadata.get(*field).is_none_or(Value::is_null)) {
            return Some(format!("metadata.{missing} is missing: {:?} needs it", self.name));
        }
        metadata.iter().find_map(|(field, value)| match self.properties.get(field) {
            None if self.is_closed => Some(format!("metadata.{field} is no field of {:?}", self.name)),
            None => None,
            Some(property) => mismatch(field, value, property),
        })
    }

    pub(super) fn shown(&self) -> Value {
        let index = match self.index {
            Index::Both => "both",
            Index::Words => "words",
            Index::Meaning => "meaning",
            Index::Nothing => "nothing",
        };
        json!({
            "name": self.name, "description": self.description,
            "partition": if self.by_group { "group" } else { "network" }, "search_by": index,
            "kind": self.kind.as_str(), "metadata": {"required": self.required, "properties": self.properties},
            "retrieval": {"k": self.retrieval.k, "min_score": self.retrieval.min_score,
                          "order": if self.retrieval.newest_first { "newest" } else { "relevance" }},
            "observes": self.observes.iter().map(|watch| watch.pattern.as_str()).collect::<Vec<_>>(),
        })
    }
}

/// What of a field does not fit its property: `type` and `enum` of JSON Schema.
fn mismatch(field: &str, value: &Value, property: &Value) -> Option<String> {
    if let Some(Value::Array(allowed)) = property.get("enum")
        && !allowed.contains(value)
    {
        return Some(format!("metadata.{field} is none of {}", Value::Array(allowed.clone())));
    }
    let wanted = property.get("type").and_then(Value::as_str)?;
    let fits = match wanted {
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => true,
    };
    (!fits).then(|| format!("metadata.{field} has to be a {wanted}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(config: Value) -> Result<Vec<Collection>, Refusal> {
        read(config.as_object().expect("an object"), Some("all-minilm-l6-v2"))
    }

    #[test]
    fn without_a_word_there_are_the_three_of_a_community() {
        let names: Vec<String> = of(json!({})).expect("fine").into_iter().map(|collection| collection.name).collect();
        assert_eq!(names, ["expert_knowledge", "collaboration_history", "problem_solutions"]);
    }

    #[test]
    fn what_makes_no_sense_is_said_with_its_place() {
        for (config, said) in [
            (json!({"partition": "agent"}), "partition"),
            (json!({"collections": [{"name": "a", "colour": 1}]}), "colour"),
            (json!({"collections": [{"name": "A"}]}), "a-z"),
            (json!({"collections": ["a", "a"]}), "twice"),
            (json!({"collections": [{"name": "a", "embedding": "gpt"}]}), "all-minilm-l6-v2"),
            (json!({"collections": [{"name": "a", "embedding": "none", "search_by": "meaning"}]}), "meaning"),
            (json!({"collections": [{"name": "a", "kind": "poem"}]}), "poem"),
        ] {
            let refusal = of(config).expect_err("wrong").message;
            assert!(refusal.contains(said), "{refusal}");
        }
    }

    #[test]
    fn metadata_follows_the_collections_schema() {
        let collection = &of(json!({"collections": [{"name": "a", "metadata": {
            "required": ["domain"], "closed": true,
            "properties": {"domain": {"enum": ["python", "milvus"]}, "level": {"type": "integer"}},
        }}]}))
        .expect("fine")[0];
        let problem = |metadata: Value| collection.problem(metadata.as_object().expect("an object"));
        assert_eq!(problem(json!({"domain": "python", "level": 3})), None);
        for bad in [
            json!({}),
            json!({"domain": "cobol"}),
            json!({"domain": "python", "level": "x"}),
            json!({"domain": "python", "x": 1}),
        ] {
            assert!(problem(bad.clone()).is_some(), "{bad}");
        }
    }
}

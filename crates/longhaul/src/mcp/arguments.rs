//! The arguments of the tools, as types. The registry has checked them against the schema; what is left to check here is
//! what a schema cannot say.

use longhaul_core::MemoryId;
use longhaul_memory::KNOWLEDGE_PREFIX;
use longhaul_memory::{Kind, Namespace};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value};

/// Reads arguments; null is as good as absent, as models write it for what they do not want to say.
pub(super) fn read<T: DeserializeOwned>(arguments: Value) -> Result<T, String> {
    let Value::Object(mut map) = arguments else { return Err("send one JSON object".to_owned()) };
    map.retain(|_, value| !value.is_null());
    serde_json::from_value(Value::Object(map)).map_err(|error| error.to_string())
}

#[derive(Deserialize)]
pub(super) struct Add {
    pub(super) content: String,
    #[serde(default)]
    pub(super) kind: Option<String>,
    #[serde(default)]
    pub(super) tags: Vec<String>,
    #[serde(default)]
    pub(super) importance: Option<f32>,
    #[serde(default)]
    pub(super) happened: Option<String>,
    #[serde(default)]
    pub(super) expires: Option<String>,
    #[serde(default)]
    pub(super) thread: Option<String>,
    #[serde(default)]
    pub(super) meta: Map<String, Value>,
    #[serde(default)]
    pub(super) namespace: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct BuildContext {
    pub(super) goal: String,
    #[serde(default)]
    pub(super) task: Option<String>,
    #[serde(default)]
    pub(super) budget_tokens: Option<u64>,
    #[serde(default)]
    pub(super) profile: Option<String>,
    #[serde(default)]
    pub(super) namespaces: Vec<String>,
}

#[derive(Deserialize)]
pub(super) struct Search {
    pub(super) query: String,
    #[serde(default)]
    pub(super) k: Option<usize>,
    #[serde(default)]
    pub(super) since: Option<String>,
    #[serde(default)]
    pub(super) until: Option<String>,
    #[serde(default)]
    pub(super) tags: Vec<String>,
    #[serde(default)]
    pub(super) kinds: Vec<String>,
    #[serde(default)]
    pub(super) thread: Option<String>,
    #[serde(default)]
    pub(super) filters: Vec<String>,
    #[serde(default)]
    pub(super) namespaces: Vec<String>,
    #[serde(default)]
    pub(super) explain: bool,
}

#[derive(Deserialize)]
pub(super) struct Get {
    pub(super) id: String,
}

#[derive(Deserialize)]
pub(super) struct Edit {
    pub(super) id: String,
    #[serde(default)]
    pub(super) content: Option<String>,
    #[serde(default)]
    pub(super) add_tags: Vec<String>,
    #[serde(default)]
    pub(super) remove_tags: Vec<String>,
    #[serde(default)]
    pub(super) importance: Option<f32>,
    #[serde(default)]
    pub(super) expires: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct Forget {
    pub(super) ids: Vec<String>,
}

#[derive(Deserialize)]
pub(super) struct AskKnowledge {
    pub(super) query: String,
    #[serde(default)]
    pub(super) k: Option<usize>,
    #[serde(default)]
    pub(super) corpora: Vec<String>,
    #[serde(default)]
    pub(super) explain: bool,
}

pub(super) fn memory_id(text: &str) -> Result<MemoryId, String> {
    text.trim().parse().map_err(|_| {
        let shown: String = text.chars().take(60).collect();
        format!("{shown:?} is no memory's id; memory_search shows them: mem_…")
    })
}

/// A namespace of memory; those of corpora are read through their own tool and written by nobody.
pub(super) fn namespace(text: &str) -> Result<Namespace, String> {
    if text.starts_with(KNOWLEDGE_PREFIX) {
        return Err(format!("{text} is a corpus of documents, which is read-only; ask it with knowledge_search"));
    }
    text.parse().map_err(|error: longhaul_memory::MemoryError| error.to_string())
}

pub(super) fn kinds(words: &[String]) -> Result<Vec<Kind>, String> {
    words.iter().map(|word| word.parse().map_err(|error: longhaul_memory::MemoryError| error.to_string())).collect()
}

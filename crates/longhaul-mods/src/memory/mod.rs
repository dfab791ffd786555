//! The mod of shared memory: what agents know, did and solved, kept in collections and found again by words and meaning.
//!
//! It owns which collections there are, who may read and write them, and `shared_memories`, which says whom a memory
//! comes from. It does not own the memories, their index or their embedding: those are `longhaul-memory`'s, which embeds
//! after the commit and never in a transaction. Invariants: a memory comes from the event's sender, whatever its payload
//! says; what was said in a channel is found by its members alone, what was said to a group by that group, and what was
//! said to one agent is not kept; what is deleted where it was said is forgotten here.

mod collection;
mod forgetting;
mod manifest;
mod observing;
mod rows;
mod searching;
mod storing;

use std::sync::Arc;

use async_trait::async_trait;
use longhaul_core::{Scope, TimeMs};
use longhaul_memory::{Memory, MemoryError, Namespace};
use longhaul_network::{
    Backstage, Event, Manifest, Mod, Outcome, Prepared, Refusal, RefusalKind, Reply, Sender, Stage,
};
use serde_json::{Map, Value, json};

use crate::{
    Parts,
    acting::{Actor, Here, limit_of},
    shape::{Fields, REFERENCE_BYTES_MAX},
};

use collection::Collection;

pub(crate) const NAME: &str = "longhaul.mods.memory";

/// Makes it from its `config`.
pub(crate) fn make(config: &Map<String, Value>, parts: &Parts) -> Result<Arc<dyn Mod>, Refusal> {
    Ok(Arc::new(SharedMemory {
        memory: parts.memory.clone(),
        collections: collection::read(config, parts.memory.embedder_id())?,
        per_agent_max: limit_of(config, "max_memories_per_agent", 100_000),
    }))
}

/// The shared memory of a network.
struct SharedMemory {
    memory: Memory,
    collections: Vec<Collection>,
    per_agent_max: i64,
}

impl std::fmt::Debug for SharedMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedMemory").field("collections", &self.collections).finish_non_exhaustive()
    }
}

/// One event that is being answered.
struct Call<'a, 'e> {
    mod_: &'a SharedMemory,
    here: Here,
    actor: Actor,
    fields: Fields<'e>,
}

/// What was made ready before the transaction.
enum Ready {
    Store(Box<storing::Store>),
    Found(searching::Found),
    /// It is answered so, whatever the rows say.
    Refused(Reply),
}

#[async_trait]
impl Mod for SharedMemory {
    fn manifest(&self) -> Manifest {
        manifest::manifest(&self.collections)
    }

    async fn prepare(&self, backstage: &Backstage, event: &Event) -> Result<Prepared, Refusal> {
        let ready = match event.name.as_str() {
            "memory.store" => self.ready_to_store(backstage, event)?,
            "memory.search" => self.look_up(backstage, event).await?,
            _ => return Ok(Prepared::default()),
        };
        Ok(Prepared::with(ready))
    }

    fn apply(&self, stage: &mut Stage<'_, '_>, event: &Event, prepared: Prepared) -> Result<Outcome, Refusal> {
        let call =
            Call { mod_: self, here: Here::of(stage), actor: Actor::of(stage, event), fields: Fields::of(event) };
        let reply = match (event.name.as_str(), prepared.take::<Ready>()) {
            (_, Some(Ready::Refused(reply))) => reply,
            (_, Some(Ready::Store(store))) => call.store(stage, event, &store)?,
            (_, Some(Ready::Found(found))) => call.found(stage, found)?,
            ("memory.list", None) => call.list(stage)?,
            ("memory.get", None) => call.get(stage)?,
            ("memory.delete", None) => call.delete(stage)?,
            ("memory.forget", None) => call.forget(stage)?,
            ("memory.collections.list", None) => call.collections(stage)?,
            _ => return Ok(Outcome::Pass),
        };
        Ok(Outcome::Answer(reply))
    }

    async fn observe(&self, backstage: &Backstage, event: &Arc<Event>) -> Result<(), Refusal> {
        self.observed(backstage, event).await
    }
}

impl SharedMemory {
    fn collection(&self, name: &str) -> Result<&Collection, Reply> {
        self.collections.iter().find(|collection| collection.name == name).ok_or_else(|| {
            let names: Vec<&str> = self.collections.iter().map(|collection| collection.name.as_str()).collect();
            let said = format!("there is no collection {name:?}: there are {}", names.join(", "));
            crate::acting::no("COLLECTION_NOT_FOUND", said)
        })
    }

    /// The collection that the payload names, or the first one.
    fn named(&self, fields: &Fields<'_>) -> Result<Result<&Collection, Reply>, Refusal> {
        let name = fields.optional_text("collection", REFERENCE_BYTES_MAX)?.filter(|name| !name.is_empty());
        Ok(match (name, self.collections.first()) {
            (Some(name), _) => self.collection(name),
            (None, Some(first)) => Ok(first),
            (None, None) => Err(crate::acting::no("COLLECTION_NOT_FOUND", "this network has no collections")),
        })
    }
}

/// Where the memories of a network, or of one of its groups, are: names of partitions take few characters, so others
/// become their numbers, and two names never become one.
pub(crate) fn partition(network: &str, group: Option<&str>) -> Result<Namespace, Refusal> {
    let plain = |name: &str| {
        let mut out = String::with_capacity(name.len());
        for c in name.chars() {
            match c {
                'a'..='z' | '0'..='9' | '-' => out.push(c),
                c => out.push_str(&format!("_{:x}.", u32::from(c))),
            }
        }
        out
    };
    let mut name = format!("net:{}", plain(network));
    if let Some(group) = group {
        name.push_str(":g:");
        name.push_str(&plain(group));
    }
    name.parse()
        .map_err(|_| Refusal::invalid(format!("the names of network and group are too long for a memory: {name:?}")))
}

/// Whoever an event comes from, as memories name them.
fn author(event: &Event) -> String {
    match &event.from {
        Sender::Agent(agent) => agent.to_string(),
        Sender::Mod(_) | Sender::Network => event.from.to_string(),
    }
}

fn refusal(error: MemoryError) -> Refusal {
    if let MemoryError::Store(error) = error {
        return error.into();
    }
    if let MemoryError::Embed(_) = &error {
        return Refusal::new(RefusalKind::Unavailable, error.to_string());
    }
    Refusal::invalid(error.to_string())
}

/// What a memory looks like to whoever may see it.
fn shown(item: &longhaul_memory::Item, author: &str, channel: Option<&str>) -> Value {
    json!({
        "memory_id": item.id.as_str(), "collection": item.collection, "content": item.content,
        "author_id": author, "channel": channel, "kind": item.kind.as_str(), "source": item.source.as_str(),
        "metadata": item.meta, "tags": item.tags, "importance": item.importance, "thread": item.thread,
        "created_at": crate::acting::seconds(item.created_at), "happened_at": crate::acting::seconds(item.happened_at),
        "is_superseded": item.superseded_by.is_some(),
    })
}

/// Whose memory it is, and when it is now.
fn whose(backstage: &Backstage) -> (Scope, String, TimeMs) {
    let network = &backstage.network;
    (network.scope().clone(), network.id().to_owned(), network.store().ambient().clock.now())
}

#[cfg(test)]
mod tests {
    use super::partition;

    #[test]
    fn no_two_groups_share_a_partition() {
        let names =
            ["a", "A", "a.b", "a_b", "a_2e.b", "管理"].map(|group| partition("n", Some(group)).expect("a name"));
        let all: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(all.len(), names.len(), "{names:?}");
        assert_ne!(partition("a:g:b", None).expect("a name"), partition("a", Some("b")).expect("a name"));
    }
}

//! Which mods there are, by which names a `network.yaml` asks for them, and what they are made with.
//!
//! It owns no mod. Invariant: names and aliases are unique, and a mod's manifest says the same name (tested).

use std::sync::Arc;

use longhaul_memory::Memory;
use longhaul_network::{Manifest, Mod, Refusal};
use longhaul_store::Store;
use longhaul_workspace::Workspace;
use serde_json::{Map, Value};

use crate::agents::decisions;
use crate::{artifacts, cache, delegation, feed, forum, memory, messaging, social, wiki};

/// What mods of this process are made with.
#[derive(Clone)]
pub struct Parts {
    /// The network's store.
    pub store: Store,
    /// Long-term memory on that store, with the embedder the host has chosen.
    pub memory: Memory,
    /// Records with versions, on that store.
    pub workspace: Workspace,
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parts").finish_non_exhaustive()
    }
}

impl Parts {
    /// On this store, without an embedder.
    #[must_use]
    pub fn new(store: Store) -> Self {
        let memory = Memory::new(store.clone(), None);
        Self::with_memory(store, memory)
    }

    /// On this store, with this memory of it.
    #[must_use]
    pub fn with_memory(store: Store, memory: Memory) -> Self {
        let workspace = Workspace::new(store.clone(), memory.clone());
        Self { store, memory, workspace }
    }
}

/// A mod that comes with the program.
pub struct BuiltIn {
    /// Its full name.
    pub name: &'static str,
    /// Other names by which a `network.yaml` may ask for it.
    pub aliases: &'static [&'static str],
    /// Makes it from its `config`.
    make: fn(&Map<String, Value>, &Parts) -> Result<Arc<dyn Mod>, Refusal>,
}

impl std::fmt::Debug for BuiltIn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BuiltIn").field("name", &self.name).field("aliases", &self.aliases).finish_non_exhaustive()
    }
}

impl BuiltIn {
    /// Whether it is asked for by this name.
    #[must_use]
    pub fn answers_to(&self, name: &str) -> bool {
        self.name == name || self.aliases.contains(&name)
    }
}

/// All of them, in the order in which the docs show them.
pub const BUILTIN: &[BuiltIn] = &[
    BuiltIn {
        name: "openagents.mods.workspace.messaging",
        aliases: &["messaging", "thread_messaging"],
        make: messaging::make,
    },
    BuiltIn { name: "openagents.mods.workspace.forum", aliases: &["forum"], make: forum::make },
    BuiltIn { name: "openagents.mods.workspace.wiki", aliases: &["wiki"], make: wiki::make },
    BuiltIn { name: "openagents.mods.workspace.feed", aliases: &["feed"], make: feed::make },
    BuiltIn { name: "openagents.mods.core.shared_cache", aliases: &["cache", "shared_cache"], make: cache::make },
    BuiltIn {
        name: "openagents.mods.workspace.shared_artifact",
        aliases: &["artifacts", "shared_artifact"],
        make: artifacts::make,
    },
    BuiltIn {
        name: "openagents.mods.coordination.task_delegation",
        aliases: &["delegation", "task_delegation"],
        make: delegation::make,
    },
    BuiltIn {
        name: "openagents.mods.discovery.agent_discovery",
        aliases: &["discovery", "agent_discovery", "social"],
        make: social::make,
    },
    BuiltIn { name: "longhaul.mods.memory", aliases: &["memory", "shared_memory"], make: memory::make },
    BuiltIn { name: "longhaul.mods.decisions", aliases: &["decisions"], make: decisions::make },
];

/// The mods that are asked for by these names, in this order, each with its `config`; what has another name is left
/// out (see [`unknown`]).
///
/// # Errors
/// A `config` that makes no sense, with the field's name.
pub fn builtin(wanted: &[(String, Map<String, Value>)], parts: &Parts) -> Result<Vec<Arc<dyn Mod>>, Refusal> {
    let mut made: Vec<Arc<dyn Mod>> = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    for (name, config) in wanted {
        let Some(found) = BUILTIN.iter().find(|each| each.answers_to(name)) else { continue };
        if names.contains(&found.name) {
            return Err(Refusal::invalid(format!("mods: {name:?} is listed twice: leave one of them")));
        }
        names.push(found.name);
        made.push((found.make)(config, parts)?);
    }
    Ok(made)
}

/// Those of these names that no mod of the program and none of `others` has.
#[must_use]
pub fn unknown<'a>(wanted: &'a [(String, Map<String, Value>)], others: &[Arc<dyn Mod>]) -> Vec<&'a str> {
    let others: Vec<Manifest> = others.iter().map(|each| each.manifest()).collect();
    let is_known = |name: &str| {
        BUILTIN.iter().any(|each| each.answers_to(name))
            || others.iter().any(|each| each.name == name || each.aliases.iter().any(|alias| alias == name))
    };
    wanted.iter().map(|(name, _)| name.as_str()).filter(|name| !is_known(name)).collect()
}

/// What each mod of the program is, made with its defaults.
///
/// # Errors
/// None with the mods as they are; it is what making one may answer.
pub fn manifests(parts: &Parts) -> Result<Vec<Manifest>, Refusal> {
    BUILTIN.iter().map(|each| Ok((each.make)(&Map::new(), parts)?.manifest())).collect()
}

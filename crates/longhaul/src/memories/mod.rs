//! Long-term memory for whoever stands outside of a project: remember, find, correct, forget, move, look.
//!
//! It owns opening a store for memory and the words in which a person asks; what a memory is and how it is found is
//! `longhaul-memory`'s. Invariant: every call is made as one user of one tenant, who is named when it is opened.

mod asking;
mod condition;
mod error;
mod evaluating;
mod forgetting;
mod migrating;
mod moving;
mod packing;
mod remembering;
pub(crate) mod wiring;

use std::{path::Path, sync::Arc};

use longhaul_core::{Ambient, MemoryId, Scope, TenantId, TimeMs, UserId};
use longhaul_knowledge::Knowledge;
use longhaul_memory::{
    Compacted, Edit, Embedder, Grantee, Indexed, Item, Memory, Namespace, Page, PartitionInfo, Query, Recall, Stats,
    Tended, TierRules,
    user::{ReviewPolicy, UserMemory},
    when::Zone,
};
use longhaul_store::{StateKeys, Store, StoreError, StoreSettings};
use longhaul_workspace::{Workspace, context::Contexts, review::SharedKnowledge, sessions::Sessions};

pub use asking::Filters;
pub use error::{MemoriesError, memory_error_kind, review_error_kind, session_error_kind};
pub use evaluating::{Evaluation, Missed, Question, questions};
pub use forgetting::{Forgetting, receipt_lines};
pub use migrating::{MigrateTo, Migration};
pub use packing::Packing;
pub use remembering::{Correcting, Remembering};
pub use wiring::memory_over;

use crate::{
    settings::{ContextSettings, MemorySettings, Settings},
    vectors,
};

/// Which store is meant, and as whom.
#[derive(Debug, Clone)]
pub struct MemoriesPlace {
    /// A folder or a `postgres://` URL; nothing for the home's own.
    pub store: Option<String>,
    /// Whether a folder that holds no store becomes one.
    pub make: bool,
    /// Whose rows.
    pub tenant: TenantId,
    /// As which user.
    pub user: UserId,
}

/// A user's view of the memory in a store.
pub struct Memories {
    memory: Memory,
    store: Store,
    scope: Scope,
    ambient: Ambient,
    zone: Zone,
    rules: Option<TierRules>,
    review: ReviewPolicy,
    /// The embedding model's id, if it is loaded.
    embedder: Option<String>,
    /// Why nothing is embedded, if nothing is.
    no_model: Option<String>,
    /// For other servers than the one that is connected.
    settings: MemorySettings,
    context: ContextSettings,
    contexts: Contexts,
}

impl Memories {
    /// Opens the memory of a store. `with_model` loads the embedding model; where it is not installed, texts are found by
    /// their words alone and [`Memories::no_model`] says why.
    ///
    /// # Errors
    /// [`MemoriesError::NoStore`] for a folder without a store unless it may be made; those of the store; an embedding
    /// model that is there and cannot be used.
    pub async fn open(settings: &Settings, place: MemoriesPlace, with_model: bool) -> Result<Self, MemoriesError> {
        let ambient = Ambient::system();
        let MemoriesPlace { store, make, tenant, user } = place;
        let opened = store_named(settings, store, make)?;
        let migrations = [longhaul_memory::MIGRATIONS, longhaul_knowledge::MIGRATIONS, longhaul_workspace::MIGRATIONS];
        let store = Store::open(opened, ambient.clone(), &migrations).await?;
        let (embedder, no_model) = if with_model { model(settings, &ambient)? } else { (None, None) };
        let id = embedder.as_ref().map(|embedder| embedder.id().to_owned());
        let memory = crate::embedding::memory(store.clone(), embedder, settings);
        wiring::configure(&memory, &settings.memory)?;
        if let Some(server) = vectors::server(&settings.memory, &ambient)? {
            memory.connect(server)?;
        }
        let (rules, review) = (wiring::tier_rules(&settings.memory), wiring::review_policy(&settings.memory));
        let (scope, zone) = (Scope { tenant, user }, Zone::local());
        let contexts = Contexts::new(Workspace::new(store.clone(), memory.clone()), settings.context.profiles.clone());
        Ok(Self {
            context: settings.context.clone(),
            contexts,
            memory,
            store,
            scope,
            ambient,
            zone,
            rules,
            review,
            embedder: id,
            no_model,
            settings: settings.memory.clone(),
        })
    }

    /// The zone in which days begin and end: this machine's.
    #[must_use]
    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    /// The moment it is.
    #[must_use]
    pub fn now(&self) -> TimeMs {
        self.ambient.clock.now()
    }

    /// As whom it was opened.
    #[must_use]
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// The memory itself, for what is not offered here.
    #[must_use]
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The corpora of documents in the same store.
    #[must_use]
    pub fn knowledge(&self) -> Knowledge {
        Knowledge::new(self.store.clone(), self.memory.clone())
    }

    /// Time, randomness and ids.
    #[must_use]
    pub fn ambient(&self) -> &Ambient {
        &self.ambient
    }

    /// What is remembered of the user: its entries, their versions, what is proposed.
    #[must_use]
    pub fn user_memory(&self) -> UserMemory {
        UserMemory::new(self.memory.clone()).reviewed_by(self.review.clone())
    }

    /// The user's conversations.
    #[must_use]
    pub fn sessions(&self) -> Sessions {
        Sessions::new(self.store.clone(), self.user_memory(), &self.scope)
    }

    /// What the tenant knows for sure, and what is proposed for it.
    #[must_use]
    pub fn shared_knowledge(&self) -> SharedKnowledge {
        Workspace::new(self.store.clone(), self.memory.clone()).user(&self.scope).shared_knowledge()
    }

    /// The embedding model's id, if it is loaded.
    #[must_use]
    pub fn embedder(&self) -> Option<&str> {
        self.embedder.as_deref()
    }

    /// Why texts are not embedded, where the model was wanted and is not installed.
    #[must_use]
    pub fn no_model(&self) -> Option<&str> {
        self.no_model.as_deref()
    }

    /// Writes a memory as a person described it.
    ///
    /// # Errors
    /// [`MemoriesError::When`], [`MemoriesError::Meta`], [`MemoriesError::HalfAFact`], those of memory.
    pub async fn remember(&self, remembering: Remembering) -> Result<MemoryId, MemoriesError> {
        let memory = remembering.memory(self.now(), &self.zone)?;
        Ok(self.memory.add(&self.scope, memory).await?)
    }

    /// Gives what was just written its vector.
    ///
    /// # Errors
    /// Why it has none, in words; it is found by its words all the same.
    pub async fn embed_new(&self) -> Result<(), String> {
        if let Some(reason) = &self.no_model {
            return Err(reason.clone());
        }
        let embedded = self.memory.index_pending().await.map(drop).map_err(|error| error.to_string());
        // A server that is away gets it later; until then the rows answer for it.
        if let Err(error) = self.memory.replicate_pending().await {
            tracing::warn!(%error, "the vector server was not told; it is told later");
        }
        embedded
    }

    /// The query that a question and its filters mean, now.
    ///
    /// # Errors
    /// Those of [`Filters::query`].
    pub fn query(&self, text: &str, k: usize, filters: &Filters) -> Result<Query, MemoriesError> {
        filters.query(text, k, self.now(), &self.zone)
    }

    /// The memories that answer best.
    ///
    /// # Errors
    /// Those of a search.
    pub async fn search(&self, query: &Query) -> Result<Recall, MemoriesError> {
        let mut recall = self.memory.search(&self.scope, query).await?;
        if let (longhaul_memory::Mode::Keyword { reason }, Some(why)) = (&mut recall.mode, &self.no_model) {
            reason.clone_from(why);
        }
        // A process that is about to end has no background in which this would be written.
        if let Err(error) = self.memory.flush_usage().await {
            tracing::debug!(%error, "what was shown could not be noted");
        }
        Ok(recall)
    }

    /// One memory.
    ///
    /// # Errors
    /// [`MemoriesError::Unknown`]; those of the store.
    pub async fn get(&self, id: &MemoryId) -> Result<Item, MemoriesError> {
        let item = self.look(id).await?;
        // Asking for it by its id is using it.
        self.memory.note_used(&self.scope, std::slice::from_ref(id)).await?;
        Ok(item)
    }

    /// One memory, without counting as used.
    pub(crate) async fn look(&self, id: &MemoryId) -> Result<Item, MemoriesError> {
        let found = self.memory.get(&self.scope, id).await?;
        found.ok_or_else(|| MemoriesError::Unknown { id: id.clone() })
    }

    /// A page of the memories that pass the filters, in the order of writing.
    ///
    /// # Errors
    /// Those of [`Filters::query`] and of memory.
    pub async fn list(&self, filters: &Filters, limit: usize, after: Option<&str>) -> Result<Page, MemoriesError> {
        let query = self.query("", limit, filters)?;
        Ok(self.memory.list(&self.scope, &query, after).await?)
    }

    /// Changes a memory as a person described it.
    ///
    /// # Errors
    /// [`MemoriesError::Unknown`] for one that may not be written to; those of what is changed.
    pub async fn correct(&self, id: &MemoryId, correcting: &Correcting) -> Result<Item, MemoriesError> {
        let was = self.look(id).await?;
        let edit = correcting.edit(&was, self.now(), &self.zone)?;
        if !self.memory.change(&self.scope, id, edit).await? {
            return Err(MemoriesError::Unknown { id: id.clone() });
        }
        self.look(id).await
    }

    /// Pins a memory, or lets it age again.
    ///
    /// # Errors
    /// [`MemoriesError::Unknown`] for one that may not be written to.
    pub async fn pin(&self, id: &MemoryId, pinned: bool) -> Result<(), MemoriesError> {
        let edit = Edit { pinned: Some(pinned), ..Edit::default() };
        let found = self.memory.change(&self.scope, id, edit).await?;
        if found { Ok(()) } else { Err(MemoriesError::Unknown { id: id.clone() }) }
    }

    /// Derives what can be derived: vectors and indexes by words.
    ///
    /// # Errors
    /// [`MemoriesError::Embed`] where the model is not installed or fails.
    pub async fn index(&self) -> Result<Indexed, MemoriesError> {
        Ok(self.memory.index_pending().await?)
    }

    /// The rules by which memories become cold, if there are any.
    #[must_use]
    pub fn tier_rules(&self) -> Option<&TierRules> {
        self.rules.as_ref()
    }

    /// Moves what has become cold, by the rules that are set or by days without use.
    ///
    /// # Errors
    /// Those of memory: no cold place, no access to the store.
    pub async fn move_cold(&self, unused_days: Option<u32>) -> Result<longhaul_memory::Moved, MemoriesError> {
        let rules = match (unused_days, &self.rules) {
            (Some(days), _) => TierRules { unused_days: Some(days), ..TierRules::everything() },
            (None, Some(rules)) => rules.clone(),
            (None, None) => return Err(MemoriesError::NoRules),
        };
        Ok(self.memory.move_cold(&rules, self.now()).await?)
    }

    /// Rewrites and deletes what is due in the cold place.
    ///
    /// # Errors
    /// Those of memory.
    pub async fn tend_cold(&self) -> Result<Tended, MemoriesError> {
        Ok(self.memory.tend_cold().await?)
    }

    /// Leaves no byte of what was erased.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn compact(&self) -> Result<Compacted, MemoriesError> {
        Ok(self.memory.compact().await?)
    }

    /// Figures of the namespaces that the user may read: of these, or of all.
    ///
    /// # Errors
    /// Those of memory.
    pub async fn stats(&self, namespaces: &[Namespace]) -> Result<Vec<Stats>, MemoriesError> {
        let all = self.partitions().await?;
        let mut found = Vec::new();
        for partition in all.iter().filter(|one| namespaces.is_empty() || namespaces.contains(&one.namespace)) {
            found.extend(self.memory.stats(&self.scope, &partition.namespace).await?);
        }
        Ok(found)
    }

    /// The namespaces that the user may read.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn partitions(&self) -> Result<Vec<PartitionInfo>, MemoriesError> {
        Ok(self.memory.partitions(&self.scope).await?)
    }

    /// Lets others of the tenant read a namespace, or also write to it.
    ///
    /// # Errors
    /// Those of memory: for anybody but its owner.
    pub async fn grant(&self, namespace: &Namespace, to: &Grantee, may_write: bool) -> Result<(), MemoriesError> {
        Ok(self.memory.grant(&self.scope, namespace, to, may_write).await?)
    }

    /// Takes a right back. Tells whether there was one.
    ///
    /// # Errors
    /// As [`Memories::grant`].
    pub async fn revoke(&self, namespace: &Namespace, from: &Grantee) -> Result<bool, MemoriesError> {
        Ok(self.memory.revoke(&self.scope, namespace, from).await?)
    }
}

/// The folder of a store, or of the file in it.
/// How the store that is meant is opened: a folder, a `postgres://` URL, or the home's own.
pub(crate) fn store_named(
    settings: &Settings,
    store: Option<String>,
    make: bool,
) -> Result<StoreSettings, MemoriesError> {
    let opened = match store {
        Some(url) if url.contains("://") => StoreSettings::from_url(&url, settings.home.join("databases"))?,
        Some(dir) => folder(Path::new(&dir), make)?,
        None => match &settings.store_url {
            Some(url) => StoreSettings::from_url(url.expose(), &settings.home)?,
            None => StoreSettings::new(&settings.home),
        },
    };
    Ok(StoreSettings { keys: StateKeys::from_env().map_err(StoreError::from)?, ..opened })
}

fn folder(dir: &Path, make: bool) -> Result<StoreSettings, MemoriesError> {
    let dir = if dir.ends_with("longhaul.db") { dir.parent().unwrap_or(dir) } else { dir };
    if !make && !dir.join("longhaul.db").is_file() {
        return Err(MemoriesError::NoStore { dir: dir.to_owned() });
    }
    Ok(StoreSettings::new(dir))
}

pub(crate) type Model = (Option<Arc<dyn Embedder>>, Option<String>);

/// The embedding model, or why there is none. That none is installed is no error: memory works by words then.
pub(crate) fn model(settings: &Settings, ambient: &Ambient) -> Result<Model, MemoriesError> {
    match crate::embedding::embedder(settings, ambient) {
        Ok(embedder) => Ok((Some(embedder), None)),
        Err(error @ longhaul_memory::EmbedError::NotInstalled { .. }) => Ok((None, Some(error.to_string()))),
        Err(error) => Err(error.into()),
    }
}

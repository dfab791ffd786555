//! What the tests share: where the real model is, and a store with memory over it.

use std::{
    path::PathBuf,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicI64, Ordering},
    },
};

use longhaul_core::{Ambient, Clock, MemoryId, Scope, SeededRng, TimeMs};
use longhaul_memory::{Embedder, Kind, LocalModel, MIGRATIONS, Memory, NewMemory, Query, Recall, Source, embedding};
use longhaul_store::{Store, StoreSettings};
use tempfile::TempDir;

/// The folder in which this machine keeps models: installed once, as `longhaul setup` does it.
pub(crate) fn model_dir() -> PathBuf {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| {
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let cache = cache.unwrap_or_else(|| PathBuf::from(std::env::var_os("HOME").expect("HOME")).join(".cache"));
        embedding::install(&cache.join("longhaul/models"), &mut |_| ()).expect("the embedding model installs")
    })
    .clone()
}

/// The model, loaded once for all tests of this binary.
pub(crate) fn model() -> LocalModel {
    static MODEL: OnceLock<LocalModel> = OnceLock::new();
    MODEL.get_or_init(|| LocalModel::load(&model_dir()).expect("the installed model loads")).clone()
}

/// A store of its own, with memory over it.
pub(crate) struct Place {
    pub(crate) store: Store,
    pub(crate) memory: Memory,
    pub(crate) scope: Scope,
    /// Removed when the test ends.
    pub(crate) folder: TempDir,
    pub(crate) clock: Arc<SetClock>,
}

/// A clock the test sets.
#[derive(Debug)]
pub(crate) struct SetClock(AtomicI64);

impl SetClock {
    pub(crate) fn advance_days(&self, days: i64) {
        self.0.fetch_add(days * 86_400_000, Ordering::Relaxed);
    }
}

impl Clock for SetClock {
    fn now(&self) -> TimeMs {
        TimeMs(self.0.load(Ordering::Relaxed))
    }
}

impl Place {
    pub(crate) async fn new(embedder: Option<Arc<dyn Embedder>>) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let clock = Arc::new(SetClock(AtomicI64::new(1_800_000_000_000)));
        let ambient = Ambient::new(clock.clone(), Arc::new(SeededRng::new(1)));
        let store =
            Store::open(StoreSettings::new(folder.path()), ambient, &[MIGRATIONS]).await.expect("the store opens");
        Self { memory: Memory::new(store.clone(), embedder), store, scope: Scope::single_user(), folder, clock }
    }

    /// With the real model.
    pub(crate) async fn with_model() -> Self {
        Self::new(Some(Arc::new(model()))).await
    }

    /// Searched by words alone.
    pub(crate) async fn by_words() -> Self {
        Self::new(None).await
    }

    /// Remembers these texts as notes and embeds them.
    pub(crate) async fn remember(&self, texts: &[&str]) -> Vec<MemoryId> {
        let mut ids = Vec::new();
        for text in texts {
            ids.push(self.memory.add(&self.scope, note(text)).await.expect("the note is written"));
        }
        self.memory.index_pending().await.expect("the notes are embedded");
        ids
    }

    pub(crate) async fn search(&self, text: &str, k: usize) -> Recall {
        self.memory.search(&self.scope, &Query::new(text, k)).await.expect("the search runs")
    }

    /// The texts found, best first.
    pub(crate) async fn found(&self, text: &str, k: usize) -> Vec<String> {
        contents(&self.search(text, k).await)
    }

    /// Runs one statement that memory itself would never run.
    pub(crate) async fn sql(&self, sql: &'static str) -> u64 {
        self.store.write(move |tx| tx.execute(sql, &[])).await.expect("the statement runs")
    }
}

pub(crate) fn note(text: &str) -> NewMemory {
    NewMemory::new("project", Kind::Note, Source::Agent, text)
}

pub(crate) fn contents(recall: &Recall) -> Vec<String> {
    recall.hits.iter().map(|hit| hit.item.content.clone()).collect()
}

//! What the tests share: where the real model is, and a store with memory over it.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicI64, Ordering},
    },
};

use longhaul_core::{Ambient, Clock, MemoryId, Scope, SeededRng, TimeMs};
use longhaul_memory::{
    EmbedError, Embedder, Kind, LocalModel, MIGRATIONS, Memory, NewMemory, Query, Recall, Source, embedding,
};
use longhaul_store::{Store, StoreSettings};
use longhaul_testbed::{Database, PrivateCluster};
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

/// Where the suite's stores are: unset for SQLite, `postgres` for a private server.
pub(crate) const STORE: &str = "LONGHAUL_TEST_STORE";

/// Whether the suite runs on PostgreSQL.
pub(crate) fn is_postgres() -> bool {
    std::env::var(STORE).is_ok_and(|store| store == "postgres")
}

/// A new, empty store's settings, and the database that must live as long.
pub(crate) fn new_store(folder: &Path) -> (StoreSettings, Option<Database<'static>>) {
    if !is_postgres() {
        return (StoreSettings::new(folder), None);
    }
    let cluster = PrivateCluster::shared().expect("a PostgreSQL server starts");
    let database = cluster.create_database().expect("it makes a database");
    (StoreSettings::from_url(&database.url(), folder).expect("its address is one"), Some(database))
}

/// A store of its own, with memory over it.
pub(crate) struct Place {
    pub(crate) store: Store,
    pub(crate) memory: Memory,
    pub(crate) scope: Scope,
    /// Removed when the test ends.
    _folder: TempDir,
    pub(crate) clock: Arc<SetClock>,
    settings: StoreSettings,
    _database: Option<Database<'static>>,
}

/// A clock the test sets.
#[derive(Debug)]
pub(crate) struct SetClock(AtomicI64);

impl SetClock {
    pub(crate) fn at(ms: i64) -> Self {
        Self(AtomicI64::new(ms))
    }

    pub(crate) fn advance_ms(&self, ms: i64) {
        self.0.fetch_add(ms, Ordering::Relaxed);
    }

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
        let (settings, database) = new_store(folder.path());
        let store = Store::open(settings.clone(), ambient, &[MIGRATIONS]).await.expect("the store opens");
        let memory = Memory::new(store.clone(), embedder);
        Self { memory, store, scope: Scope::single_user(), _folder: folder, clock, settings, _database: database }
    }

    /// The same store opened once more, as another process does.
    pub(crate) async fn another(&self, embedder: Option<Arc<dyn Embedder>>) -> Memory {
        let ambient = Ambient::new(self.clock.clone(), Arc::new(SeededRng::new(2)));
        let store = Store::open(self.settings.clone(), ambient, &[MIGRATIONS]).await.expect("the store opens again");
        Memory::new(store, embedder)
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

/// An embedder that costs nothing: counts of letters. What shares letters is near.
pub(crate) struct Letters;

#[async_trait::async_trait]
impl Embedder for Letters {
    fn id(&self) -> &'static str {
        "letters"
    }

    fn dimensions(&self) -> usize {
        26
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        Ok(texts.iter().map(|text| letters(text)).collect())
    }
}

pub(crate) fn letters(text: &str) -> Vec<f32> {
    let count = |letter: u8| text.bytes().filter(|byte| byte.to_ascii_lowercase() == letter).count() as f32;
    (b'a'..=b'z').map(|letter| count(letter) + 0.01).collect()
}

pub(crate) fn note(text: &str) -> NewMemory {
    NewMemory::new("project", Kind::Note, Source::Agent, text)
}

pub(crate) fn contents(recall: &Recall) -> Vec<String> {
    recall.hits.iter().map(|hit| hit.item.content.clone()).collect()
}

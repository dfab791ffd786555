//! What these tests share: memory over a store of either kind, with a clock that the test sets and a small embedder.

use std::{path::Path, sync::Arc};

use async_trait::async_trait;
use longhaul_core::{Ambient, MemoryId, Scope, SeededRng, TimeMs};
use longhaul_memory::{
    ColdLimits, ColdPlace, EmbedError, Embedder, Item, MIGRATIONS, Memory, NewMemory, Query, Recall, TierRules,
};
use longhaul_store::{Faults, Store, StoreSettings};
use longhaul_testbed::{Database, PrivateCluster};
use tempfile::TempDir;

use crate::place::{SetClock, note};

pub(super) const DAY_MS: i64 = 86_400_000;

/// A store of its own with memory over it, and a folder for what is cold.
pub(super) struct World {
    pub(super) store: Store,
    pub(super) memory: Memory,
    pub(super) scope: Scope,
    pub(super) home: TempDir,
    pub(super) clock: Arc<SetClock>,
    pub(super) faults: Faults,
    pub(super) database: Option<Database<'static>>,
}

/// Words as directions: enough to compare by meaning without a model.
struct Bag;

#[async_trait]
impl Embedder for Bag {
    fn id(&self) -> &str {
        "bag-of-words"
    }

    fn dimensions(&self) -> usize {
        32
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let embed = |text: &String| {
            let mut vector = vec![0.01_f32; 32];
            for word in text.split_whitespace() {
                let place = word.bytes().fold(7_usize, |hash, byte| (hash * 31 + usize::from(byte)) % 32);
                vector[place] += 1.0;
            }
            vector
        };
        Ok(texts.iter().map(embed).collect())
    }
}

impl World {
    /// On the store that `LONGHAUL_TEST_STORE` names, with cold memory in a folder.
    pub(super) async fn new() -> Self {
        let world = Self::without_cold().await;
        let place = ColdPlace::Folder(world.home.path().join("cold"));
        world.memory.use_cold(place, ColdLimits::default()).expect("the folder is made");
        world
    }

    pub(super) async fn without_cold() -> Self {
        let home = tempfile::tempdir().expect("a temporary folder");
        let database = (std::env::var("LONGHAUL_TEST_STORE").as_deref() == Ok("postgres")).then(|| {
            let cluster = PrivateCluster::shared().expect("a server");
            cluster.create_database().expect("a database")
        });
        let settings = match &database {
            Some(database) => StoreSettings::from_url(&database.url(), home.path()).expect("an address"),
            None => StoreSettings::new(home.path()),
        };
        let clock = Arc::new(SetClock::at(1_800_000_000_000));
        let ambient = Ambient::new(clock.clone(), Arc::new(SeededRng::new(1)));
        let faults = Faults::new();
        let store = Store::open_with_faults(settings, ambient, &[MIGRATIONS], faults.clone()).await.expect("it opens");
        let memory = Memory::new(store.clone(), Some(Arc::new(Bag)));
        Self { store, memory, scope: Scope::single_user(), home, clock, faults, database }
    }

    /// The same store and cold place by another handle, as another process would have it.
    pub(super) fn another_handle(&self) -> Memory {
        let memory = Memory::new(self.store.clone(), Some(Arc::new(Bag)));
        if let Some(place) = self.memory.cold_place() {
            memory.use_cold(place, ColdLimits::default()).expect("the place opens");
        }
        memory
    }

    pub(super) fn now(&self) -> TimeMs {
        self.store.ambient().clock.now()
    }

    pub(super) async fn add(&self, memory: NewMemory) -> MemoryId {
        let id = self.memory.add(&self.scope, memory).await.expect("it is written");
        self.memory.index_pending().await.expect("it is embedded");
        id
    }

    pub(super) async fn remember(&self, texts: &[&str]) -> Vec<MemoryId> {
        let all = texts.iter().map(|text| note(text)).collect();
        let ids = self.memory.insert_many(&self.scope, all).await.expect("they are written");
        self.memory.index_pending().await.expect("they are embedded");
        ids
    }

    /// Moves everything that is not pinned. Gives how many memories that were.
    pub(super) async fn cool(&self) -> u64 {
        let moved = self.memory.move_cold(&TierRules::everything(), self.now()).await.expect("moving works");
        assert_eq!(moved.stopped, None);
        moved.memories
    }

    pub(super) async fn search(&self, query: &Query) -> Recall {
        self.memory.search(&self.scope, query).await.expect("the search runs")
    }

    /// Everything found, as text, sorted.
    pub(super) async fn found(&self, text: &str) -> Vec<String> {
        sorted(&self.search(&Query::new(text, 100)).await)
    }

    pub(super) async fn get(&self, id: &MemoryId) -> Option<Item> {
        self.memory.get(&self.scope, id).await.expect("it can be read")
    }

    pub(super) async fn count(&self, table: &str) -> i64 {
        let sql = format!("SELECT count(*) FROM {table}");
        self.store.read(move |read| read.query_one(&sql, &[], |row| row.get(0))).await.expect("it counts")
    }

    pub(super) fn cold_dir(&self) -> std::path::PathBuf {
        self.home.path().join("cold")
    }

    /// The files of cold segments.
    pub(super) fn objects(&self) -> Vec<std::path::PathBuf> {
        let mut files = files_below(&self.cold_dir());
        files.sort();
        files
    }
}

pub(super) fn sorted(recall: &Recall) -> Vec<String> {
    let mut texts: Vec<String> = recall.hits.iter().map(|hit| hit.item.content.clone()).collect();
    texts.sort();
    texts
}

/// All files below a folder.
pub(super) fn files_below(dir: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    if dir.is_file() {
        return vec![dir.to_owned()];
    }
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
            if entry.path().is_dir() { dirs.push(entry.path()) } else { found.push(entry.path()) }
        }
    }
    found
}

/// The files below a folder that hold these bytes.
pub(super) fn files_with(dir: &Path, bytes: &[u8]) -> Vec<std::path::PathBuf> {
    let holds = |path: &std::path::PathBuf| {
        std::fs::read(path).is_ok_and(|content| content.windows(bytes.len()).any(|window| window == bytes))
    };
    files_below(dir).into_iter().filter(holds).collect()
}

//! Corpora on a private store, with an embedder that counts what it is asked for.

use std::{
    fs,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use async_trait::async_trait;
use longhaul_core::{Ambient, Scope};
use longhaul_knowledge::{Added, Addition, Knowledge, KnowledgeError, KnowledgeQuery, Passage};
use longhaul_memory::{EmbedError, Embedder, Memory};
use longhaul_store::{Store, StoreSettings};
use longhaul_testbed::{Database, PrivateCluster};
use tempfile::TempDir;

/// A bag of letters as a vector: similar words are near each other. It counts the texts it was given.
#[derive(Default)]
pub(crate) struct Letters {
    pub(crate) texts: AtomicU64,
}

#[async_trait]
impl Embedder for Letters {
    fn id(&self) -> &str {
        "letters-1"
    }

    fn dimensions(&self) -> usize {
        27
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        self.texts.fetch_add(texts.len() as u64, Relaxed);
        let vector = |text: &String| {
            let mut counts = vec![0.01_f32; 27];
            for byte in text.bytes().filter(u8::is_ascii_alphabetic) {
                counts[usize::from(byte.to_ascii_lowercase() - b'a')] += 1.0;
            }
            counts
        };
        Ok(texts.iter().map(vector).collect())
    }
}

pub(crate) struct Bench {
    pub(crate) docs: TempDir,
    pub(crate) store: Store,
    pub(crate) memory: Memory,
    pub(crate) knowledge: Knowledge,
    pub(crate) embedder: Arc<Letters>,
    settings: StoreSettings,
    _place: (TempDir, Option<Database<'static>>),
}

impl Bench {
    /// On SQLite, or on a private PostgreSQL where LONGHAUL_TEST_STORE asks for it.
    pub(crate) async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let on_postgres = std::env::var("LONGHAUL_TEST_STORE").is_ok_and(|store| store == "postgres");
        let database = on_postgres.then(|| PrivateCluster::shared().unwrap().create_database().unwrap());
        let settings = match &database {
            Some(database) => StoreSettings::from_url(&database.url(), folder.path()).unwrap(),
            None => StoreSettings::new(folder.path()),
        };
        let store = open(&settings).await;
        let embedder = Arc::new(Letters::default());
        let memory = Memory::new(store.clone(), Some(embedder.clone()));
        let knowledge = Knowledge::new(store.clone(), memory.clone());
        let docs = tempfile::tempdir().unwrap();
        Self { docs, store, memory, knowledge, embedder, settings, _place: (folder, database) }
    }

    /// Another process on the same store.
    pub(crate) async fn another(&self) -> Knowledge {
        let store = open(&self.settings).await;
        Knowledge::new(store.clone(), Memory::new(store, Some(self.embedder.clone())))
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.docs.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    pub(crate) fn addition(&self, corpus: &str) -> Addition {
        Addition::new(self.docs.path(), corpus.parse().unwrap())
    }

    pub(crate) async fn add(&self, corpus: &str) -> Added {
        self.knowledge.add(&scope("ann"), &self.addition(corpus), |_| true).await.unwrap()
    }

    pub(crate) async fn ask(&self, user: &str, corpora: &[&str], text: &str) -> Result<Vec<Passage>, KnowledgeError> {
        let corpora = corpora.iter().map(|name| name.parse()).collect::<Result<_, _>>()?;
        let query = KnowledgeQuery { text: text.to_owned(), k: 10, corpora };
        Ok(self.knowledge.search(&scope(user), &query).await?.passages)
    }
}

async fn open(settings: &StoreSettings) -> Store {
    let migrations = [longhaul_memory::MIGRATIONS, longhaul_knowledge::MIGRATIONS];
    Store::open(settings.clone(), Ambient::system(), &migrations).await.unwrap()
}

pub(crate) fn scope(user: &str) -> Scope {
    Scope { tenant: "tenant_a".parse().unwrap(), user: format!("user_{user}").parse().unwrap() }
}

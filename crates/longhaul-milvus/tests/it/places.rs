//! Memory over a store of its own, with an embedder whose vectors follow from the words alone, with and without a server.

use std::{hash::Hasher, sync::Arc};

use async_trait::async_trait;
use longhaul_core::{Ambient, MemoryId, Scope};
use longhaul_memory::{
    EmbedError, Embedder, Kind, MIGRATIONS, Memory, NewMemory, Query, Recall, Source, remote::Space,
};
use longhaul_milvus::Milvus;
use longhaul_store::{Store, StoreSettings};
use tempfile::TempDir;

use crate::servers::settings;

const DIMENSIONS: usize = 48;

/// Words as directions: texts that share words are near. A name keeps the collections of tests apart.
pub(crate) struct Words(pub(crate) String);

#[async_trait]
impl Embedder for Words {
    fn id(&self) -> &str {
        &self.0
    }

    fn dimensions(&self) -> usize {
        DIMENSIONS
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        Ok(texts.iter().map(|text| direction(text)).collect())
    }
}

pub(crate) fn direction(text: &str) -> Vec<f32> {
    let mut sum = vec![1e-4; DIMENSIONS];
    for word in text.split_whitespace() {
        let mut hasher = std::hash::DefaultHasher::new();
        hasher.write(word.as_bytes());
        let mut state = hasher.finish() | 1;
        for value in &mut sum {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            *value += (state >> 40) as f32 / (1_u64 << 24) as f32 - 0.5;
        }
    }
    sum
}

/// A store with memory over it.
pub(crate) struct Place {
    pub(crate) memory: Memory,
    pub(crate) store: Store,
    pub(crate) scope: Scope,
    pub(crate) folder: Arc<TempDir>,
    name: String,
}

impl Place {
    pub(crate) async fn embedded(name: &str) -> Self {
        Self::over(Arc::new(tempfile::tempdir().unwrap()), name).await
    }

    /// With a connected server; nothing is sent before somebody replicates or searches.
    pub(crate) async fn on(uri: &str, name: &str) -> Self {
        let place = Self::embedded(name).await;
        place.connect(uri);
        place
    }

    async fn over(folder: Arc<TempDir>, name: &str) -> Self {
        let store = Store::open(StoreSettings::new(folder.path()), Ambient::system(), &[MIGRATIONS]).await.unwrap();
        let memory = Memory::new(store.clone(), Some(Arc::new(Words(name.to_owned()))));
        Self { memory, store, scope: Scope::single_user(), folder, name: name.to_owned() }
    }

    /// What another process sees: the same folder, nothing in RAM.
    pub(crate) async fn again(&self, uri: &str) -> Self {
        let place = Self::over(self.folder.clone(), &self.name).await;
        place.connect(uri);
        place
    }

    pub(crate) fn connect(&self, uri: &str) {
        let milvus = Milvus::new(settings(uri), Ambient::system()).unwrap();
        self.memory.connect(Arc::new(milvus)).unwrap();
    }

    /// Writes these texts with their vectors.
    pub(crate) async fn remember(&self, texts: impl IntoIterator<Item = String>) -> Vec<MemoryId> {
        let with_vector = |text: String| {
            let vector = Some(direction(&text));
            NewMemory { vector, ..note(text) }
        };
        self.memory.insert_many(&self.scope, texts.into_iter().map(with_vector).collect()).await.unwrap()
    }

    /// What its vectors are called in the server.
    pub(crate) fn space(&self) -> Space {
        Space { embedder: self.name.clone(), dimensions: DIMENSIONS }
    }

    /// Waits until what was sent is left to the server.
    pub(crate) async fn settled(&self) {
        tokio::time::timeout(std::time::Duration::from_millis(2_100), std::future::pending::<()>()).await.unwrap_err();
    }

    /// Waits until the server has everything, as the background task would bring it about.
    pub(crate) async fn level(&self) {
        let started = std::time::Instant::now();
        while let Err(error) = self.memory.replicate_pending().await {
            assert!(started.elapsed() < std::time::Duration::from_secs(60), "{error:?}");
            tokio::task::yield_now().await;
        }
    }

    pub(crate) async fn search(&self, query: &Query) -> Recall {
        self.memory.search(&self.scope, query).await.unwrap()
    }

    /// Contents by meaning alone, best first; the server must have been asked without a complaint.
    pub(crate) async fn found(&self, text: &str, k: usize) -> Vec<String> {
        let recall = self.search(&by_meaning(text, k)).await;
        assert!(recall.notes.is_empty(), "{:?}", recall.notes);
        contents(&recall)
    }
}

pub(crate) fn note(text: impl Into<String>) -> NewMemory {
    NewMemory::new("c", Kind::Note, Source::Agent, text)
}

pub(crate) fn by_meaning(text: &str, k: usize) -> Query {
    Query { vector: Some(direction(text)), ..Query::new("", k) }
}

pub(crate) fn contents(recall: &Recall) -> Vec<String> {
    recall.hits.iter().map(|hit| hit.item.content.clone()).collect()
}

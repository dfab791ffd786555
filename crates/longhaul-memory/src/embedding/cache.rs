//! Remembers vectors of texts that were embedded before, within a number of bytes.
//!
//! Keys are digests, so no text is kept. Invariant: what is given out was given by the embedder for exactly this text
//! in this role; failures are not remembered.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use sha2::{Digest as _, Sha256};

use crate::{EmbedError, Embedder};

/// Bytes of an entry beside its vector: digest, two map entries.
const ENTRY_BYTES: usize = 160;

type Key = [u8; 32];

/// An embedder that is asked only for what it was not asked for lately.
pub struct Cached {
    inner: Arc<dyn Embedder>,
    kept: Mutex<Kept>,
}

struct Kept {
    bytes_max: usize,
    bytes: usize,
    /// Counts uses; the smallest number is the entry longest unused.
    uses: u64,
    vectors: HashMap<Key, (u64, Arc<[f32]>)>,
    order: BTreeMap<u64, Key>,
}

/// In which role a text was embedded.
#[derive(Clone, Copy)]
enum Role {
    Query,
    Document,
}

impl Cached {
    /// Remembers at most `bytes_max` bytes of what `inner` gives.
    #[must_use]
    pub fn new(inner: Arc<dyn Embedder>, bytes_max: usize) -> Self {
        let kept = Kept { bytes_max, bytes: 0, uses: 0, vectors: HashMap::new(), order: BTreeMap::new() };
        Self { inner, kept: Mutex::new(kept) }
    }

    /// Bytes in use.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.lock().bytes
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn key(&self, role: Role, text: &str) -> Key {
        let mut hash = Sha256::new();
        hash.update(self.inner.id().as_bytes());
        hash.update([0, matches!(role, Role::Query).into()]);
        hash.update(text.as_bytes());
        hash.finalize().into()
    }

    async fn through(&self, role: Role, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let keys: Vec<Key> = texts.iter().map(|text| self.key(role, text)).collect();
        let known: Vec<Option<Arc<[f32]>>> = {
            let mut kept = self.lock();
            keys.iter().map(|key| kept.get(key)).collect()
        };
        let asked: Vec<String> =
            texts.iter().zip(&known).filter(|(_, known)| known.is_none()).map(|(text, _)| text.clone()).collect();
        let fresh = match (asked.is_empty(), role) {
            (true, _) => Vec::new(),
            (false, Role::Query) => self.inner.embed_queries(&asked).await?,
            (false, Role::Document) => self.inner.embed(&asked).await?,
        };
        if fresh.len() != asked.len() {
            let problem = format!("{} vectors came back for {} texts", fresh.len(), asked.len());
            return Err(EmbedError::Failed { id: self.inner.id().to_owned(), problem });
        }
        let mut fresh = fresh.into_iter();
        let mut kept = self.lock();
        let vectors = keys.into_iter().zip(known).filter_map(|(key, known)| match known {
            Some(vector) => Some(vector.to_vec()),
            None => fresh.next().inspect(|vector| kept.put(key, vector)),
        });
        Ok(vectors.collect())
    }
}

impl Kept {
    fn get(&mut self, key: &Key) -> Option<Arc<[f32]>> {
        let (used, vector) = self.vectors.get_mut(key)?;
        self.uses += 1;
        self.order.remove(used);
        self.order.insert(self.uses, *key);
        *used = self.uses;
        Some(vector.clone())
    }

    fn put(&mut self, key: Key, vector: &[f32]) {
        let bytes = |vector: &[f32]| size_of_val(vector) + ENTRY_BYTES;
        if bytes(vector) > self.bytes_max {
            return;
        }
        self.uses += 1;
        if let Some((used, before)) = self.vectors.insert(key, (self.uses, vector.into())) {
            self.order.remove(&used);
            self.bytes -= bytes(&before);
        }
        self.order.insert(self.uses, key);
        self.bytes += bytes(vector);
        while self.bytes > self.bytes_max {
            let Some((_, oldest)) = self.order.pop_first() else { break };
            if let Some((_, vector)) = self.vectors.remove(&oldest) {
                self.bytes -= bytes(&vector);
            }
        }
    }
}

#[async_trait]
impl Embedder for Cached {
    fn id(&self) -> &str {
        self.inner.id()
    }

    fn dimensions(&self) -> usize {
        self.inner.dimensions()
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        self.through(Role::Document, texts).await
    }

    async fn embed_queries(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        self.through(Role::Query, texts).await
    }

    fn reads(&self, text: &str) -> bool {
        self.inner.reads(text)
    }
}

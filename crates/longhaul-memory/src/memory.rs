//! The handle through which memory is written and read: rows in the caller's transaction, one at a time by id.
//!
//! Searching is `search`'s, changing `edit`'s and embedding `indexer`'s business. Invariant: a row and its keywords are
//! written by one transaction, the caller's; reading never writes (invariant 9).

use std::{
    path::PathBuf,
    sync::{Arc, OnceLock, PoisonError, RwLock},
};

use longhaul_core::{MemoryId, Scope};
use longhaul_store::{Place, ReadTx, Store, StoreError, Tx, values};
use tokio::sync::Notify;

use crate::{
    Embedder, Item, MemoryError, Namespace, NewMemory, Prepared, RankSettings, Tier,
    access::{self, Numbers, Right},
    actions,
    change::Change,
    columns::Shelf,
    embed,
    keyword::{self, Recent},
    life::{Life, facts},
    namespace::PartitionId,
    remote::Link,
    rows::{self, COLUMNS},
    user,
    vectors::Cache,
};

/// RAM for vectors of partitions that were searched lately: about 280,000 memories at 384 dimensions. A single partition
/// may take more.
const VECTOR_BYTES_MAX: usize = 128 * 1024 * 1024;
/// RAM for columns of partitions that were searched lately. A single partition may take more.
const COLUMN_BYTES_MAX: usize = 64 * 1024 * 1024;
/// RAM for postings of frequent terms.
const POSTING_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Memories written by one transaction of [`Memory::insert_many`]: whole blocks of postings, so that most are written
/// once; and the more of them, the fewer times a page of the index is written.
const BATCH: usize = 5_120;

/// Long-term memory over a store. Cheap to clone.
#[derive(Clone)]
pub struct Memory {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) store: Store,
    pub(crate) embedder: Option<Arc<dyn Embedder>>,
    pub(crate) change: Change,
    pub(crate) columns: Shelf,
    pub(crate) vectors: Cache,
    pub(crate) words: Recent,
    /// What becomes of memories after they were written.
    pub(crate) life: Life,
    /// A server that has a copy of the vectors, where one was connected.
    pub(crate) remote: OnceLock<Link>,
    rank: RwLock<Arc<RankSettings>>,
    /// Rung when rows were written that have no vector yet.
    pub(crate) wake: Notify,
}

impl Shared {
    /// The settings that one search ranks by.
    pub(crate) fn rank(&self) -> Arc<RankSettings> {
        self.rank.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Memory {
    /// Memory over a store opened with [`crate::MIGRATIONS`]. Without an embedder it is searched by words alone.
    #[must_use]
    pub fn new(store: Store, embedder: Option<Arc<dyn Embedder>>) -> Self {
        Self::with_previous(store, embedder, None)
    }

    /// The same after the embedding model was changed: until [`Memory::indexer`] has embedded a partition anew, what
    /// `previous` embedded there goes on serving. Without it, or where it fails, a partition is searched by words and by
    /// the part that has been embedded already; [`Memory::backlog`] says how much is left.
    #[must_use]
    pub fn with_previous(
        store: Store,
        embedder: Option<Arc<dyn Embedder>>,
        previous: Option<Arc<dyn Embedder>>,
    ) -> Self {
        let change = Change::new(previous, embedder.as_ref());
        let vectors = Cache::new(VECTOR_BYTES_MAX, index_dir(store.place()));
        let columns = Shelf::new(COLUMN_BYTES_MAX);
        let (words, rank) = (Recent::new(POSTING_BYTES_MAX), RwLock::default());
        let life = Life::new(store.place());
        let (remote, wake) = (OnceLock::new(), Notify::new());
        let shared = Shared { store, embedder, change, columns, vectors, words, life, remote, rank, wake };
        Self { shared: Arc::new(shared) }
    }

    /// The id of the model that embeds, where one is configured.
    #[must_use]
    pub fn embedder_id(&self) -> Option<&str> {
        self.shared.embedder.as_ref().map(|embedder| embedder.id())
    }

    /// Ranks by these settings from the next search on, in all clones of this handle.
    ///
    /// # Errors
    /// [`MemoryError::Field`] naming the setting that is out of range.
    pub fn rank_by(&self, settings: RankSettings) -> Result<(), MemoryError> {
        settings.check()?;
        *self.shared.rank.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(settings);
        Ok(())
    }

    /// Checks and writes one memory in the caller's transaction: found by its words from the commit on, by its meaning
    /// once it has been embedded.
    ///
    /// # Errors
    /// Those of [`NewMemory::prepare`] and of [`Memory::insert_prepared`].
    pub fn insert(&self, tx: &mut Tx<'_>, scope: &Scope, memory: &NewMemory) -> Result<MemoryId, MemoryError> {
        let prepared = memory.clone().prepare()?;
        self.insert_prepared(tx, scope, &prepared)
    }

    /// Writes a memory that was checked before the transaction began, which keeps the transaction short.
    ///
    /// # Errors
    /// [`MemoryError::NoAccess`], [`MemoryError::Frozen`], [`MemoryError::BadVector`]; those of the store.
    pub fn insert_prepared(
        &self,
        tx: &mut Tx<'_>,
        scope: &Scope,
        prepared: &Prepared,
    ) -> Result<MemoryId, MemoryError> {
        let ids = self.insert_batch(tx, scope, &prepared.memory.namespace, &[prepared])?;
        ids.into_iter().next().ok_or(MemoryError::Empty)
    }

    /// Writes memories that were checked before the transaction began, in order: many at once take far less time than
    /// one by one. Their ids are given in the same order.
    ///
    /// # Errors
    /// As [`Memory::insert_prepared`].
    pub fn insert_all(
        &self,
        tx: &mut Tx<'_>,
        scope: &Scope,
        prepared: &[Prepared],
    ) -> Result<Vec<MemoryId>, MemoryError> {
        let mut ids = Vec::with_capacity(prepared.len());
        for group in prepared.chunk_by(|a, b| a.memory.namespace == b.memory.namespace) {
            let namespace = &group[0].memory.namespace;
            ids.extend(self.insert_batch(tx, scope, namespace, &group.iter().collect::<Vec<_>>())?);
        }
        Ok(ids)
    }

    /// Writes memories that were checked before, and whose namespace is this one, in order; as [`Memory::insert_all`].
    ///
    /// # Errors
    /// As [`Memory::insert_prepared`].
    pub fn insert_batch(
        &self,
        tx: &mut Tx<'_>,
        scope: &Scope,
        namespace: &Namespace,
        batch: &[&Prepared],
    ) -> Result<Vec<MemoryId>, MemoryError> {
        user::check_switch(tx, scope)?;
        // Before anything is written, so that the caller's transaction stays usable.
        let vectors: Vec<Option<Vec<f32>>> =
            batch.iter().map(|prepared| self.given_vector(prepared)).collect::<Result<_, _>>()?;
        let length = batch.iter().map(|prepared| u64::from(prepared.length)).sum();
        let first = access::next(tx, scope, namespace, batch.len(), length)?;
        let id = PartitionId::new(&scope.tenant, namespace);
        let mut ids = Vec::with_capacity(batch.len());
        for (offset, prepared) in (0..).zip(batch) {
            let numbers = Numbers { seq: first.seq + offset, change: first.change + offset };
            let memory_id = MemoryId::from_body(&tx.ambient().ids.body());
            rows::insert(tx, &id, &scope.user, numbers, &memory_id, prepared)?;
            if let Some(fact) = &prepared.memory.fact {
                let happened_at = prepared.memory.happened_at.unwrap_or_else(|| tx.now());
                facts::settle(tx, &id, numbers.seq, &memory_id, fact, happened_at)?;
            }
            ids.push(memory_id);
        }
        keyword::add(tx, &id, first.seq, batch)?;
        if let Some(embedder) = &self.shared.embedder {
            let given = (first.seq..).zip(&vectors);
            let given: Vec<(i64, &[f32])> = given.filter_map(|(seq, vector)| Some((seq, vector.as_deref()?))).collect();
            rows::keep_vectors(tx, &id, embedder.id(), &given)?;
        }
        if batch.iter().zip(&vectors).any(|(prepared, given)| prepared.memory.index.has_meaning() && given.is_none()) {
            self.shared.wake.notify_one();
        }
        Ok(ids)
    }

    /// The vector that came with a memory, with length one.
    fn given_vector(&self, prepared: &Prepared) -> Result<Option<Vec<f32>>, MemoryError> {
        let Some(vector) = prepared.memory.vector.as_ref().filter(|_| prepared.memory.index.has_meaning()) else {
            return Ok(None);
        };
        self.unit_vector(vector).map(Some)
    }

    /// A vector given from outside, with length one.
    pub(crate) fn unit_vector(&self, vector: &[f32]) -> Result<Vec<f32>, MemoryError> {
        let Some(embedder) = &self.shared.embedder else {
            return Err(MemoryError::BadVector { problem: "no embedding model is configured".to_owned() });
        };
        embed::normalised(vector.to_vec(), embedder.dimensions()).map_err(|problem| MemoryError::BadVector { problem })
    }

    /// Checks and writes one memory in a transaction of its own.
    ///
    /// # Errors
    /// As [`Memory::insert`].
    pub async fn add(&self, scope: &Scope, memory: NewMemory) -> Result<MemoryId, MemoryError> {
        let prepared = memory.prepare()?;
        let (handle, scope) = (self.clone(), scope.clone());
        self.shared.store.write(move |tx| handle.insert_prepared(tx, &scope, &prepared)).await
    }

    /// Checks all of these and writes them in transactions of their own, some thousand in each. Their ids are given in
    /// order.
    ///
    /// # Errors
    /// As [`Memory::insert`]. Nothing is written when one is refused by its check; after an error of the store, whole
    /// transactions before it stay.
    pub async fn insert_many(&self, scope: &Scope, memories: Vec<NewMemory>) -> Result<Vec<MemoryId>, MemoryError> {
        let mut waiting: Vec<Prepared> = memories.into_iter().map(NewMemory::checked).collect::<Result<_, _>>()?;
        waiting.iter().try_for_each(|checked| self.given_vector(checked).map(drop))?;
        let mut next = || {
            let rest = waiting.split_off(waiting.len().min(BATCH));
            counted(std::mem::replace(&mut waiting, rest))
        };
        let (mut ids, mut batch) = (Vec::new(), next().await?);
        while !batch.is_empty() {
            // The next batch's words are taken from its texts while this one is written.
            let beside = next();
            let (handle, scope) = (self.clone(), scope.clone());
            let written = self.shared.store.write(move |tx| handle.insert_all(tx, &scope, &batch));
            // In this order: writing may take this thread.
            let (following, written) = tokio::join!(beside, written);
            ids.extend(written?);
            batch = following?;
        }
        Ok(ids)
    }

    /// The memory of this id, hot or cold, unless it has expired, or belongs to another tenant or to a namespace that the
    /// user may not read. It counts as used: a cold one comes back in the background.
    ///
    /// # Errors
    /// Those of the store; [`MemoryError::Cold`] when it is cold and cannot be read.
    pub async fn get(&self, scope: &Scope, id: &MemoryId) -> Result<Option<Item>, MemoryError> {
        let found = match self.get_hot(scope, id).await? {
            Some(item) => Some(item),
            None => self.get_cold(scope, id).await?,
        };
        if let Some(item) = &found {
            let now = self.shared.store.ambient().clock.now();
            self.shared.life.usage.used(&scope.tenant, id, &item.namespace, now);
            if item.tier == Tier::Cold {
                self.shared.life.wants_warmth(&scope.tenant, id);
            }
        }
        Ok(found)
    }

    async fn get_hot(&self, scope: &Scope, id: &MemoryId) -> Result<Option<Item>, MemoryError> {
        let (scope, id) = (scope.clone(), id.clone());
        let by_id = move |read: &ReadTx<'_>| {
            let sql = format!(
                "SELECT {COLUMNS} FROM memories
                 WHERE tenant_id = ?1 AND memory_id = ?2 AND (expires_at IS NULL OR expires_at > ?3)"
            );
            let item = read.query_optional(&sql, &values![&scope.tenant, &id, read.now()], rows::item)?;
            let Some(item) = item else { return Ok(None) };
            Ok(access::may(read, &scope, &item.namespace, Right::Read)?.then_some(item))
        };
        self.shared.store.read(by_id).await
    }

    /// Removes a memory with its keywords and its vector, in the caller's transaction. Tells whether there was one that
    /// the user may write to. A cold one's bytes leave its segment in the background. [`Memory::erase`] also gives a
    /// receipt.
    ///
    /// # Errors
    /// [`MemoryError::Frozen`] in a read-only namespace; those of the store.
    pub fn forget(&self, tx: &mut Tx<'_>, scope: &Scope, id: &MemoryId) -> Result<bool, MemoryError> {
        let Some(found) = rows::find(tx, &scope.tenant, id)? else { return self.forget_cold(tx, scope, id) };
        match access::open(tx, scope, &found.id.namespace, Right::Write) {
            Ok(Some(_)) => {}
            // As if there were no such memory.
            Ok(None) | Err(MemoryError::NoAccess { .. }) => return Ok(false),
            Err(error) => return Err(error),
        }
        user::forgotten(tx, &scope.tenant, id)?;
        actions::forgotten(tx, &scope.tenant, id)?;
        Ok(rows::erase(tx, &found)?)
    }
}

impl Shared {
    /// After an erasure has been committed: nothing of it is left in this machine's files, nor in the postings in RAM.
    /// Columns and vectors in RAM learn of it from the rows. Tells whether there was a file.
    ///
    /// # Errors
    /// When the file cannot be removed.
    pub(crate) fn purge(&self, id: &PartitionId) -> std::io::Result<bool> {
        self.words.drop_partition(id);
        self.vectors.purge(id)
    }
}

/// Takes the search terms from the texts of a batch; where there are many, in two threads beside the caller's.
async fn counted(mut batch: Vec<Prepared>) -> Result<Vec<Prepared>, StoreError> {
    const FEW: usize = 32;
    if batch.len() <= FEW {
        batch.iter_mut().for_each(Prepared::count_terms);
        return Ok(batch);
    }
    let half = batch.split_off(batch.len() / 2);
    let parts = [batch, half].map(|mut part| {
        tokio::task::spawn_blocking(move || {
            part.iter_mut().for_each(Prepared::count_terms);
            part
        })
    });
    let mut all = Vec::new();
    for part in parts {
        all.extend(part.await.map_err(|error| StoreError::Panicked { message: error.to_string() })?);
    }
    Ok(all)
}

/// Where this machine keeps what is derived from the store's rows; nowhere for a store that outlives nothing.
fn index_dir(place: &Place) -> Option<PathBuf> {
    match place {
        Place::Folder(dir) | Place::Postgres { dir, .. } => Some(dir.join("indexes")),
        Place::Memory => None,
    }
}

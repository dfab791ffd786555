//! The handle through which memory is written and read: rows in the caller's transaction, one at a time by id.
//!
//! Searching is `search`'s and embedding `indexer`'s business. Invariant: a row and its keywords are written by one
//! transaction, the caller's; reading never writes (invariant 9).

use std::{path::PathBuf, sync::Arc};

use longhaul_core::{MemoryId, Scope, TimeMs};
use longhaul_store::{Place, ReadTx, Row, Store, StoreError, Tx, values};
use tokio::sync::Notify;

use crate::{Embedder, Item, Kind, MemoryError, NewMemory, Prepared, Source, keyword, schema, vectors::Cache};

/// RAM for vectors of tenants that were searched lately: about 280,000 memories at 384 dimensions. A single tenant may
/// take more.
const CACHE_BYTES_MAX: usize = 128 * 1024 * 1024;

/// Long-term memory over a store. Cheap to clone.
#[derive(Clone)]
pub struct Memory {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) store: Store,
    pub(crate) embedder: Option<Arc<dyn Embedder>>,
    pub(crate) cache: Cache,
    /// Rung when rows were written that have no vector yet.
    pub(crate) wake: Notify,
}

impl Memory {
    /// Memory over a store opened with [`crate::MIGRATIONS`]. Without an embedder it is searched by words alone.
    #[must_use]
    pub fn new(store: Store, embedder: Option<Arc<dyn Embedder>>) -> Self {
        let cache = Cache::new(CACHE_BYTES_MAX, index_dir(store.place()));
        Self { shared: Arc::new(Shared { store, embedder, cache, wake: Notify::new() }) }
    }

    /// Checks and writes one memory in the caller's transaction: found by its words from the commit on, by its meaning
    /// once it has been embedded.
    ///
    /// # Errors
    /// Those of [`NewMemory::prepare`] and of the store.
    pub fn insert(&self, tx: &mut Tx<'_>, scope: &Scope, memory: &NewMemory) -> Result<MemoryId, MemoryError> {
        let prepared = memory.clone().prepare()?;
        Ok(self.insert_prepared(tx, scope, &prepared)?)
    }

    /// Writes a memory that was checked before the transaction began, which keeps the transaction short.
    ///
    /// # Errors
    /// Those of the store.
    pub fn insert_prepared(&self, tx: &mut Tx<'_>, scope: &Scope, prepared: &Prepared) -> Result<MemoryId, StoreError> {
        let id = MemoryId::from_body(&tx.ambient().ids.body());
        let now = tx.now();
        let seq = keyword::next_seq(tx, &scope.tenant, prepared.length)?;
        let memory = &prepared.memory;
        tx.execute(
            "INSERT INTO memories (tenant_id, seq, memory_id, v, user_id, task_id, collection, kind, source, content,
                                   meta, importance, created_at, expires_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
            &values![
                &scope.tenant,
                seq,
                &id,
                schema::ROW_VERSION,
                &scope.user,
                memory.task.as_ref(),
                &memory.collection,
                memory.kind.as_str(),
                memory.source.as_str(),
                &memory.content,
                &prepared.meta,
                memory.importance,
                now,
                memory.expires_at,
            ],
        )?;
        keyword::add(tx, &scope.tenant, seq, &prepared.terms, prepared.length)?;
        self.shared.wake.notify_one();
        Ok(id)
    }

    /// Checks and writes one memory in a transaction of its own.
    ///
    /// # Errors
    /// As [`Memory::insert`].
    pub async fn add(&self, scope: &Scope, memory: NewMemory) -> Result<MemoryId, MemoryError> {
        let prepared = memory.prepare()?;
        let (handle, scope) = (self.clone(), scope.clone());
        self.shared.store.write(move |tx| Ok(handle.insert_prepared(tx, &scope, &prepared)?)).await
    }

    /// The memory of this id, unless it has expired or belongs to another tenant.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn get(&self, scope: &Scope, id: &MemoryId) -> Result<Option<Item>, MemoryError> {
        let (scope, id) = (scope.clone(), id.clone());
        let by_id = move |read: &ReadTx<'_>| {
            let sql = format!(
                "SELECT {COLUMNS} FROM memories
                 WHERE tenant_id = ?1 AND memory_id = ?2 AND (expires_at IS NULL OR expires_at > ?3)"
            );
            Ok(read.query_optional(&sql, &values![&scope.tenant, &id, read.now()], item)?)
        };
        self.shared.store.read(by_id).await
    }

    /// Removes a memory with its keywords and its vector, in the caller's transaction. Tells whether there was one.
    ///
    /// # Errors
    /// Those of the store.
    pub fn forget(&self, tx: &mut Tx<'_>, scope: &Scope, id: &MemoryId) -> Result<bool, StoreError> {
        let found: Option<(i64, String)> = tx.query_optional(
            "SELECT seq, content FROM memories WHERE tenant_id = ?1 AND memory_id = ?2",
            &values![&scope.tenant, id],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
        let Some((seq, content)) = found else { return Ok(false) };
        keyword::remove(tx, &scope.tenant, seq, &content)?;
        for table in ["memory_vectors", "memories"] {
            tx.execute(
                &format!("DELETE FROM {table} WHERE tenant_id = ?1 AND seq = ?2"),
                &values![&scope.tenant, seq],
            )?;
        }
        Ok(true)
    }
}

/// Where this machine keeps what is derived from the store's rows; nowhere for a store that outlives nothing.
fn index_dir(place: &Place) -> Option<PathBuf> {
    match place {
        Place::Folder(dir) | Place::Postgres { dir, .. } => Some(dir.join("indexes")),
        Place::Memory => None,
    }
}

/// The columns [`item`] reads, in its order.
pub(crate) const COLUMNS: &str = "memory_id, collection, kind, source, content, meta, importance, user_id, task_id, \
                                  created_at, expires_at";

/// Reads one row of [`COLUMNS`].
pub(crate) fn item(row: &Row<'_>) -> Result<Item, StoreError> {
    let id: MemoryId = row.get(0)?;
    let meta = serde_json::from_str(row.text(5)?).map_err(StoreError::record("memory", &id))?;
    Ok(Item {
        id,
        collection: row.get(1)?,
        kind: kind(row, 2)?,
        source: row.text(3)?.parse::<Source>().map_err(|_| unreadable(3, "a source", row.text(3).unwrap_or("")))?,
        content: row.get(4)?,
        meta,
        importance: row.get(6)?,
        user: row.get(7)?,
        task: row.get(8)?,
        created_at: row.get::<TimeMs>(9)?,
        expires_at: row.get(10)?,
    })
}

pub(crate) fn kind(row: &Row<'_>, column: usize) -> Result<Kind, StoreError> {
    let word = row.text(column)?;
    word.parse().map_err(|_| unreadable(column, "a kind of memory", word))
}

fn unreadable(column: usize, expected: &'static str, found: &str) -> StoreError {
    StoreError::Column { column, expected, found: found.chars().take(80).collect() }
}

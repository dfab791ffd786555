//! Changing the embedding model while memory goes on.
//!
//! Vectors are kept for each embedder. Until a partition's rows have been embedded by the new one, the partition is
//! searched by whichever knows more of what the query's filter lets through, so the old vectors serve as long as the old
//! model can still embed a query. Then they are removed. Invariants: vectors of two embedders are never compared; what was
//! done is in the store, so a killed process goes on where it stopped; a process removes old vectors of a partition
//! once, so that two processes with different models do not undo each other's work for ever.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
};

use longhaul_core::Scope;
use longhaul_store::{ReadTx, Store, StoreError, values};

use crate::{
    Embedder, Memory, embed,
    namespace::{Namespace, PartitionId},
};

/// Old vectors removed by one transaction.
const REMOVED_AT_ONCE: usize = 1_000;

/// Rows of a partition that have no vector of either model: `?6` is the other model's id, beside the parameters of the
/// indexer's own condition.
pub(crate) const FRESH: &str = "AND NOT EXISTS (SELECT 1 FROM memory_vectors o WHERE o.tenant_id = m.tenant_id
    AND o.namespace = m.namespace AND o.seq = m.seq AND o.embedder = ?7)";

/// The model before, and how far its vectors have been replaced.
pub(crate) struct Change {
    previous: Option<Arc<dyn Embedder>>,
    settled: Mutex<HashSet<PartitionId>>,
}

impl Change {
    /// From `previous`, unless that is the same model.
    pub(crate) fn new(previous: Option<Arc<dyn Embedder>>, current: Option<&Arc<dyn Embedder>>) -> Self {
        let previous = previous.filter(|previous| current.is_some_and(|current| current.id() != previous.id()));
        Self { previous, settled: Mutex::default() }
    }

    /// Whether another model's vectors may still serve somewhere.
    pub(crate) fn is_under_way(&self) -> bool {
        self.previous.is_some()
    }

    /// The model whose vectors still serve in one of these partitions.
    pub(crate) async fn serving_any(
        &self,
        store: &Store,
        mut ids: Vec<PartitionId>,
    ) -> Result<Option<&Arc<dyn Embedder>>, StoreError> {
        let Some(previous) = &self.previous else { return Ok(None) };
        ids.retain(|id| !self.is_settled(id));
        let model = previous.id().to_owned();
        let any = move |read: &ReadTx<'_>| {
            for id in &ids {
                let sql = "SELECT seq FROM memory_vectors
                    WHERE tenant_id = ?1 AND namespace = ?2 AND embedder = ?3 LIMIT 1";
                let key = values![&id.tenant, id.namespace.as_str(), model.as_str()];
                if read.query_optional(sql, &key, |row| row.get::<i64>(0))?.is_some() {
                    return Ok(true);
                }
            }
            Ok::<_, StoreError>(false)
        };
        Ok(store.read(any).await?.then_some(previous))
    }

    /// The model whose vectors may still serve in this partition.
    pub(crate) fn serving(&self, id: &PartitionId) -> Option<&Arc<dyn Embedder>> {
        self.previous.as_ref().filter(|_| !self.is_settled(id))
    }

    fn is_settled(&self, id: &PartitionId) -> bool {
        self.settled.lock().unwrap_or_else(PoisonError::into_inner).contains(id)
    }

    /// Removes every vector of other models than `current`, whose own are complete. Tells how many.
    pub(crate) async fn settle(&self, store: &Store, id: &PartitionId, current: &str) -> Result<u64, StoreError> {
        if self.is_settled(id) {
            return Ok(0);
        }
        let mut removed = 0;
        loop {
            let (partition, current) = (id.clone(), current.to_owned());
            let some = move |read: &ReadTx<'_>| others(read, &partition, &current);
            let others = store.read(some).await?;
            if others.is_empty() {
                break;
            }
            let partition = id.clone();
            removed += store
                .write(move |tx| {
                    let mut removed = 0;
                    for (seq, embedder) in &others {
                        removed += tx.execute(
                            "DELETE FROM memory_vectors
                             WHERE tenant_id = ?1 AND namespace = ?2 AND seq = ?3 AND embedder = ?4",
                            &values![&partition.tenant, partition.namespace.as_str(), *seq, embedder],
                        )?;
                    }
                    Ok::<_, StoreError>(removed)
                })
                .await?;
        }
        self.settled.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone());
        Ok(removed)
    }
}

impl Memory {
    /// A query's vector by the model that was used before, if its vectors still serve and it can be had.
    pub(crate) async fn embedded_before(
        &self,
        scope: &Scope,
        namespaces: &[Namespace],
        text: &str,
    ) -> Result<Option<Vec<f32>>, StoreError> {
        let main = [Namespace::default()];
        let names = if namespaces.is_empty() { &main[..] } else { namespaces };
        let ids = names.iter().map(|name| PartitionId::new(&scope.tenant, name)).collect();
        let Some(previous) = self.shared.change.serving_any(&self.shared.store, ids).await? else { return Ok(None) };
        let vector = embed::unit_query(previous.as_ref(), text).await;
        Ok(vector.inspect_err(|error| tracing::warn!(%error, "the model used before cannot embed the query")).ok())
    }
}

fn others(read: &ReadTx<'_>, id: &PartitionId, current: &str) -> Result<Vec<(i64, String)>, StoreError> {
    let sql = format!(
        "SELECT seq, embedder FROM memory_vectors
         WHERE tenant_id = ?1 AND namespace = ?2 AND embedder <> ?3 ORDER BY seq LIMIT {REMOVED_AT_ONCE}"
    );
    let other = |row: &longhaul_store::Row<'_>| Ok((row.get(0)?, row.get(1)?));
    read.query(&sql, &values![&id.tenant, id.namespace.as_str(), current], other)
}

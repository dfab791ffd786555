//! The embedded vector engine: for each partition of memory, the nearest of its unit vectors to a query's.
//!
//! Derived from `memory_vectors`: a partition remembers up to which number it has read, and every search first reads
//! what came after, so writes of other processes are seen as well. A small partition is compared whole, by bytes; a large
//! one has an index that a background thread builds (`builder`) and a file that spares the next process the work
//! (`file`). Invariants: a vector of another model or of another length never gets in; what is given out was computed
//! from the rows of the search's snapshot; beyond the bound in bytes the partitions not used for longest are dropped, and
//! read again when they come back.

mod builder;
mod centres;
mod dot;
pub(crate) mod exact;
mod file;
mod kernels;
mod lists;
mod partition;
mod quantise;
mod slots;
#[cfg(test)]
mod tests;
mod top;

use std::{
    collections::HashMap,
    io,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use longhaul_store::{ReadTx, StoreError, values};

use crate::{bits::Bits, namespace::PartitionId};

pub(crate) use dot::dot;

use builder::{Builder, INDEX_MIN};
pub(crate) use partition::Partition;
use partition::State;

/// The vectors of all partitions that were searched lately.
#[derive(Debug)]
pub(crate) struct Cache {
    tenants: Mutex<Tenants>,
    bytes_max: usize,
    builder: Builder,
}

#[derive(Debug, Default)]
struct Tenants {
    partitions: HashMap<(PartitionId, String), (u64, Arc<Partition>)>,
    uses: u64,
}

/// A partition with everything that a snapshot holds.
#[derive(Debug, Clone)]
pub(crate) struct Current {
    partition: Arc<Partition>,
    newest: i64,
}

impl Cache {
    /// Keeps its files in `dir`, which it makes when it first writes one; without, it keeps none.
    pub(crate) fn new(bytes_max: usize, dir: Option<PathBuf>) -> Self {
        Self::with_index_from(bytes_max, dir, INDEX_MIN)
    }

    fn with_index_from(bytes_max: usize, dir: Option<PathBuf>, index_min: usize) -> Self {
        Self { tenants: Mutex::default(), bytes_max, builder: Builder::new(dir, index_min) }
    }

    /// The partition's vectors, with everything that the snapshot holds.
    pub(crate) fn current(
        &self,
        read: &ReadTx<'_>,
        id: &PartitionId,
        embedder: &str,
        dimensions: usize,
    ) -> Result<Current, StoreError> {
        let partition = self.of(id, embedder, dimensions);
        let (newest, last_seq, last_change): (i64, i64, i64) = read
            .query_optional(
                "SELECT last_vector_seq, last_seq, last_change FROM memory_partitions
                 WHERE tenant_id = ?1 AND namespace = ?2",
                &values![&id.tenant, id.namespace.as_str()],
                |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
            )?
            .unwrap_or((0, 0, 0));
        if newest > partition.state().read_to {
            partition.catch_up(read, newest, || self.loaded(read, &partition, newest, last_seq))?;
            self.shrink(&partition);
        }
        partition.learn_of_the_gone(read, newest, last_change)?;
        self.builder.wake(&partition);
        Ok(Current { partition, newest })
    }

    /// What the partition's file holds, if it fits the rows.
    fn loaded(
        &self,
        read: &ReadTx<'_>,
        partition: &Partition,
        newest: i64,
        last_seq: i64,
    ) -> Result<Option<State>, StoreError> {
        let Some(dir) = self.builder.dir().filter(|_| newest >= self.builder.index_min() as i64) else {
            return Ok(None);
        };
        let mut state = match file::load(dir, partition, newest, last_seq) {
            Ok(Some(state)) => state,
            Ok(None) => return Ok(None),
            Err(error) => {
                tracing::warn!(%error, "the saved vector index cannot be used and is built again");
                return Ok(None);
            }
        };
        if partition.fits(read, &mut state)? {
            return Ok(Some(state));
        }
        tracing::warn!("the saved vector index does not fit the rows and is built again");
        Ok(None)
    }

    /// Removes a partition's file, after an erasure has been committed, so that nothing erased is left in it. It is
    /// written anew once this process has learned from the rows what is gone. Tells whether there was one.
    ///
    /// # Errors
    /// When the file cannot be removed.
    pub(crate) fn purge(&self, id: &PartitionId) -> io::Result<bool> {
        {
            let tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
            let of_it = tenants.partitions.iter().filter(|((of, _), _)| of == id);
            // Whoever is writing the file now finds out before it is done.
            of_it.for_each(|(_, (_, partition))| partition.purge());
        }
        self.builder.dir().map_or(Ok(false), |dir| file::remove(dir, id))
    }

    /// Whether nothing is done or waits to be done in the background.
    pub(crate) fn is_idle(&self) -> bool {
        self.builder.is_idle()
    }

    fn of(&self, id: &PartitionId, embedder: &str, dimensions: usize) -> Arc<Partition> {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        tenants.uses += 1;
        let now = tenants.uses;
        let (used, partition) = tenants
            .partitions
            .entry((id.clone(), embedder.to_owned()))
            .or_insert_with(|| (now, Arc::new(Partition::new(id.clone(), embedder, dimensions))));
        *used = now;
        partition.clone()
    }

    /// Drops what was not used for longest, but never `kept`, until the rest fits.
    fn shrink(&self, kept: &Arc<Partition>) {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        let mut held: usize = tenants.partitions.values().map(|(_, partition)| partition.state().bytes()).sum();
        while held > self.bytes_max {
            let others = tenants.partitions.iter().filter(|(_, (_, partition))| !Arc::ptr_eq(partition, kept));
            let Some(oldest) = others.min_by_key(|(_, (used, _))| *used).map(|(key, _)| key.clone()) else { break };
            if let Some((_, partition)) = tenants.partitions.remove(&oldest) {
                held -= partition.state().bytes();
            }
        }
    }
}

impl Current {
    /// The `take` allowed memories nearest to the query, with their cosines, best first.
    pub(crate) fn search(
        &self,
        read: &ReadTx<'_>,
        query: &[f32],
        allowed: &Bits,
        take: usize,
    ) -> Result<Vec<(f32, i64)>, StoreError> {
        self.partition.search(read, self.newest, query, allowed, take)
    }

    /// The cosines of these memories; those without a usable vector are left out.
    pub(crate) fn cosines(
        &self,
        read: &ReadTx<'_>,
        query: &[f32],
        seqs: &[i64],
    ) -> Result<HashMap<i64, f32>, StoreError> {
        self.partition.cosines(read, query, seqs)
    }

    /// The cosines of these memories as far as bytes tell, without reading rows.
    pub(crate) fn estimates(&self, query: &[f32], seqs: &[i64]) -> HashMap<i64, f32> {
        self.partition.estimates(query, seqs)
    }

    /// How many of these memories have a vector.
    pub(crate) fn known(&self, allowed: &Bits) -> usize {
        self.partition.known(allowed)
    }
}

/// How a vector is stored: its values as little-endian 32-bit floats.
pub(crate) fn encode(vector: &[f32]) -> Vec<u8> {
    vector.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// The vector in these bytes, if it is one of that length with finite values.
pub(crate) fn decoded(bytes: &[u8], dimensions: usize) -> Option<Vec<f32>> {
    if bytes.len() != dimensions * size_of::<f32>() {
        return None;
    }
    let value = |value: &[u8]| f32::from_le_bytes([value[0], value[1], value[2], value[3]]);
    let vector: Vec<f32> = bytes.chunks_exact(4).map(value).collect();
    vector.iter().all(|value| value.is_finite()).then_some(vector)
}

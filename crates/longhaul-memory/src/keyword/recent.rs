//! Postings of frequent terms in RAM, so that a query reads but a few rows of each.
//!
//! Blocks of numbers that have all been handed out change only when one of their memories is changed or erased, which
//! columns learn of from the rows' change numbers; newer blocks are read each time. Derived, bounded in bytes, never
//! needed. Invariant: what is given for a term is what the snapshot's rows say of it, or newer.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use longhaul_store::{ReadTx, StoreError, values};

use crate::{access::Partition, columns::Columns, namespace::PartitionId, words::Posting};

use super::{BLOCK, decode};

/// Terms in fewer blocks are read from their rows each time.
const BLOCKS_MIN: usize = 8;
/// Blocks read beside the held ones before these are made anew.
const BESIDE_MAX: usize = 12;

/// The postings of terms asked for lately.
#[derive(Debug)]
pub(crate) struct Recent {
    terms: Mutex<Terms>,
    bytes_max: usize,
}

#[derive(Debug, Default)]
struct Terms {
    held: HashMap<(PartitionId, String), (u64, Arc<Held>)>,
    uses: u64,
    bytes: usize,
}

/// The postings of one term in all blocks below `sealed`.
#[derive(Debug)]
struct Held {
    /// Which columns told of changes since.
    generation: u64,
    /// Rules by which the index was built.
    analyser: u32,
    /// All changes up to this number are in.
    read_at: i64,
    sealed: i64,
    postings: Vec<u8>,
    /// Each block with the end of its postings, in order.
    blocks: Vec<(i64, u32)>,
}

impl Held {
    fn bytes(&self) -> usize {
        self.postings.capacity() + 16 * self.blocks.capacity() + 256
    }
}

impl Recent {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { terms: Mutex::default(), bytes_max }
    }

    /// Where a term occurs, in order of numbers. `columns` are the partition's, brought up to the snapshot.
    pub(crate) fn occurrences(
        &self,
        read: &ReadTx<'_>,
        partition: &Partition,
        columns: &Columns,
        term: &str,
    ) -> Result<Vec<Posting>, StoreError> {
        let key = (partition.id.clone(), term.to_owned());
        let sealed = (partition.last_seq + 1) / BLOCK;
        let held =
            self.of(&key).filter(|held| held.generation == columns.generation() && held.analyser == partition.analyser);
        let mut fresh: Vec<(i64, Vec<u8>)> = Vec::new();
        let mut collect = |block, postings: &[u8]| fresh.push((block, postings.to_vec()));
        let Some(held) = held else {
            from_rows(read, &key, "block >= ?4", 0, &mut collect)?;
            if fresh.len() >= BLOCKS_MIN {
                self.hold(
                    key,
                    made(partition, columns, sealed, fresh.iter().map(|(block, bytes)| (*block, &bytes[..]))),
                );
            }
            return Ok(occurrences(fresh.iter().map(|(block, bytes)| (*block, &bytes[..]))));
        };
        let changed = columns.blocks_changed_after(BLOCK, held.read_at, held.sealed);
        if changed.len() > BESIDE_MAX {
            from_rows(read, &key, "block >= ?4", 0, &mut collect)?;
            self.hold(key, made(partition, columns, sealed, fresh.iter().map(|(block, bytes)| (*block, &bytes[..]))));
            return Ok(occurrences(fresh.iter().map(|(block, bytes)| (*block, &bytes[..]))));
        }
        for block in &changed {
            from_rows(read, &key, "block = ?4", *block, &mut collect)?;
        }
        from_rows(read, &key, "block >= ?4", held.sealed, &mut collect)?;
        // Held blocks that have not changed, and the fresh ones between and after them.
        let mut all: Vec<(i64, &[u8])> = Vec::with_capacity(held.blocks.len() + fresh.len());
        let mut start = 0;
        for (block, end) in &held.blocks {
            if changed.binary_search(block).is_err() {
                all.push((*block, &held.postings[start..*end as usize]));
            }
            start = *end as usize;
        }
        all.extend(fresh.iter().map(|(block, bytes)| (*block, &bytes[..])));
        all.sort_unstable_by_key(|(block, _)| *block);
        if changed.len() + usize::try_from(sealed - held.sealed).unwrap_or(0) > BESIDE_MAX {
            self.hold(key, made(partition, columns, sealed, all.iter().copied()));
        }
        Ok(occurrences(all.into_iter()))
    }

    /// Forgets what is held of a partition.
    pub(crate) fn drop_partition(&self, id: &PartitionId) {
        let mut terms = self.terms.lock().unwrap_or_else(PoisonError::into_inner);
        terms.held.retain(|(of, _), _| of != id);
        terms.bytes = terms.held.values().map(|(_, held)| held.bytes()).sum();
    }

    fn of(&self, key: &(PartitionId, String)) -> Option<Arc<Held>> {
        let mut terms = self.terms.lock().unwrap_or_else(PoisonError::into_inner);
        terms.uses += 1;
        let now = terms.uses;
        let (used, held) = terms.held.get_mut(key)?;
        *used = now;
        Some(held.clone())
    }

    fn hold(&self, key: (PartitionId, String), held: Held) {
        let mut terms = self.terms.lock().unwrap_or_else(PoisonError::into_inner);
        terms.uses += 1;
        let now = terms.uses;
        terms.bytes += held.bytes();
        if let Some((_, before)) = terms.held.insert(key, (now, Arc::new(held))) {
            terms.bytes -= before.bytes();
        }
        while terms.bytes > self.bytes_max {
            let oldest = terms.held.iter().min_by_key(|(_, (used, _))| *used).map(|(key, _)| key.clone());
            let Some((_, gone)) = oldest.and_then(|oldest| terms.held.remove(&oldest)) else { break };
            terms.bytes -= gone.bytes();
        }
    }
}

fn from_rows(
    read: &ReadTx<'_>,
    (id, term): &(PartitionId, String),
    which: &str,
    block: i64,
    each: &mut impl FnMut(i64, &[u8]),
) -> Result<(), StoreError> {
    let sql = format!(
        "SELECT block, postings FROM memory_postings
         WHERE tenant_id = ?1 AND namespace = ?2 AND term = ?3 AND {which} ORDER BY block"
    );
    read.for_each(&sql, &values![&id.tenant, id.namespace.as_str(), term, block], |row| {
        each(row.get(0)?, row.bytes(1)?);
        Ok(true)
    })
}

/// What is held of these blocks: those that are sealed.
fn made<'a>(
    partition: &Partition,
    columns: &Columns,
    sealed: i64,
    blocks: impl Iterator<Item = (i64, &'a [u8])>,
) -> Held {
    let mut held = Held {
        generation: columns.generation(),
        analyser: partition.analyser,
        read_at: partition.last_change,
        sealed,
        postings: Vec::new(),
        blocks: Vec::new(),
    };
    for (block, postings) in blocks.filter(|(block, _)| *block < sealed) {
        held.postings.extend_from_slice(postings);
        held.blocks.push((block, u32::try_from(held.postings.len()).unwrap_or(u32::MAX)));
    }
    held.postings.shrink_to_fit();
    held.blocks.shrink_to_fit();
    held
}

fn occurrences<'a>(blocks: impl Iterator<Item = (i64, &'a [u8])>) -> Vec<Posting> {
    let mut all = Vec::new();
    let mut is_sorted = true;
    for (block, postings) in blocks {
        for posting in decode(postings) {
            let Ok(seq) = u32::try_from(block * BLOCK + i64::from(posting.offset)) else { continue };
            is_sorted &= all.last().is_none_or(|last: &Posting| last.seq < seq);
            all.push(Posting { seq, count: posting.count, length: posting.length });
        }
    }
    if !is_sorted {
        // A memory that was edited stands behind the others of its block.
        all.sort_unstable_by_key(|occurrence| occurrence.seq);
        all.dedup_by_key(|occurrence| occurrence.seq);
    }
    all
}

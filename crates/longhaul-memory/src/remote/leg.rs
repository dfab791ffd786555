//! The leg by meaning of one partition: the embedded engine, or the server's candidates with what it may lack.
//!
//! Invariant: both give the same: cosines in full precision, from the rows of the snapshot, of allowed memories only.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, atomic::Ordering},
};

use longhaul_store::{ReadTx, StoreError, Value, values};

use super::{Link, Space, asking::Answer};
use crate::{
    bits::Bits,
    namespace::PartitionId,
    vectors::{self, Current},
};

/// Allowed memories up to which all of them are compared, whatever the server says.
const EXACT_MAX: usize = 1_000;
/// By how much the server's cosines may differ from ours.
const ROUNDING: f32 = 1e-3;

/// What a query's vector is compared with in a partition.
#[derive(Debug, Clone)]
pub(crate) enum Leg {
    /// The embedded engine.
    Local(Current),
    /// The server's candidates.
    Remote(RemoteLeg),
}

/// The server's candidates for one partition, as a snapshot sees them.
#[derive(Debug, Clone)]
pub(crate) struct RemoteLeg {
    id: PartitionId,
    space: Space,
    answer: Arc<Answer>,
    /// Which memories have a vector.
    known: Arc<Bits>,
}

impl Leg {
    /// The `take` allowed memories nearest to the query, with their cosines, best first.
    pub(crate) fn search(
        &self,
        read: &ReadTx<'_>,
        query: &[f32],
        allowed: &Bits,
        take: usize,
    ) -> Result<Vec<(f32, i64)>, StoreError> {
        match self {
            Self::Local(current) => current.search(read, query, allowed, take),
            Self::Remote(leg) => leg.search(read, query, allowed, take),
        }
    }

    /// The cosines of these memories; those without a usable vector are left out.
    pub(crate) fn cosines(
        &self,
        read: &ReadTx<'_>,
        query: &[f32],
        seqs: &[i64],
    ) -> Result<HashMap<i64, f32>, StoreError> {
        match self {
            Self::Local(current) => current.cosines(read, query, seqs),
            Self::Remote(leg) => leg.cosines(read, query, seqs),
        }
    }

    /// The cosines of these memories as far as this process can tell without reading rows: nothing, where a server has the
    /// vectors.
    pub(crate) fn estimates(&self, query: &[f32], seqs: &[i64]) -> HashMap<i64, f32> {
        match self {
            Self::Local(current) => current.estimates(query, seqs),
            Self::Remote(_) => HashMap::new(),
        }
    }

    /// How many of these memories have a vector.
    pub(crate) fn known(&self, allowed: &Bits) -> usize {
        match self {
            Self::Local(current) => current.known(allowed),
            Self::Remote(leg) => {
                let mut both = allowed.clone();
                both.intersect(&leg.known);
                both.len()
            }
        }
    }
}

impl RemoteLeg {
    pub(crate) fn new(
        read: &ReadTx<'_>,
        link: &Link,
        id: &PartitionId,
        space: &Space,
        answer: &Arc<Answer>,
    ) -> Result<Self, StoreError> {
        let known = link.known(read, id, &space.embedder)?;
        Ok(Self { id: id.clone(), space: space.clone(), answer: answer.clone(), known })
    }

    fn search(
        &self,
        read: &ReadTx<'_>,
        query: &[f32],
        allowed: &Bits,
        take: usize,
    ) -> Result<Vec<(f32, i64)>, StoreError> {
        let mut cosines = if allowed.len() <= EXACT_MAX {
            self.cosines(read, query, &allowed.iter().collect::<Vec<_>>())?
        } else {
            let seqs: Vec<i64> = self.answer.seqs.iter().copied().filter(|seq| allowed.has(*seq)).collect();
            let mut cosines = self.cosines(read, query, &seqs)?;
            self.overlay(read, query, allowed, &mut cosines)?;
            cosines
        };
        let mut found: Vec<(f32, i64)> = cosines.drain().map(|(seq, cosine)| (cosine, seq)).collect();
        found.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)));
        found.truncate(take);
        if allowed.len() > EXACT_MAX
            && let Some(cutoff) = self.answer.cutoff
        {
            // Better ones may lie behind the last that the server gave.
            let is_enough = found.len() == take && found.last().is_some_and(|(cosine, _)| *cosine >= cutoff - ROUNDING);
            self.answer.too_few.store(!is_enough, Ordering::Relaxed);
        }
        Ok(found)
    }

    /// Compares what the server may lack, or may have as it was before.
    fn overlay(
        &self,
        read: &ReadTx<'_>,
        query: &[f32],
        allowed: &Bits,
        cosines: &mut HashMap<i64, f32>,
    ) -> Result<(), StoreError> {
        let since = self.answer.since;
        let key = [self.id.tenant.as_str(), self.id.namespace.as_str(), &self.space.embedder];
        let params = |after: i64| -> Vec<Value> { values![key[0], key[1], key[2], after].into() };
        let new = "SELECT seq, vector FROM memory_vectors
             WHERE tenant_id = ?1 AND namespace = ?2 AND embedder = ?3 AND vector_seq > ?4";
        let changed = "SELECT v.seq, v.vector FROM memories m
             JOIN memory_vectors v ON v.tenant_id = m.tenant_id AND v.namespace = m.namespace AND v.seq = m.seq
                 AND v.embedder = ?3
             WHERE m.tenant_id = ?1 AND m.namespace = ?2 AND m.change_seq > ?4";
        for (sql, after) in [(new, since.vector_seq), (changed, since.change_seq)] {
            read.for_each(sql, &params(after), |row| {
                let seq: i64 = row.get(0)?;
                if allowed.has(seq)
                    && !cosines.contains_key(&seq)
                    && let Some(vector) = vectors::decoded(row.bytes(1)?, self.space.dimensions)
                {
                    cosines.insert(seq, vectors::dot(query, &vector));
                }
                Ok(true)
            })?;
        }
        Ok(())
    }

    fn cosines(&self, read: &ReadTx<'_>, query: &[f32], seqs: &[i64]) -> Result<HashMap<i64, f32>, StoreError> {
        vectors::exact::cosines(read, &self.id, &self.space.embedder, query, seqs)
    }
}

impl Link {
    /// Which memories of a partition have a vector, the snapshot's included.
    fn known(&self, read: &ReadTx<'_>, id: &PartitionId, embedder: &str) -> Result<Arc<Bits>, StoreError> {
        let key = (id.clone(), embedder.to_owned());
        let (mut last, mut bits) = {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            known.get(&key).cloned().unwrap_or_default()
        };
        let params = values![&id.tenant, id.namespace.as_str(), embedder, last];
        let mut new: Vec<i64> = Vec::new();
        read.for_each(
            "SELECT seq, vector_seq FROM memory_vectors
             WHERE tenant_id = ?1 AND namespace = ?2 AND embedder = ?3 AND vector_seq > ?4 ORDER BY vector_seq",
            &params,
            |row| {
                new.push(row.get(0)?);
                last = row.get(1)?;
                Ok(true)
            },
        )?;
        if new.is_empty() {
            return Ok(bits);
        }
        let grown = Arc::make_mut(&mut bits);
        grown.grow(new.iter().copied().max().unwrap_or(0));
        new.into_iter().for_each(|seq| grown.add(seq));
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = known.entry(key).or_default();
        if slot.0 <= last {
            *slot = (last, bits.clone());
        }
        Ok(bits)
    }
}

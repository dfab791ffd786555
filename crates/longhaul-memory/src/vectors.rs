//! The vector index: a tenant's unit vectors in RAM, compared one by one with a query's.
//!
//! Derived from `memory_vectors`: it remembers up to which number it has read, and every search first reads what came
//! after, so writes of other processes are seen as well. Exact for that reason and because it compares everything.
//! Invariants: a vector of another model or of another length never gets in; beyond the bound in bytes the tenants not
//! used for longest are dropped, and read again when they come back.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use longhaul_core::TenantId;
use longhaul_store::{ReadTx, StoreError, values};

use crate::bits::Bits;

/// The vectors of all tenants that were searched lately.
#[derive(Debug)]
pub(crate) struct Cache {
    tenants: Mutex<Tenants>,
    bytes_max: usize,
}

#[derive(Debug, Default)]
struct Tenants {
    vectors: HashMap<TenantId, (u64, Arc<RwLock<Vectors>>)>,
    uses: u64,
}

impl Cache {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { tenants: Mutex::default(), bytes_max }
    }

    /// The tenant's vectors, with everything that the snapshot holds.
    pub(crate) fn current(
        &self,
        read: &ReadTx<'_>,
        tenant: &TenantId,
        embedder: &str,
        dimensions: usize,
    ) -> Result<Arc<RwLock<Vectors>>, StoreError> {
        let vectors = self.of(tenant, dimensions);
        let known = vectors.read().unwrap_or_else(PoisonError::into_inner).last_vector_seq;
        let newest: i64 = read
            .query_optional(
                "SELECT last_vector_seq FROM memory_partitions WHERE tenant_id = ?1",
                &values![tenant],
                |row| row.get(0),
            )?
            .unwrap_or(0);
        if newest > known {
            vectors.write().unwrap_or_else(PoisonError::into_inner).catch_up(read, tenant, embedder, newest)?;
            self.shrink(tenant);
        }
        Ok(vectors)
    }

    fn of(&self, tenant: &TenantId, dimensions: usize) -> Arc<RwLock<Vectors>> {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        tenants.uses += 1;
        let now = tenants.uses;
        let (used, vectors) = tenants
            .vectors
            .entry(tenant.clone())
            .or_insert_with(|| (now, Arc::new(RwLock::new(Vectors::new(dimensions)))));
        *used = now;
        vectors.clone()
    }

    /// Drops what was not used for longest, but never `kept`, until the rest fits.
    fn shrink(&self, kept: &TenantId) {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        let size = |vectors: &RwLock<Vectors>| vectors.read().unwrap_or_else(PoisonError::into_inner).bytes();
        let mut held: usize = tenants.vectors.values().map(|(_, vectors)| size(vectors)).sum();
        while held > self.bytes_max {
            let others = tenants.vectors.iter().filter(|(tenant, _)| *tenant != kept);
            let Some(oldest) = others.min_by_key(|(_, (used, _))| *used).map(|(tenant, _)| tenant.clone()) else {
                break;
            };
            if let Some((_, vectors)) = tenants.vectors.remove(&oldest) {
                held -= size(&vectors);
            }
        }
    }
}

/// The vectors of one tenant.
#[derive(Debug)]
pub(crate) struct Vectors {
    dimensions: usize,
    last_vector_seq: i64,
    /// Number of the memory in each slot.
    seqs: Vec<i64>,
    /// All slots' vectors, one after the other.
    values: Vec<f32>,
    slots: HashMap<i64, usize>,
}

impl Vectors {
    fn new(dimensions: usize) -> Self {
        Self { dimensions, last_vector_seq: 0, seqs: Vec::new(), values: Vec::new(), slots: HashMap::new() }
    }

    fn bytes(&self) -> usize {
        self.values.len() * size_of::<f32>() + self.seqs.len() * 40
    }

    fn catch_up(
        &mut self,
        read: &ReadTx<'_>,
        tenant: &TenantId,
        embedder: &str,
        newest: i64,
    ) -> Result<(), StoreError> {
        read.for_each(
            "SELECT seq, vector FROM memory_vectors
             WHERE tenant_id = ?1 AND embedder = ?2 AND vector_seq > ?3 AND vector_seq <= ?4 ORDER BY vector_seq",
            &values![tenant, embedder, self.last_vector_seq, newest],
            |row| {
                self.put(row.get(0)?, row.bytes(1)?);
                Ok(true)
            },
        )?;
        self.last_vector_seq = self.last_vector_seq.max(newest);
        Ok(())
    }

    fn put(&mut self, seq: i64, bytes: &[u8]) {
        if !is_vector(bytes, self.dimensions) {
            tracing::warn!(seq, "a stored vector is damaged and was left out");
            return;
        }
        let decoded = bytes.chunks_exact(4).map(|value| f32::from_le_bytes([value[0], value[1], value[2], value[3]]));
        match self.slots.get(&seq) {
            Some(slot) => {
                let place = &mut self.values[slot * self.dimensions..][..self.dimensions];
                place.iter_mut().zip(decoded).for_each(|(place, value)| *place = value);
            }
            None => {
                self.slots.insert(seq, self.seqs.len());
                self.seqs.push(seq);
                self.values.extend(decoded);
            }
        }
    }

    /// Cosines of the allowed memories, unsorted.
    pub(crate) fn scan(&self, query: &[f32], allowed: &Bits) -> Vec<(f32, i64)> {
        let slots = self.seqs.iter().zip(self.values.chunks_exact(self.dimensions));
        slots.filter(|(seq, _)| allowed.has(**seq)).map(|(seq, vector)| (dot(query, vector), *seq)).collect()
    }
}

/// How a vector is stored: its values as little-endian 32-bit floats.
pub(crate) fn encode(vector: &[f32]) -> Vec<u8> {
    vector.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Whether these bytes are a vector of that length with finite values.
pub(crate) fn is_vector(bytes: &[u8], dimensions: usize) -> bool {
    let finite = |value: &[u8]| f32::from_le_bytes([value[0], value[1], value[2], value[3]]).is_finite();
    bytes.len() == dimensions * size_of::<f32>() && bytes.chunks_exact(4).all(finite)
}

/// The dot product, in independent sums that the compiler turns into vector instructions.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    const LANES: usize = 16;
    let mut sums = [0_f32; LANES];
    let (a_parts, b_parts) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest: f32 = a_parts.remainder().iter().zip(b_parts.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in a_parts.zip(b_parts) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    sums.iter().sum::<f32>() + rest
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Bits, Vectors, dot, encode, is_vector};

    #[test]
    fn a_vector_of_another_length_or_with_nan_stays_out() {
        let mut vectors = Vectors::new(2);
        vectors.put(1, &encode(&[1.0, 0.0]));
        vectors.put(2, &encode(&[1.0]));
        vectors.put(3, &encode(&[f32::NAN, 1.0]));
        vectors.put(4, b"abc");
        vectors.put(1, &encode(&[0.0, 1.0]));
        let mut allowed = Bits::up_to(9);
        (0..9).for_each(|seq| allowed.add(seq));
        assert_eq!(vectors.scan(&[0.0, 1.0], &allowed), [(1.0, 1)]);
        assert!(!is_vector(&encode(&[f32::INFINITY]), 1));
    }

    proptest! {
        #[test]
        fn the_dot_product_is_the_sum_of_products(pairs in proptest::collection::vec((-1.0_f32..1.0, -1.0_f32..1.0), 0..70)) {
            let (a, b): (Vec<f32>, Vec<f32>) = pairs.into_iter().unzip();
            let expected: f64 = a.iter().zip(&b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
            prop_assert!((f64::from(dot(&a, &b)) - expected).abs() < 1e-4);
        }
    }
}

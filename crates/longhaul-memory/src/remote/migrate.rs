//! Moving between the embedded engine and a server, both ways: filled, verified by count and by sample, then switched.
//!
//! Rows stay where they are, so moving is making the other index whole and showing that it is. It does not write settings:
//! the switch is its caller's. Invariant: it can be stopped and started again anywhere and goes on where it was; nothing
//! is dropped before the other side was verified.

use std::time::{Duration, Instant};

use longhaul_core::Scope;
use longhaul_store::{ReadTx, StoreError, Tx, values};

use super::{
    Link, Replicated,
    replicate::{Came, SAMPLE},
    state::{Key, State},
};
use crate::{Memory, MemoryError, Namespace, access, namespace::PartitionId, vectors};

/// How often a partition is filled before it counts as one that cannot be.
const FILLS_MAX: u32 = 3;
/// How long a move waits for another process that fills the same server.
const BUSY_MAX: Duration = Duration::from_secs(300);
/// How often it looks whether that one has ended.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// By how much values may differ after their way through the server.
const ROUNDING: f32 = 1e-5;

/// How far a move has come; told after every batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigrationStep {
    /// The partition: tenant and namespace.
    pub partition: String,
    /// Partitions that are done, and all of them.
    pub partitions: (usize, usize),
    /// Vectors of this partition that have been moved, and all of them (both may count replaced ones).
    pub vectors: (u64, u64),
}

/// What a server has been given of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteState {
    /// The partition's name within the tenant.
    pub namespace: Namespace,
    /// The server.
    pub place: String,
    /// What the server knows the partition by: the field `partition_key` of its rows.
    pub partition_key: String,
    /// Vectors that it acknowledged, replaced ones included.
    pub vectors_sent: u64,
    /// At most so many changes that it has not been given yet.
    pub missing: u64,
}

/// What a move came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Migrated {
    /// Partitions moved.
    pub partitions: u64,
    /// Vectors that both sides have.
    pub vectors: u64,
    /// Of these, how many were compared value by value.
    pub sampled: u64,
    /// Partitions that were taken out of the server on request.
    pub dropped: u64,
}

impl Memory {
    /// Gives the connected server everything and shows that it has it: the numbers are the same, and a sample is, value by
    /// value. Goes on where an earlier attempt stopped. Searches and writes may go on meanwhile.
    ///
    /// # Errors
    /// [`MemoryError::NotMoved`] when the server does not keep what it is given, or there is none or no embedding model;
    /// [`MemoryError::Remote`]; those of the store.
    pub async fn migrate_to_remote(
        &self,
        progress: &mut (dyn FnMut(MigrationStep) + Send),
    ) -> Result<Migrated, MemoryError> {
        let (link, space) = self.both()?;
        let all = self.all_partitions().await?;
        let mut migrated = Migrated::default();
        for (at, id) in all.iter().enumerate() {
            let key = Key { id: id.clone(), space: space.clone(), place: link.vectors.place().to_owned() };
            let (mut tries, began) = (0, Instant::now());
            let (count, sampled) = loop {
                let total = self.last_vector(id).await?;
                let mut step = |done: i64| {
                    let vectors = (u64::try_from(done).unwrap_or(0), total.max(u64::try_from(done).unwrap_or(0)));
                    progress(MigrationStep { partition: id.to_string(), partitions: (at, all.len()), vectors });
                };
                let came = self.replicate(link, &key, &mut Replicated::default(), &mut step).await?;
                if came == Came::Busy && began.elapsed() < BUSY_MAX {
                    // Another process is at it, or was killed: its claim runs out by itself.
                    link.pause_for(LOOK_EVERY).await;
                    continue;
                }
                if came == Came::Level
                    && let Some(verified) = self.verified(link, &key).await?
                {
                    break verified;
                }
                tries += 1;
                if tries == FILLS_MAX {
                    let problem = format!("{} does not have what it was given of {id}", link.vectors.place());
                    return Err(MemoryError::NotMoved { problem });
                }
            };
            migrated.partitions += 1;
            migrated.vectors += count;
            migrated.sampled += sampled;
        }
        link.vectors.settle(&space).await.map_err(|source| link.error(source))?;
        link.went_well();
        Ok(migrated)
    }

    /// Builds the embedded index of every partition and shows that it finds a sample. With `drop` the server's copy is
    /// removed after that; a server that is away is then an error, and nothing is dropped.
    ///
    /// # Errors
    /// As [`Memory::migrate_to_remote`].
    pub async fn migrate_from_remote(
        &self,
        drop: bool,
        progress: &mut (dyn FnMut(MigrationStep) + Send),
    ) -> Result<Migrated, MemoryError> {
        let (link, space) = self.both()?;
        let all = self.all_partitions().await?;
        let mut migrated = Migrated::default();
        for (at, id) in all.iter().enumerate() {
            let (count, sampled) = self.built(id, &space).await?;
            migrated.partitions += 1;
            migrated.vectors += count;
            migrated.sampled += sampled;
            let (partition, partitions) = (id.to_string(), (at + 1, all.len()));
            progress(MigrationStep { partition, partitions, vectors: (count, count) });
        }
        if !drop {
            return Ok(migrated);
        }
        for id in &all {
            let key = Key { id: id.clone(), space: space.clone(), place: link.vectors.place().to_owned() };
            let find = key.clone();
            let state = self.shared.store.read(move |read| find.find(read)).await?;
            let Some(state) = state else { continue };
            if !state.incarnation.is_empty() {
                let opened = link.vectors.open(&space).await.map_err(|source| link.error(source))?;
                if opened.incarnation == state.incarnation {
                    let cleared = link.vectors.clear(&space, &state.partition_key).await;
                    cleared.map_err(|source| link.error(source))?;
                }
            }
            self.shared.store.write(move |tx: &mut Tx<'_>| key.remove(tx)).await?;
            migrated.dropped += 1;
        }
        Ok(migrated)
    }

    /// What the connected server has been given of the partitions that the user may read; empty without a server.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn remote_state(&self, scope: &Scope) -> Result<Vec<RemoteState>, MemoryError> {
        let (Some(link), Some(space)) = (self.link(), self.space()) else { return Ok(Vec::new()) };
        let place = link.vectors.place().to_owned();
        let names: Vec<_> = self.partitions(scope).await?.into_iter().map(|info| info.namespace).collect();
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let scope = scope.clone();
        let look = move |read: &ReadTx<'_>| -> Result<_, MemoryError> {
            let mut states = Vec::new();
            for partition in access::readable(read, &scope, &names)? {
                let key = Key { id: partition.id, space: space.clone(), place: place.clone() };
                let Some(state) = key.find(read)? else { continue };
                let missing = (partition.last_vector_seq - state.applied.vector_seq)
                    .max(partition.last_change - state.applied.change_seq);
                states.push(RemoteState {
                    namespace: key.id.namespace,
                    place: place.clone(),
                    partition_key: state.partition_key,
                    vectors_sent: u64::try_from(state.applied.vector_seq).unwrap_or(0),
                    missing: u64::try_from(missing).unwrap_or(0),
                });
            }
            Ok(states)
        };
        self.shared.store.read(look).await
    }

    fn both(&self) -> Result<(&Link, super::Space), MemoryError> {
        let not = |problem: &str| MemoryError::NotMoved { problem: problem.to_owned() };
        let link = self.link().ok_or_else(|| not("no server is connected; name one with memory.uri"))?;
        let space = self.space().ok_or_else(|| not("no embedding model is configured, so there are no vectors"))?;
        Ok((link, space))
    }

    async fn last_vector(&self, id: &PartitionId) -> Result<u64, MemoryError> {
        let id = id.clone();
        let sql = "SELECT last_vector_seq FROM memory_partitions WHERE tenant_id = ?1 AND namespace = ?2";
        let params = values![&id.tenant, id.namespace.as_str()];
        let last = move |read: &ReadTx<'_>| read.query_optional(sql, &params, |row| row.get(0));
        Ok(self.shared.store.read(last).await?.unwrap_or(0))
    }

    /// Compares the server with the rows: how many there are and how many were compared. `None` when they differ or when
    /// something was written meanwhile; a difference empties the server's copy.
    async fn verified(&self, link: &Link, key: &Key) -> Result<Option<(u64, u64)>, MemoryError> {
        let find = key.clone();
        let state: Option<State> = self.shared.store.read(move |read| find.find(read)).await?;
        let Some(state) = state.filter(|state| !state.incarnation.is_empty()) else { return Ok(None) };
        let Some((count, sample)) = self.rows_if_level(key, &state).await? else { return Ok(None) };
        let found = link.vectors.count(&key.space, &state.partition_key).await.map_err(|source| link.error(source))?;
        let seqs: Vec<i64> = sample.iter().map(|(seq, _)| *seq).collect();
        let mut stored = Vec::new();
        if !seqs.is_empty() {
            let asked = link.vectors.sample(&key.space, &state.partition_key, &seqs).await;
            stored = asked.map_err(|source| link.error(source))?;
        }
        let ours = self.vectors_of(key, seqs).await?;
        let same = |(seq, version): &(i64, i64)| {
            let (Some(there), Some((_, here))) =
                (stored.iter().find(|row| row.seq == *seq), ours.iter().find(|(of, _)| of == seq))
            else {
                return false;
            };
            there.version == *version
                && there.vector.len() == here.len()
                && there.vector.iter().zip(here).all(|(a, b)| (a - b).abs() <= ROUNDING)
        };
        if found == count && sample.iter().all(same) {
            return Ok(Some((count, sample.len() as u64)));
        }
        tracing::warn!(partition = %key.id, found, expected = count, "the server's copy differs and is filled again");
        let (key, holder) = (key.clone(), link.holder.clone());
        let forget = move |tx: &mut Tx<'_>| -> Result<(), StoreError> {
            if let Some(mut state) = key.claim(tx, &holder)? {
                state.incarnation.clear();
                key.keep(tx, &holder, &state)?;
                key.release(tx, &holder)?;
            }
            Ok(())
        };
        self.shared.store.write(forget).await?;
        Ok(None)
    }

    async fn vectors_of(&self, key: &Key, seqs: Vec<i64>) -> Result<Vec<(i64, Vec<f32>)>, MemoryError> {
        let key = key.clone();
        let read_all = move |read: &ReadTx<'_>| -> Result<_, StoreError> {
            let sql = "SELECT vector FROM memory_vectors
                WHERE tenant_id = ?1 AND namespace = ?2 AND seq = ?3 AND embedder = ?4";
            let mut found = Vec::with_capacity(seqs.len());
            for seq in seqs {
                let params = values![&key.id.tenant, key.id.namespace.as_str(), seq, &key.space.embedder];
                let bytes: Option<Vec<u8>> = read.query_optional(sql, &params, |row| row.get(0))?;
                found.extend(bytes.and_then(|bytes| vectors::decoded(&bytes, key.space.dimensions)).map(|v| (seq, v)));
            }
            Ok(found)
        };
        Ok(self.shared.store.read(read_all).await?)
    }

    /// Makes the embedded index of a partition whole and searches it for a sample of its own vectors.
    async fn built(&self, id: &PartitionId, space: &super::Space) -> Result<(u64, u64), MemoryError> {
        let (shared, id, space) = (self.shared.clone(), id.clone(), space.clone());
        let build = move |read: &ReadTx<'_>| -> Result<Option<(u64, u64)>, StoreError> {
            let current = shared.vectors.current(read, &id, &space.embedder, space.dimensions)?;
            let of = "FROM memory_vectors WHERE tenant_id = ?1 AND namespace = ?2 AND embedder = ?3";
            let params = values![&id.tenant, id.namespace.as_str(), &space.embedder];
            let seqs: Vec<i64> = read.query(&format!("SELECT seq {of} ORDER BY seq"), &params, |row| row.get(0))?;
            let mut all = crate::bits::Bits::up_to(seqs.last().copied().unwrap_or(0));
            seqs.iter().for_each(|seq| all.add(*seq));
            let step = (seqs.len() / SAMPLE).max(1);
            let mut sampled = 0;
            for seq in seqs.iter().step_by(step).take(SAMPLE) {
                let mut params = params.to_vec();
                params.push((*seq).into());
                let bytes: Vec<u8> =
                    read.query_one(&format!("SELECT vector {of} AND seq = ?4"), &params, |row| row.get(0))?;
                let Some(vector) = vectors::decoded(&bytes, space.dimensions) else { continue };
                let found = current.search(read, &vector, &all, 1)?;
                // Another memory with the same text is as good.
                if !found.first().is_some_and(|(cosine, _)| *cosine > 0.999) {
                    return Ok(None);
                }
                sampled += 1;
            }
            Ok((current.known(&all) == seqs.len()).then_some((seqs.len() as u64, sampled)))
        };
        let built = self.shared.store.read(build).await?;
        built.ok_or_else(|| MemoryError::NotMoved {
            problem: "the embedded index does not find what the rows hold".to_owned(),
        })
    }
}

//! Bringing the server up to the rows: in the background, in bounded batches, again after every failure.
//!
//! It owns no queue: what is missing is read from the rows each time. Invariant: stopping it anywhere loses nothing; a
//! batch that was sent twice is there once.

use longhaul_store::{ReadTx, StoreError, Tx, values};

use super::{
    Link, RemoteError, Space, batch,
    state::{self, Key, State, Watermark},
};
use crate::{Memory, MemoryError, namespace::PartitionId};

/// Rows after which the server is told that an index would be worth its while.
const SETTLE_EVERY: u64 = 20_000;
/// Rows compared one by one after a fill.
pub(super) const SAMPLE: usize = 64;

/// What a round of replication did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Replicated {
    /// Rows sent.
    pub upserted: u64,
    /// Rows taken back.
    pub deleted: u64,
    /// Partitions that were filled anew because the server had lost them.
    pub refilled: u64,
}

/// How one partition came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Came {
    /// The server has everything.
    Level,
    /// Another process is at it.
    Busy,
}

impl Memory {
    /// Gives the server everything that it lacks, in all partitions. Without a server nothing is done.
    ///
    /// # Errors
    /// [`MemoryError::Remote`] when the server cannot be used; what was done until then stays. Those of the store.
    pub async fn replicate_pending(&self) -> Result<Replicated, MemoryError> {
        let mut done = Replicated::default();
        let (Some(link), Some(space)) = (self.link(), self.space()) else { return Ok(done) };
        let place = link.vectors.place().to_owned();
        let (of, at) = (space.clone(), place.clone());
        let behind = move |read: &ReadTx<'_>| state::behind(read, &of, &at);
        let behind = self.shared.store.read(behind).await?;
        for id in self.to_look_at(link, &space, behind).await? {
            let key = Key { id, space: space.clone(), place: place.clone() };
            let came = self.replicate(link, &key, &mut done, &mut |_| {}).await;
            if let Err(error) = came {
                link.failed(&error);
                return Err(error);
            }
        }
        link.went_well();
        Ok(done)
    }

    /// The partitions to work on: those behind, and after a failure all, because the server may have come back empty.
    async fn to_look_at(
        &self,
        link: &Link,
        space: &Space,
        behind: Vec<PartitionId>,
    ) -> Result<Vec<PartitionId>, MemoryError> {
        if !link.is_suspect() {
            return Ok(behind);
        }
        if behind.is_empty() {
            // Nothing to write: still a reason to see whether it is back.
            link.vectors
                .open(space)
                .await
                .map_err(|source| link.error(source))
                .inspect_err(|error| link.failed(error))?;
        }
        Ok(self.all_partitions().await?)
    }

    /// Brings one partition up to its rows. `progress` is told how many vectors the server has been given up to now.
    pub(super) async fn replicate(
        &self,
        link: &Link,
        key: &Key,
        done: &mut Replicated,
        progress: &mut (dyn FnMut(i64) + Send),
    ) -> Result<Came, MemoryError> {
        let _turn = link.turn.lock().await;
        let (claimed, holder) = (key.clone(), link.holder.clone());
        let claim = move |tx: &mut Tx<'_>| claimed.claim(tx, &holder);
        let Some(mut state) = self.shared.store.write(claim).await? else { return Ok(Came::Busy) };
        let worked = self.work(link, key, &mut state, done, progress).await;
        let (released, holder) = (key.clone(), link.holder.clone());
        self.shared.store.write(move |tx| released.release(tx, &holder)).await?;
        worked
    }

    async fn work(
        &self,
        link: &Link,
        key: &Key,
        state: &mut State,
        done: &mut Replicated,
        progress: &mut (dyn FnMut(i64) + Send),
    ) -> Result<Came, MemoryError> {
        let opened = link.vectors.open(&key.space).await.map_err(|source| link.error(source))?;
        if state.incarnation != opened.incarnation {
            if !self.begin(link, key, state, &opened.incarnation, done).await? {
                return Ok(Came::Busy);
            }
        } else if link.is_suspect() && !self.is_whole(link, key, state).await? {
            tracing::warn!(partition = %key.id, server = key.place, "the server has lost rows; filling it again");
            if !self.begin(link, key, state, &opened.incarnation, done).await? {
                return Ok(Came::Busy);
            }
        }
        let mut since_settled = 0;
        loop {
            let (asked, from) = (key.clone(), state.clone());
            let next = self.shared.store.read(move |read| batch::next(read, &asked, &from)).await?;
            let Some(next) = next else { break };
            let mut mark = next.watermark.mark;
            if next.seq_max > state.seq_max {
                // Written down before it is done: an attempt that is cut off may have arrived.
                state.seq_max = next.seq_max;
                if !self.keep_state(link, key, state).await? {
                    return Ok(Came::Busy);
                }
            }
            if !next.batch.upserts.is_empty() || !next.batch.deletes.is_empty() {
                let applied = link.vectors.apply(&key.space, &state.partition_key, &next.batch).await;
                mark = mark.max(applied.map_err(|source| link.error(source))?);
            }
            done.upserted += next.batch.upserts.len() as u64;
            done.deleted += next.batch.deletes.len() as u64;
            since_settled += next.batch.upserts.len() as u64;
            state.advance(Watermark { mark, ..next.watermark }, self.shared.store.ambient().clock.now());
            if !self.keep_state(link, key, state).await? {
                return Ok(Came::Busy);
            }
            progress(state.applied.vector_seq);
            if next.is_last {
                break;
            }
        }
        if since_settled >= SETTLE_EVERY {
            link.vectors.settle(&key.space).await.map_err(|source| link.error(source))?;
        }
        Ok(Came::Level)
    }

    /// Empties the server's copy of a partition and begins anew. Tells whether the work is still ours.
    async fn begin(
        &self,
        link: &Link,
        key: &Key,
        state: &mut State,
        incarnation: &str,
        done: &mut Replicated,
    ) -> Result<bool, MemoryError> {
        // First in the store: from here on searches compare everything themselves.
        state.incarnation.clear();
        if !self.keep_state(link, key, state).await? {
            return Ok(false);
        }
        link.vectors.clear(&key.space, &state.partition_key).await.map_err(|source| link.error(source))?;
        let id = key.id.clone();
        let last_change = self
            .shared
            .store
            .read(move |read| {
                let sql = "SELECT last_change FROM memory_partitions WHERE tenant_id = ?1 AND namespace = ?2";
                read.query_optional(sql, &values![&id.tenant, id.namespace.as_str()], |row| row.get(0))
            })
            .await?;
        done.refilled += u64::from(state.seq_max > 0);
        state.reset(incarnation, last_change.unwrap_or(0));
        self.keep_state(link, key, state).await
    }

    async fn keep_state(&self, link: &Link, key: &Key, state: &State) -> Result<bool, MemoryError> {
        let (key, state, holder) = (key.clone(), state.clone(), link.holder.clone());
        Ok(self.shared.store.write(move |tx| key.keep(tx, &holder, &state)).await?)
    }

    /// Whether the server has as many rows as it was given, if that can be told: nothing is new or changed since.
    pub(super) async fn is_whole(&self, link: &Link, key: &Key, state: &State) -> Result<bool, MemoryError> {
        let Some((count, _)) = self.rows_if_level(key, state).await? else { return Ok(true) };
        let found = link.vectors.count(&key.space, &state.partition_key).await.map_err(|source| link.error(source))?;
        Ok(found == count)
    }

    /// Number of vectors of a partition and some of their numbers with versions; `None` when the server lacks some.
    #[expect(clippy::type_complexity, reason = "a count and a sample, taken apart by the one who asked")]
    pub(super) async fn rows_if_level(
        &self,
        key: &Key,
        state: &State,
    ) -> Result<Option<(u64, Vec<(i64, i64)>)>, MemoryError> {
        let (key, state) = (key.clone(), state.clone());
        let look = move |read: &ReadTx<'_>| -> Result<_, StoreError> {
            if batch::next(read, &key, &state)?.is_some() {
                return Ok(None);
            }
            let bytes = key.space.dimensions * size_of::<f32>();
            let of =
                "FROM memory_vectors WHERE tenant_id = ?1 AND namespace = ?2 AND embedder = ?3 AND length(vector) = ?4";
            let params = values![&key.id.tenant, key.id.namespace.as_str(), &key.space.embedder, bytes];
            let count: u64 = read.query_one(&format!("SELECT count(*) {of}"), &params, |row| row.get(0))?;
            let step = (count as usize / SAMPLE).max(1);
            let spread = format!("SELECT seq, vector_seq {of} AND vector_seq % {step} = 0 LIMIT {SAMPLE}");
            let sample = read.query(&spread, &params, |row| Ok((row.get(0)?, row.get(1)?)))?;
            Ok(Some((count, sample)))
        };
        Ok(self.shared.store.read(look).await?)
    }
}

impl Link {
    pub(super) fn error(&self, source: RemoteError) -> MemoryError {
        MemoryError::Remote { place: self.vectors.place().to_owned(), source }
    }
}

//! Deriving what can be derived: vectors for rows that have none, and keyword indexes that do not fit their rows.
//!
//! It runs on request or in the background, never in a caller's transaction. It is the one part that goes from partition
//! to partition; what it does for each is scoped to it. Invariant: stopping it at any moment loses nothing but time, and two
//! processes doing it at once only do it twice.

use std::{
    collections::{HashMap, VecDeque},
    future::Future,
    pin::pin,
    time::{Duration, Instant},
};

use longhaul_core::Scope;
use longhaul_store::{ReadTx, StoreError, values};

use crate::{
    EmbedError, Embedder, Memory, MemoryError, access,
    change::FRESH,
    embed, keyword,
    namespace::{Namespace, PartitionId},
    rows,
};

/// Rows read and embedded at a time.
const PAGE: usize = 32;
/// How often the background task looks by itself, for rows whose writer was killed or that other processes wrote.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// How often it looks at everything, and not only at what has changed since.
const LOOK_AT_ALL_EVERY: Duration = Duration::from_secs(60 * 60);

/// What one round of indexing did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Indexed {
    /// Memories that got their vector.
    pub embedded: u64,
    /// Memories for which the embedder gave no usable vector. They stay in the backlog and are found by words.
    pub failed: u64,
    /// Memories whose keyword index was built anew.
    pub rebuilt: u64,
    /// Vectors of models that were used before, removed because the present one's are complete.
    pub replaced: u64,
}

/// The background task; see [`Memory::indexer`].
pub struct Indexer {
    memory: Memory,
}

/// A row waiting for its vector.
struct Pending {
    seq: i64,
    content: String,
}

impl Memory {
    /// The task that embeds what was inserted, soon after its commit. Run one in each process that inserts.
    #[must_use]
    pub fn indexer(&self) -> Indexer {
        Indexer { memory: self.clone() }
    }

    /// Number of memories that wait for a vector of the embedder, in all partitions that the user may read. Without an
    /// embedder nothing waits.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn backlog(&self, scope: &Scope) -> Result<u64, MemoryError> {
        let Some(embedder) = self.shared.embedder.clone() else { return Ok(0) };
        let names: Vec<Namespace> = self.partitions(scope).await?.into_iter().map(|info| info.namespace).collect();
        let scope = scope.clone();
        let count = move |read: &ReadTx<'_>| {
            let mut all = 0;
            for name in &names {
                if access::may(read, &scope, name, access::Right::Read)? {
                    all += waiting(read, &PartitionId::new(&scope.tenant, name), embedder.as_ref())?;
                }
            }
            Ok(all)
        };
        self.shared.store.read(count).await
    }

    /// Embeds every memory that has no vector of the embedder, and rebuilds keyword indexes that do not fit their rows.
    /// Everything written and committed before the call is covered.
    ///
    /// # Errors
    /// When the embedder or the store fails; what was done until then stays.
    pub async fn index_pending(&self) -> Result<Indexed, MemoryError> {
        let mut indexed = Indexed::default();
        for id in self.all_partitions().await? {
            indexed.rebuilt += self.rebuild_if_stale(&id).await?;
            self.embed_changed(&id, 0, &mut indexed).await?;
        }
        Ok(indexed)
    }

    /// Embeds what was changed in a partition after this change.
    async fn embed_changed(&self, id: &PartitionId, since: i64, indexed: &mut Indexed) -> Result<(), MemoryError> {
        match self.shared.embedder.clone() {
            Some(embedder) => self.embed_partition(id, embedder.as_ref(), since, indexed).await,
            None => Ok(()),
        }
    }

    /// The last change of every partition.
    async fn last_changes(&self) -> Result<HashMap<PartitionId, i64>, StoreError> {
        let ids = self.all_partitions().await?;
        let last = move |read: &ReadTx<'_>| {
            let sql = "SELECT last_change FROM memory_partitions WHERE tenant_id = ?1 AND namespace = ?2";
            let mut all = HashMap::with_capacity(ids.len());
            for id in ids {
                let key = values![&id.tenant, id.namespace.as_str()];
                let change: Option<i64> = read.query_optional(sql, &key, |row| row.get(0))?;
                all.extend(change.map(|change| (id, change)));
            }
            Ok(all)
        };
        self.shared.store.read(last).await
    }

    /// All partitions of all tenants, for work in the background.
    pub(crate) async fn all_partitions(&self) -> Result<Vec<PartitionId>, StoreError> {
        let sql = "SELECT tenant_id, namespace FROM memory_partitions ORDER BY tenant_id, namespace";
        let named = |row: &longhaul_store::Row<'_>| {
            let name = row.text(1)?;
            let wrong =
                |_| StoreError::Column { column: 1, expected: "a namespace", found: name.chars().take(80).collect() };
            Ok(PartitionId { tenant: row.get(0)?, namespace: name.parse().map_err(wrong)? })
        };
        self.shared.store.read(move |read| read.query(sql, &[], named)).await
    }

    async fn rebuild_if_stale(&self, id: &PartitionId) -> Result<u64, MemoryError> {
        let looked_at = id.clone();
        if !self.shared.store.read(move |read| keyword::is_stale(read, &looked_at)).await? {
            return Ok(0);
        }
        let rebuilt = id.clone();
        let documents = self.shared.store.write(move |tx| keyword::rebuild(tx, &rebuilt)).await?;
        self.shared.words.drop_partition(id);
        Ok(documents)
    }

    async fn embed_partition(
        &self,
        id: &PartitionId,
        embedder: &dyn Embedder,
        since: i64,
        indexed: &mut Indexed,
    ) -> Result<(), MemoryError> {
        let (mut after, mut fresh_after) = (0, 0);
        loop {
            // While the old vectors serve, a row that was written since needs one of them to be found with the others.
            self.embed_fresh(id, embedder, since, &mut fresh_after, indexed).await?;
            if self.embed_next(id, embedder, None, since, &mut after, indexed).await? {
                continue;
            }
            if after > 0 {
                self.read_vectors(id, embedder).await?;
            }
            indexed.replaced += self.shared.change.settle(&self.shared.store, id, embedder.id()).await?;
            return Ok(());
        }
    }

    /// Embeds rows that no model has embedded by the model used before, as long as that one's vectors serve.
    async fn embed_fresh(
        &self,
        id: &PartitionId,
        embedder: &dyn Embedder,
        since: i64,
        after: &mut i64,
        indexed: &mut Indexed,
    ) -> Result<(), MemoryError> {
        let Some(previous) = self.shared.change.serving(id) else { return Ok(()) };
        let key = values![&id.tenant, id.namespace.as_str()];
        let newest = move |read: &ReadTx<'_>| {
            let sql = "SELECT coalesce(max(seq), 0) FROM memories WHERE tenant_id = ?1 AND namespace = ?2";
            read.query_one(sql, &key, |row| row.get(0))
        };
        let newest: i64 = self.shared.store.read(newest).await?;
        if newest <= *after {
            return Ok(());
        }
        loop {
            match self.embed_next(id, previous.as_ref(), Some(embedder.id()), since, after, indexed).await {
                Ok(true) => {}
                Ok(false) => break,
                Err(MemoryError::Embed(error)) => {
                    tracing::warn!(%error, "the model used before cannot embed what is new");
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        *after = newest.max(*after);
        Ok(())
    }

    /// Embeds the next page of rows after a number; false when there is none.
    async fn embed_next(
        &self,
        id: &PartitionId,
        embedder: &dyn Embedder,
        without: Option<&str>,
        since: i64,
        after: &mut i64,
        indexed: &mut Indexed,
    ) -> Result<bool, MemoryError> {
        let (page, as_of) = self.pending(id, embedder, without, since, *after).await?;
        let Some(last) = page.last() else { return Ok(false) };
        *after = last.seq;
        let (done, failed) = embed_page(embedder, page).await?;
        indexed.failed += failed;
        let (id, model) = (id.clone(), embedder.id().to_owned());
        let keep = move |tx: &mut longhaul_store::Tx<'_>| {
            let done: Vec<(i64, &[f32])> = done.iter().map(|(seq, vector)| (*seq, vector.as_slice())).collect();
            rows::keep_vectors_as_of(tx, &id, &model, as_of, &done)
        };
        indexed.embedded += self.shared.store.write(keep).await?;
        Ok(true)
    }

    /// Reads what was embedded, so that the next search need not.
    async fn read_vectors(&self, id: &PartitionId, embedder: &dyn Embedder) -> Result<(), MemoryError> {
        if self.link().is_some() {
            // A server searches; the embedded engine reads when it has to stand in.
            return Ok(());
        }
        let (shared, id) = (self.shared.clone(), id.clone());
        let (model, dimensions) = (embedder.id().to_owned(), embedder.dimensions());
        let current = move |read: &ReadTx<'_>| shared.vectors.current(read, &id, &model, dimensions).map(drop);
        Ok(self.shared.store.read(current).await?)
    }

    /// The next rows after a number that have no vector of the embedder, nor of the model `without`, of those changed after
    /// `since`; and the partition's last change in the same snapshot.
    async fn pending(
        &self,
        id: &PartitionId,
        embedder: &dyn Embedder,
        without: Option<&str>,
        since: i64,
        after: i64,
    ) -> Result<(Vec<Pending>, i64), StoreError> {
        let fresh = without.map_or("", |_| FRESH);
        // What changed lately is found by the order of changes, everything by the order of numbers.
        let order = if since == 0 { "m.seq" } else { "+m.seq" };
        let sql = format!("SELECT m.seq, m.content {PENDING} AND {order} > ?6 {fresh} ORDER BY {order} LIMIT {PAGE}");
        let mut params = pending_params(id, embedder, since);
        params.push(after.into());
        params.extend(without.map(longhaul_store::Value::from));
        let pending = |row: &longhaul_store::Row<'_>| Ok(Pending { seq: row.get(0)?, content: row.get(1)? });
        let as_of = "SELECT last_change FROM memory_partitions WHERE tenant_id = ?1 AND namespace = ?2";
        let key = values![&id.tenant, id.namespace.as_str()];
        let page = move |read: &ReadTx<'_>| {
            let change: Option<i64> = read.query_optional(as_of, &key, |row| row.get(0))?;
            Ok((read.query(&sql, &params, pending)?, change.unwrap_or(0)))
        };
        self.shared.store.read(page).await
    }
}

/// Rows of a partition, changed after a change, that are to have a vector and have none of this embedder and length.
const PENDING: &str = "FROM memories m LEFT JOIN memory_vectors v
    ON v.tenant_id = m.tenant_id AND v.namespace = m.namespace AND v.seq = m.seq AND v.embedder = ?3
        AND length(v.vector) = ?4
    WHERE m.tenant_id = ?1 AND m.namespace = ?2 AND m.change_seq > ?5 AND m.indexed >= 2 AND v.seq IS NULL";

fn pending_params(id: &PartitionId, embedder: &dyn Embedder, since: i64) -> Vec<longhaul_store::Value> {
    let bytes = embedder.dimensions() * size_of::<f32>();
    values![&id.tenant, id.namespace.as_str(), embedder.id(), bytes, since].into()
}

/// How many memories of a partition wait for a vector of the embedder.
pub(crate) fn waiting(read: &ReadTx<'_>, id: &PartitionId, embedder: &dyn Embedder) -> Result<u64, StoreError> {
    read.query_one(&format!("SELECT count(*) {PENDING}"), &pending_params(id, embedder, 0), |row| row.get(0))
}

/// Embeds a page. A text whose vector is unusable does not hold up the others; any other failure ends the round.
async fn embed_page(embedder: &dyn Embedder, page: Vec<Pending>) -> Result<(Vec<(i64, Vec<f32>)>, u64), MemoryError> {
    let mut done = Vec::with_capacity(page.len());
    let mut failed = 0;
    let mut groups = VecDeque::from([page]);
    while let Some(mut group) = groups.pop_front() {
        let texts: Vec<String> = group.iter().map(|row| row.content.clone()).collect();
        match embed::unit_vectors(embedder, &texts).await {
            Ok(vectors) => done.extend(group.iter().map(|row| row.seq).zip(vectors)),
            Err(error @ EmbedError::BadVector { index, .. }) => {
                tracing::warn!(%error, seq = group[index].seq, "a memory could not be embedded");
                group.remove(index);
                failed += 1;
                if !group.is_empty() {
                    groups.push_back(group);
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok((done, failed))
}

impl Indexer {
    /// Runs until `shutdown` completes. A failure is logged and tried again later.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send) {
        let mut shutdown = pin!(shutdown);
        let round = async {
            // Up to which change each partition has been embedded.
            let (mut known, mut all_at) = (HashMap::new(), None::<Instant>);
            loop {
                if all_at.is_none_or(|at| at.elapsed() >= LOOK_AT_ALL_EVERY) {
                    known.clear();
                }
                let is_all = known.is_empty();
                match self.round(&mut known).await {
                    Ok(indexed) => {
                        if is_all {
                            all_at = Some(Instant::now());
                        }
                        if indexed != Indexed::default() {
                            tracing::debug!(?indexed, "memories were indexed");
                        }
                    }
                    Err(error) => tracing::warn!(error = %Chain(&error), "memories could not be indexed"),
                }
                // A timeout is as good a reason to look as a bell.
                let _ = tokio::time::timeout(LOOK_EVERY, self.memory.shared.wake.notified()).await;
            }
        };
        // Beside it memories are looked after: what has expired goes, what was used is noted (`life`).
        tokio::select! {
            () = &mut shutdown => {}
            () = round => {}
            () = self.memory.keep() => {}
            () = self.memory.replicating() => {}
        }
    }

    async fn round(&self, known: &mut HashMap<PartitionId, i64>) -> Result<Indexed, MemoryError> {
        // The bell rings inside the inserting transaction; once the writer has come to this empty one, that is committed.
        self.memory.shared.store.write(|_| Ok::<_, StoreError>(())).await?;
        let mut indexed = Indexed::default();
        for (id, last) in self.memory.last_changes().await? {
            let since = known.get(&id).copied();
            if since.is_some_and(|since| since >= last) {
                continue;
            }
            if since.is_none() {
                indexed.rebuilt += self.memory.rebuild_if_stale(&id).await?;
            }
            self.memory.embed_changed(&id, since.unwrap_or(0), &mut indexed).await?;
            known.insert(id, last);
        }
        Ok(indexed)
    }
}

/// Prints an error with its causes.
struct Chain<'a>(&'a dyn std::error::Error);

impl std::fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)?;
        let mut source = self.0.source();
        while let Some(cause) = source {
            write!(f, ": {cause}")?;
            source = cause.source();
        }
        Ok(())
    }
}

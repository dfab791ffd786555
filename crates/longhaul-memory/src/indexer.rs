//! Deriving what can be derived: vectors for rows that have none, and keyword indexes that do not fit their rows.
//!
//! It runs on request or in the background, never in a caller's transaction. It is the one part that goes from tenant to
//! tenant; what it does for each is scoped to it. Invariant: stopping it at any moment loses nothing but time, and two
//! processes doing it at once only do it twice.

use std::{collections::VecDeque, future::Future, pin::pin, time::Duration};

use longhaul_core::{Scope, TenantId};
use longhaul_store::{ReadTx, StoreError, Tx, values};

use crate::{EmbedError, Embedder, Memory, MemoryError, embed, keyword, vectors};

/// Rows read and embedded at a time.
const PAGE: usize = 32;
/// How often the background task looks by itself, for rows whose writer was killed or that other processes wrote.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// What one round of indexing did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Indexed {
    /// Memories that got their vector.
    pub embedded: u64,
    /// Memories for which the embedder gave no usable vector. They stay in the backlog and are found by words.
    pub failed: u64,
    /// Memories whose keyword index was built anew.
    pub rebuilt: u64,
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

    /// Number of the tenant's memories that wait for a vector of the embedder. Without an embedder nothing waits.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn backlog(&self, scope: &Scope) -> Result<u64, MemoryError> {
        let Some(embedder) = &self.shared.embedder else { return Ok(0) };
        let sql = format!("SELECT count(*) {PENDING}");
        let params = pending_params(&scope.tenant, embedder.as_ref(), 0);
        self.shared.store.read(move |read| Ok(read.query_one(&sql, &params, |row| row.get(0))?)).await
    }

    /// Embeds every memory that has no vector of the embedder, and rebuilds keyword indexes that do not fit their rows.
    /// Everything written and committed before the call is covered.
    ///
    /// # Errors
    /// When the embedder or the store fails; what was done until then stays.
    pub async fn index_pending(&self) -> Result<Indexed, MemoryError> {
        let tenants: Vec<TenantId> = self
            .shared
            .store
            .read(|read| {
                read.query("SELECT tenant_id FROM memory_partitions ORDER BY tenant_id", &[], |row| row.get(0))
            })
            .await
            .map_err(|error: StoreError| MemoryError::from(error))?;
        let mut indexed = Indexed::default();
        for tenant in tenants {
            indexed.rebuilt += self.rebuild_if_stale(&tenant).await?;
            if let Some(embedder) = self.shared.embedder.clone() {
                self.embed_tenant(&tenant, embedder.as_ref(), &mut indexed).await?;
            }
        }
        Ok(indexed)
    }

    async fn rebuild_if_stale(&self, tenant: &TenantId) -> Result<u64, MemoryError> {
        fn is_stale(read: &ReadTx<'_>, tenant: &TenantId) -> Result<bool, StoreError> {
            let partition = keyword::partition(read, tenant)?;
            partition.map_or(Ok(false), |partition| keyword::is_stale(read, tenant, &partition))
        }
        let looked_at = tenant.clone();
        if !self.shared.store.read(move |read| is_stale(read, &looked_at)).await? {
            return Ok(0);
        }
        let tenant = tenant.clone();
        // Another process may have done it meanwhile, so it is looked at again inside the transaction.
        let rebuild = move |tx: &mut Tx<'_>| if is_stale(tx, &tenant)? { keyword::rebuild(tx, &tenant) } else { Ok(0) };
        Ok(self.shared.store.write(rebuild).await?)
    }

    async fn embed_tenant(
        &self,
        tenant: &TenantId,
        embedder: &dyn Embedder,
        indexed: &mut Indexed,
    ) -> Result<(), MemoryError> {
        let mut after = 0;
        loop {
            let page = self.pending(tenant, embedder, after).await?;
            let Some(last) = page.last() else {
                return if after == 0 { Ok(()) } else { self.read_vectors(tenant, embedder).await };
            };
            after = last.seq;
            let (done, failed) = embed_page(embedder, page).await?;
            indexed.failed += failed;
            let (tenant, id) = (tenant.clone(), embedder.id().to_owned());
            indexed.embedded += self.shared.store.write(move |tx| keep(tx, &tenant, &id, &done)).await?;
        }
    }

    /// Reads what was embedded, so that the next search need not.
    async fn read_vectors(&self, tenant: &TenantId, embedder: &dyn Embedder) -> Result<(), MemoryError> {
        let (shared, tenant) = (self.shared.clone(), tenant.clone());
        let (id, dimensions) = (embedder.id().to_owned(), embedder.dimensions());
        let current = move |read: &ReadTx<'_>| shared.cache.current(read, &tenant, &id, dimensions).map(drop);
        Ok(self.shared.store.read(current).await?)
    }

    async fn pending(
        &self,
        tenant: &TenantId,
        embedder: &dyn Embedder,
        after: i64,
    ) -> Result<Vec<Pending>, StoreError> {
        let sql = format!("SELECT m.seq, m.content {PENDING} ORDER BY m.seq LIMIT {PAGE}");
        let params = pending_params(tenant, embedder, after);
        let pending = |row: &longhaul_store::Row<'_>| Ok(Pending { seq: row.get(0)?, content: row.get(1)? });
        self.shared.store.read(move |read| read.query(&sql, &params, pending)).await
    }
}

/// Rows of a tenant, after a number, that have no vector of this embedder and length.
const PENDING: &str = "FROM memories m LEFT JOIN memory_vectors v
    ON v.tenant_id = m.tenant_id AND v.seq = m.seq AND v.embedder = ?2 AND length(v.vector) = ?3
    WHERE m.tenant_id = ?1 AND m.seq > ?4 AND v.seq IS NULL";

fn pending_params(tenant: &TenantId, embedder: &dyn Embedder, after: i64) -> Vec<longhaul_store::Value> {
    values![tenant, embedder.id(), embedder.dimensions() * size_of::<f32>(), after].into()
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

/// Writes vectors of rows that are still there, each under the tenant's next number.
fn keep(tx: &mut Tx<'_>, tenant: &TenantId, embedder: &str, done: &[(i64, Vec<f32>)]) -> Result<u64, StoreError> {
    let mut kept = 0;
    for (seq, vector) in done {
        tx.execute(
            "UPDATE memory_partitions SET last_vector_seq = last_vector_seq + 1 WHERE tenant_id = ?1",
            &values![tenant],
        )?;
        kept += tx.execute(
            "INSERT INTO memory_vectors (tenant_id, seq, embedder, vector_seq, vector)
             SELECT m.tenant_id, m.seq, ?3, p.last_vector_seq, ?4
             FROM memories m JOIN memory_partitions p ON p.tenant_id = m.tenant_id
             WHERE m.tenant_id = ?1 AND m.seq = ?2
             ON CONFLICT (tenant_id, seq) DO UPDATE SET
                 embedder = excluded.embedder, vector_seq = excluded.vector_seq, vector = excluded.vector",
            &values![tenant, *seq, embedder, vectors::encode(vector)],
        )?;
    }
    Ok(kept)
}

impl Indexer {
    /// Runs until `shutdown` completes. A failure is logged and tried again later.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send) {
        let mut shutdown = pin!(shutdown);
        let round = async {
            loop {
                match self.round().await {
                    Ok(indexed) if indexed == Indexed::default() => {}
                    Ok(indexed) => tracing::debug!(?indexed, "memories were indexed"),
                    Err(error) => tracing::warn!(error = %Chain(&error), "memories could not be indexed"),
                }
                // A timeout is as good a reason to look as a bell.
                let _ = tokio::time::timeout(LOOK_EVERY, self.memory.shared.wake.notified()).await;
            }
        };
        tokio::select! {
            () = &mut shutdown => {}
            () = round => {}
        }
    }

    async fn round(&self) -> Result<Indexed, MemoryError> {
        // The bell rings inside the inserting transaction; once the writer has come to this empty one, that is committed.
        self.memory.shared.store.write(|_| Ok::<_, StoreError>(())).await?;
        self.memory.index_pending().await
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

//! The rows of cached results of nodes.

use longhaul_core::TenantId;
use longhaul_store::{ReadTx, StoreError, Tx, values};

use super::V;

/// What a node answered, as JSON.
#[derive(Debug, Clone)]
pub(crate) struct Cached {
    pub(crate) updates: String,
    pub(crate) route: Option<String>,
}

/// A result that is still fresh.
pub(crate) fn find(read: &ReadTx<'_>, tenant: &TenantId, key: &[u8]) -> Result<Option<Cached>, StoreError> {
    read.query_optional(
        "SELECT updates, route FROM cache WHERE tenant_id = ?1 AND cache_key = ?2 AND expires_at > ?3",
        &values![tenant, key, read.now()],
        |row| {
            let open = |text| read.unseal(|| spot(tenant, key), text);
            Ok(Cached { updates: open(row.get(0)?)?, route: row.get::<Option<String>>(1)?.map(open).transpose()? })
        },
    )
}

/// Keeps a result for so long, and forgets what is stale.
pub(crate) fn keep(
    tx: &mut Tx<'_>,
    tenant: &TenantId,
    key: &[u8],
    cached: &Cached,
    ttl_ms: i64,
) -> Result<(), StoreError> {
    let now = tx.now();
    let seal = |text: &String| tx.seal(|| spot(tenant, key), text.clone());
    let (updates, route) = (seal(&cached.updates)?, cached.route.as_ref().map(seal).transpose()?);
    tx.execute("DELETE FROM cache WHERE expires_at <= ?1", &values![now])?;
    tx.execute(
        "INSERT INTO cache (tenant_id, cache_key, v, updates, route, expires_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT (tenant_id, cache_key) DO UPDATE SET v = ?3, updates = ?4, route = ?5, expires_at = ?6",
        &values![tenant, key, V, updates, route, now.0.saturating_add(ttl_ms)],
    )
    .map(drop)
}

fn spot(tenant: &TenantId, key: &[u8]) -> String {
    format!("{tenant}/cache/{key:?}")
}

//! Blobs as rows, so that another machine finds them.
//!
//! It owns the statements; limits and digests are checked in `crate::blobs`. Invariant: a digest that was put names a
//! row that has been committed.

use std::path::PathBuf;

use longhaul_core::{Digest, TenantId, TimeMs};

use crate::{ReadTx, StoreError, Tx, shelf::Kept, values};

/// Content that was put less than this ago is not written again, so the time of a row may be behind by as much.
pub(crate) const FRESH_MS: i64 = 10 * 60 * 1000;

pub(crate) fn put(tx: &mut Tx<'_>, tenant: &TenantId, digest: &Digest, content: Vec<u8>) -> Result<(), StoreError> {
    let now = tx.now();
    tx.execute(
        "INSERT INTO blobs (tenant_id, digest, content, created_at) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (tenant_id, digest) DO UPDATE SET content = ?3, created_at = ?4",
        &values![tenant, digest, content, now],
    )
    .map(drop)
}

/// Whether it is there and was put a short while ago.
pub(crate) fn is_fresh(read: &ReadTx<'_>, tenant: &TenantId, digest: &Digest) -> Result<bool, StoreError> {
    let found = read.query_optional(
        "SELECT 1 FROM blobs WHERE tenant_id = ?1 AND digest = ?2 AND created_at > ?3",
        &values![tenant, digest, read.now().0.saturating_sub(FRESH_MS)],
        |_| Ok(()),
    )?;
    Ok(found.is_some())
}

pub(crate) fn get(read: &ReadTx<'_>, tenant: &TenantId, digest: &Digest) -> Result<Option<Vec<u8>>, StoreError> {
    read.query_optional(
        "SELECT content FROM blobs WHERE tenant_id = ?1 AND digest = ?2",
        &values![tenant, digest],
        |row| row.bytes(0).map(<[u8]>::to_vec),
    )
}

pub(crate) fn list(read: &ReadTx<'_>) -> Result<Vec<Kept>, StoreError> {
    let sql = "SELECT tenant_id, digest, CAST(length(content) AS INTEGER), created_at FROM blobs";
    read.query(sql, &[], |row| {
        let (tenant, digest): (TenantId, Digest) = (row.get(0)?, row.get(1)?);
        let path = PathBuf::from(format!("blobs of {tenant}, {digest}"));
        Ok(Kept::Blob { tenant, digest, path, bytes: row.get(2)?, put_at: row.get(3)? })
    })
}

pub(crate) fn remove(tx: &mut Tx<'_>, tenant: &TenantId, digest: &Digest, before: TimeMs) -> Result<bool, StoreError> {
    let changed = tx.execute(
        "DELETE FROM blobs WHERE tenant_id = ?1 AND digest = ?2 AND created_at < ?3",
        &values![tenant, digest, before],
    )?;
    Ok(changed == 1)
}

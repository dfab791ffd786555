//! Blobs as rows, so that another machine finds them.
//!
//! It owns the statements; limits and digests are checked in `crate::blobs`. Invariant: a digest that was put names a
//! row that has been committed.

use longhaul_core::{Digest, Scope};

use crate::{ReadTx, StoreError, Tx, values};

pub(crate) fn put(tx: &mut Tx<'_>, scope: &Scope, digest: &Digest, content: Vec<u8>) -> Result<(), StoreError> {
    let now = tx.now();
    tx.execute(
        "INSERT INTO blobs (tenant_id, digest, content, created_at) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING",
        &values![&scope.tenant, digest, content, now],
    )
    .map(drop)
}

pub(crate) fn has(read: &ReadTx<'_>, scope: &Scope, digest: &Digest) -> Result<bool, StoreError> {
    let found = read.query_optional(
        "SELECT 1 FROM blobs WHERE tenant_id = ?1 AND digest = ?2",
        &values![&scope.tenant, digest],
        |_| Ok(()),
    )?;
    Ok(found.is_some())
}

pub(crate) fn get(read: &ReadTx<'_>, scope: &Scope, digest: &Digest) -> Result<Option<Vec<u8>>, StoreError> {
    read.query_optional(
        "SELECT content FROM blobs WHERE tenant_id = ?1 AND digest = ?2",
        &values![&scope.tenant, digest],
        |row| row.bytes(0).map(<[u8]>::to_vec),
    )
}

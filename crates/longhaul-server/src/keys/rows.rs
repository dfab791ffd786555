//! The rows of keys.

use longhaul_core::{Digest, Scope, TenantId, TimeMs};
use longhaul_store::{ReadTx, Row, StoreError, Tx, values};

use super::{CHANGED, Key, KeyId, MadeKey, NewKey, PREFIX_DIGITS, Secret};

/// The version of a row.
const V: u32 = 1;

const COLUMNS: &str =
    "SELECT tenant_id, user_id, key_id, role, prefix, digest, label, created_by, created_at, expires_at,
    revoked_at FROM api_keys";

fn key(row: &Row<'_>) -> Result<Key, StoreError> {
    let unknown = |column: usize, expected: &'static str| StoreError::Column {
        column,
        expected,
        found: row.get::<String>(column).unwrap_or_default(),
    };
    let digest: Vec<u8> = row.get(5)?;
    Ok(Key {
        scope: Scope { tenant: row.get(0)?, user: row.get(1)? },
        id: row.text(2)?.parse().map_err(|_| unknown(2, "the id of a key"))?,
        role: row.text(3)?.parse().map_err(|_| unknown(3, "a role"))?,
        prefix: row.get(4)?,
        digest: digest.try_into().map_err(|_| unknown(5, "32 bytes"))?,
        label: row.get(6)?,
        created_by: row.get(7)?,
        created_at: row.get(8)?,
        expires_at: row.get::<Option<i64>>(9)?.map(TimeMs),
        revoked_at: row.get::<Option<i64>>(10)?.map(TimeMs),
    })
}

pub(crate) fn by_prefix(read: &ReadTx<'_>, prefix: &str) -> Result<Option<Key>, StoreError> {
    read.query_optional(&format!("{COLUMNS} WHERE prefix = ?1"), &values![prefix], key)
}

pub(crate) fn any(read: &ReadTx<'_>) -> Result<bool, StoreError> {
    Ok(read.query_optional("SELECT 1 FROM api_keys LIMIT 1", &[], |row| row.get::<i64>(0))?.is_some())
}

/// The tenant's keys, the oldest first: those after this one.
pub(crate) fn list(
    read: &ReadTx<'_>,
    tenant: &TenantId,
    after: Option<&KeyId>,
    limit: u32,
) -> Result<Vec<Key>, StoreError> {
    let after = after.map_or("", KeyId::as_str);
    read.query(
        &format!("{COLUMNS} WHERE tenant_id = ?1 AND key_id > ?2 ORDER BY key_id LIMIT ?3"),
        &values![tenant, after, limit],
        key,
    )
}

pub(crate) fn create(tx: &mut Tx<'_>, new: NewKey) -> Result<MadeKey, StoreError> {
    let ambient = tx.ambient().clone();
    let prefix = format!("{:016x}", ambient.rng.next_u64())[..PREFIX_DIGITS].to_owned();
    let secret = Secret::random(&prefix, ambient.rng.as_ref());
    let digest = *Digest::of(secret.expose()).as_bytes();
    let NewKey { scope, role, label, expires_at, created_by } = new;
    let (id, created_at, revoked_at) = (KeyId::from_body(&ambient.ids.body()), tx.now(), None);
    let key = Key { id, scope, role, prefix, label, created_by, created_at, expires_at, revoked_at, digest };
    tx.execute(
        "INSERT INTO api_keys (tenant_id, key_id, v, user_id, role, prefix, digest, label, created_by, created_at,
             expires_at, revoked_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, NULL)",
        &values![
            &key.scope.tenant,
            key.id.as_str(),
            V,
            &key.scope.user,
            key.role.as_str(),
            &key.prefix,
            &key.digest[..],
            &key.label,
            &key.created_by,
            key.created_at,
            key.expires_at.map(|at| at.0),
        ],
    )?;
    tx.notify(CHANGED, &key.prefix)?;
    Ok(MadeKey { key, secret })
}

/// Revokes a key of the tenant, named by its id or prefix; nothing when there is none. Revoking again changes nothing.
pub(crate) fn revoke(tx: &mut Tx<'_>, tenant: &TenantId, name: &str) -> Result<Option<Key>, StoreError> {
    let now = tx.now();
    tx.execute(
        "UPDATE api_keys SET revoked_at = ?3
         WHERE tenant_id = ?1 AND (key_id = ?2 OR prefix = ?2) AND revoked_at IS NULL",
        &values![tenant, name, now],
    )?;
    let found = tx.query_optional(
        &format!("{COLUMNS} WHERE tenant_id = ?1 AND (key_id = ?2 OR prefix = ?2)"),
        &values![tenant, name],
        key,
    )?;
    if let Some(key) = &found {
        tx.notify(CHANGED, &key.prefix)?;
    }
    Ok(found)
}

//! Receipts of erasures: that something was erased, when, by whom, from where; never what.
//!
//! Invariant: a receipt holds no content, no subject and no name of a thread; of the ids that were erased it keeps a
//! digest, so that whoever has the list can prove it.

use longhaul_core::{MemoryId, Scope, TimeMs, UserId};
use longhaul_store::{ReadTx, StoreError, Tx, values};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{Memory, MemoryError};

/// Version of what a stored receipt holds.
const RECEIPT_VERSION: u32 = 1;
/// Receipts given by one call.
const LISTED_MAX: i64 = 1_000;

/// What an erasure came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// Its own id, `erasure_…`.
    pub id: String,
    /// When the rows were gone.
    pub erased_at: TimeMs,
    /// Who had it done.
    pub by: UserId,
    /// What was asked for: `ids`, `query`, `subject`, `thread`, `user`, `namespace`.
    pub asked: String,
    /// SHA-256 over what was asked for exactly, in hexadecimal; its text is not kept.
    pub asked_digest: String,
    /// Nothing was erased: it was only counted.
    pub dry_run: bool,
    /// Memories erased, or to be erased in a dry run.
    pub memories: u64,
    /// What was erased in each place.
    pub erased: Erased,
    /// SHA-256 over the sorted ids of these memories, each with a line feed, in hexadecimal.
    pub ids_digest: String,
    /// What could not be reached yet, and is done as soon as it can.
    pub pending: Vec<String>,
    /// Memories that matched and stay because the user may not write to their namespace.
    pub refused: u64,
    /// What it does not reach.
    pub not_covered: Vec<String>,
}

/// Counts of an erasure, by place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Erased {
    /// Rows in the hot tables.
    pub rows: u64,
    /// Vectors of them.
    pub vectors: u64,
    /// Statistics of use.
    pub statistics: u64,
    /// Rows in cold segments.
    pub cold_rows: u64,
    /// Cold segments written again without them.
    pub segments_rewritten: u64,
    /// Objects of cold segments deleted.
    pub objects_deleted: u64,
    /// Files of vector indexes deleted; they are built again from what is left.
    pub index_files: u64,
    /// Entries and proposals of user memory that went with it.
    pub user_entries: u64,
    /// Vectors deleted in a remote index, those of earlier erasures that it had missed included.
    pub remote_vectors: u64,
}

/// What no erasure of memories reaches, in words for people.
pub(crate) fn not_covered() -> Vec<String> {
    [
        "free pages of the database, until `compact` has run",
        "the log of executions and the records of the workspace, which have retention of their own",
        "backups, and old versions that a bucket keeps",
    ]
    .map(str::to_owned)
    .to_vec()
}

pub(crate) fn digest(parts: impl Iterator<Item = impl AsRef<str>>) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.as_ref().as_bytes());
        hash.update(b"\n");
    }
    hex::encode(hash.finalize())
}

/// The digest of ids, whatever order they come in.
pub(crate) fn ids_digest(ids: &[MemoryId]) -> String {
    let mut ids: Vec<&str> = ids.iter().map(MemoryId::as_str).collect();
    ids.sort_unstable();
    digest(ids.into_iter())
}

pub(crate) fn keep(tx: &mut Tx<'_>, scope: &Scope, receipt: &Receipt) -> Result<(), StoreError> {
    let printed = serde_json::to_string(receipt).map_err(StoreError::record("receipt", &receipt.id))?;
    tx.execute(
        "INSERT INTO memory_receipts (tenant_id, receipt_id, user_id, erased_at, v, receipt)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT (tenant_id, receipt_id) DO UPDATE SET receipt = excluded.receipt",
        &values![&scope.tenant, &receipt.id, &scope.user, receipt.erased_at, RECEIPT_VERSION, printed],
    )?;
    Ok(())
}

impl Memory {
    /// The receipts of the tenant's erasures that the scope's user had done, newest first, at most a thousand.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn receipts(&self, scope: &Scope) -> Result<Vec<Receipt>, MemoryError> {
        let scope = scope.clone();
        let list = move |read: &ReadTx<'_>| {
            let found = read.query(
                "SELECT receipt_id, receipt FROM memory_receipts WHERE tenant_id = ?1 AND user_id = ?2
                 ORDER BY erased_at DESC, receipt_id LIMIT ?3",
                &values![&scope.tenant, &scope.user, LISTED_MAX],
                |row| {
                    let id: String = row.get(0)?;
                    serde_json::from_str(row.text(1)?).map_err(StoreError::record("receipt", &id))
                },
            )?;
            Ok(found)
        };
        self.shared.store.read(list).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_of_ids_does_not_depend_on_their_order() {
        let ids: Vec<MemoryId> =
            ["0000000000000000000000000a", "0000000000000000000000000b"].map(MemoryId::from_body).to_vec();
        let turned: Vec<MemoryId> = ids.iter().rev().cloned().collect();
        assert_eq!(ids_digest(&ids), ids_digest(&turned));
        assert_ne!(ids_digest(&ids), ids_digest(&ids[..1]));
    }
}

//! How long records are kept, and the removal of what has expired.
//!
//! That expired records are not found is the readers' doing; here their rows and contents go. Invariants: only what has
//! expired by the clock at the moment of the transaction is removed; a content goes with the last record that has it.

use std::time::Duration;

use longhaul_core::{Digest, RecordId, TenantId, TimeMs};
use longhaul_store::{Store, StoreError, Swept, Tx, values};
use serde::{Deserialize, Serialize};

use crate::{Kind, Workspace, WorkspaceError, staged::About};

/// Records removed by one transaction.
const BATCH: usize = 64;

/// How long records of some sort are kept when nobody says when they expire. The first rule that fits decides; where none
/// does, they are kept for ever. A record that a milestone needs does not expire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetentionRule {
    /// Only of this collection.
    pub collection: Option<String>,
    /// Only of this kind.
    pub kind: Option<Kind>,
    /// How long they are kept, in milliseconds.
    pub keep_ms: i64,
}

impl RetentionRule {
    fn fits(&self, about: &About) -> bool {
        self.collection.as_ref().is_none_or(|collection| *collection == about.collection)
            && self.kind.as_ref().is_none_or(|kind| *kind == about.kind)
    }
}

/// When a record expires by these rules.
pub(crate) fn expiry(rules: &[RetentionRule], about: &About, now: TimeMs) -> Option<TimeMs> {
    let rule = rules.iter().find(|rule| rule.fits(about))?;
    Some(TimeMs(now.0.saturating_add(rule.keep_ms.max(0))))
}

/// What tending came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tended {
    /// Expired records that were removed.
    pub records: u64,
    /// Small contents that went with the last record that had them.
    pub contents: u64,
    /// Links that had lost an end.
    pub links: u64,
    /// Blobs that nothing refers to any more.
    pub blobs: Swept,
}

struct Expired {
    tenant: TenantId,
    id: RecordId,
    digest: Digest,
}

impl Workspace {
    /// Removes what has expired, of all tenants, with contents that nobody else has and links that have lost an end; then
    /// sweeps blobs that nothing has referred to for the grace time, what a killed ingest left among them. Rows of the
    /// index expire with their records and are memory's to remove. Several processes may do so at the same time.
    ///
    /// # Errors
    /// Those of the store; what was removed until then stays removed.
    pub async fn tend(&self, grace: Duration) -> Result<Tended, WorkspaceError> {
        let tended = remove_expired(self.store()).await?;
        Ok(Tended { blobs: self.store().sweep_blobs(grace).await?, ..tended })
    }
}

/// Removes the rows of what has expired, of all tenants, as [`Workspace::tend`] does before it sweeps.
///
/// # Errors
/// Those of the store; what was removed until then stays removed.
pub async fn remove_expired(store: &Store) -> Result<Tended, StoreError> {
    let mut tended = Tended::default();
    loop {
        let (records, contents, links) = store.write(sweep).await?;
        tended.records += records;
        tended.contents += contents;
        tended.links += links;
        if records < BATCH as u64 {
            return Ok(tended);
        }
    }
}

/// Removes some expired records; gives how many, with their contents and links.
fn sweep(tx: &mut Tx<'_>) -> Result<(u64, u64, u64), StoreError> {
    let expired = tx.query(
        "select tenant_id, record_id, digest from records where expires_at is not null and expires_at <= ?1
         order by expires_at limit ?2",
        &values![tx.now(), BATCH],
        |row| Ok(Expired { tenant: row.get(0)?, id: row.get(1)?, digest: row.get(2)? }),
    )?;
    let (mut contents, mut links) = (0, 0);
    for Expired { tenant, id, digest } in &expired {
        tx.execute("delete from records where tenant_id = ?1 and record_id = ?2", &values![tenant, id])?;
        // The version before is the newest again.
        tx.execute(
            "update records set superseded_by = null where tenant_id = ?1 and superseded_by = ?2 and record_id in (
                 select target_id from links where tenant_id = ?1 and source_id = ?2 and relation = 'supersedes')",
            &values![tenant, id],
        )?;
        links += tx.execute(
            "delete from links where tenant_id = ?1 and (source_id = ?2 or target_id = ?2)",
            &values![tenant, id],
        )?;
        contents += tx.execute(
            "delete from contents where tenant_id = ?1 and digest = ?2 and not exists (
                 select 1 from records where tenant_id = ?1 and digest = ?2 and place = 'row')",
            &values![tenant, digest],
        )?;
    }
    Ok((expired.len() as u64, contents, links))
}

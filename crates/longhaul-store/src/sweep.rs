//! Removing blobs that nobody refers to.
//!
//! It owns the decision; the removal itself is `shelf`'s. Invariant: a blob goes only if no row referred to it when the
//! sweep began, and nobody has put its content for the whole grace time.

use std::{collections::HashMap, path::Path, time::Duration};

use longhaul_core::TimeMs;

use crate::{
    Place, Store, StoreError,
    blobs::off_the_runtime,
    connection::private_file,
    error::from_io,
    postgres::blobs as rows,
    references::references,
    shelf::{Kept, touch},
};

/// Between two sweeps at a start, and the grace that those leave.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// What a sweep has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Swept {
    /// Blobs removed.
    pub removed: u64,
    /// Their bytes together.
    pub bytes: u64,
    /// Half-written files of processes that have died, removed.
    pub leftovers: u64,
    /// Blobs that are still there: referred to, or put within the grace time.
    pub kept: u64,
}

impl Store {
    /// Removes the blobs that no row refers to and that were last put longer than `grace` ago, and what dead processes
    /// left half written. Whoever puts a blob and commits a reference to it within `grace` need not care; an hour is
    /// plenty for a program, and a day costs little. Waits for a backup or a verification that is under way.
    ///
    /// Which rows refer to blobs is what each component has entered in a migration step, as a query that gives tenants
    /// and digests (printed, or as 32 bytes; those that are null do not count):
    ///
    /// ```sql
    /// INSERT INTO blob_references (component, query)
    /// VALUES ('notes', 'SELECT tenant_id, digest FROM notes');
    /// ```
    ///
    /// The blobs of a component that has entered nothing go as soon as any other has.
    ///
    /// # Errors
    /// [`StoreError::NoBlobReferences`] when no component has said which blobs it needs; [`StoreError::Io`]; those of
    /// the database. What was removed until then stays removed.
    pub async fn sweep_blobs(&self, grace: Duration) -> Result<Swept, StoreError> {
        let mut swept = self.sweep_shelf(grace).await?;
        if self.blobs().bucket().is_some() {
            let store = self.clone();
            let away = off_the_runtime(move || store.sweep_bucket(grace)).await?;
            swept.removed += away.removed;
            swept.bytes += away.bytes;
            swept.leftovers += away.leftovers;
            swept.kept += away.kept;
        }
        Ok(swept)
    }

    /// What a bucket holds. Who has put it again since is seen in the transaction that takes out its row.
    fn sweep_bucket(&self, grace: Duration) -> Result<Swept, StoreError> {
        let Some(bucket) = self.blobs().bucket() else { return Ok(Swept::default()) };
        let listed = bucket.list()?;
        let needed = self.read_now(references)?;
        if !needed.are_known && !listed.is_empty() {
            return Err(StoreError::NoBlobReferences { path: self.path().to_owned() });
        }
        let now = self.ambient().clock.now();
        let before = TimeMs(before(now, grace).0.saturating_sub(rows::FRESH_MS));
        let (mut sizes, mut old, mut swept) = (HashMap::new(), Vec::new(), Swept::default());
        for kept in listed {
            let Kept::Blob { tenant, digest, bytes, put_at, .. } = kept else { continue };
            swept.kept += 1;
            let key = (tenant, digest);
            if put_at < before && !needed.blobs.contains(&key) {
                old.push((key.0.clone(), digest, before));
                sizes.insert(key, bytes);
            }
        }
        for gone in bucket.remove(&old)? {
            swept.kept -= 1;
            swept.removed += 1;
            swept.bytes += sizes.get(&gone).copied().unwrap_or(0);
        }
        swept.leftovers = bucket.clear_away(before)?;
        Ok(swept)
    }

    async fn sweep_shelf(&self, grace: Duration) -> Result<Swept, StoreError> {
        if matches!(self.place(), Place::Postgres { .. }) {
            return self.sweep_rows(grace).await;
        }
        let blobs = self.blobs().clone();
        let listing = blobs.clone();
        // What is listed is older than the rows that are looked at next.
        let (alone, now, listed) =
            off_the_runtime(move || Ok((listing.may_sweep()?, listing.now()?, listing.list_shelf()?))).await?;
        let needed = self.read(references).await?;
        if !needed.are_known && !listed.is_empty() {
            return Err(StoreError::NoBlobReferences { path: self.path().to_owned() });
        }
        let before = before(now, grace);
        off_the_runtime(move || {
            let mut swept = Swept::default();
            for kept in listed {
                match &kept {
                    Kept::Blob { tenant, digest, bytes, put_at, .. } => {
                        let is_needed = *put_at >= before || needed.blobs.contains(&(tenant.clone(), *digest));
                        if !is_needed && blobs.remove(&kept, before)? {
                            swept.removed += 1;
                            swept.bytes += bytes;
                        } else {
                            swept.kept += 1;
                        }
                    }
                    Kept::Leftover { put_at, .. } => {
                        swept.leftovers += u64::from(*put_at < before && blobs.remove(&kept, before)?);
                    }
                    Kept::Stranger { .. } => {}
                }
            }
            drop(alone);
            Ok(swept)
        })
        .await
    }

    /// What a program does in the background when it begins: removes at once what dead processes of this machine have
    /// left half written, which costs a look into one folder; and sweeps as [`Self::sweep_blobs`] does, with a grace of
    /// a day, if nobody has begun so on this machine for a day. Several processes may do so at the same time.
    ///
    /// # Errors
    /// [`StoreError::Io`], those of the database. A store in which nobody has said which blobs are needed is left alone.
    pub async fn sweep_at_start(&self) -> Result<Swept, StoreError> {
        let marker = match self.place() {
            Place::Folder(dir) | Place::Postgres { dir, .. } => dir.join("locks/swept"),
            Place::Memory => return Ok(Swept::default()),
        };
        let blobs = self.blobs().clone();
        let (leftovers, is_due) = off_the_runtime(move || Ok((blobs.remove_abandoned()?, is_due(&marker)?))).await?;
        if !is_due {
            return Ok(Swept { leftovers, ..Swept::default() });
        }
        match self.sweep_blobs(DAY).await {
            Ok(swept) => Ok(Swept { leftovers: leftovers + swept.leftovers, ..swept }),
            Err(StoreError::NoBlobReferences { .. }) => Ok(Swept { leftovers, ..Swept::default() }),
            Err(error) => Err(error),
        }
    }

    /// The same on PostgreSQL, in one transaction: while it runs, nobody else's commits.
    async fn sweep_rows(&self, grace: Duration) -> Result<Swept, StoreError> {
        let path = self.path().to_owned();
        self.write(move |tx| {
            let (listed, needed) = (rows::list(tx)?, references(tx)?);
            if !needed.are_known && !listed.is_empty() {
                return Err(StoreError::NoBlobReferences { path });
            }
            let before = TimeMs(before(tx.now(), grace).0.saturating_sub(rows::FRESH_MS));
            let mut swept = Swept { leftovers: rows::remove_abandoned(tx, before)?, ..Swept::default() };
            for kept in listed {
                let Kept::Blob { tenant, digest, bytes, .. } = kept else { continue };
                let is_needed = needed.blobs.contains(&(tenant.clone(), digest));
                if !is_needed && rows::remove(tx, &tenant, &digest, before)? {
                    swept.removed += 1;
                    swept.bytes += bytes;
                } else {
                    swept.kept += 1;
                }
            }
            Ok(swept)
        })
        .await
    }
}

/// Whether the file was last touched a day ago; then it is now. Its own clock stamps it, so it is compared with that.
fn is_due(marker: &Path) -> Result<bool, StoreError> {
    let wrong = |error| from_io(marker, error);
    let is_new = !marker.exists();
    let file = private_file(marker)?;
    let before = file.metadata().and_then(|metadata| metadata.modified()).map_err(wrong)?;
    touch(&file).map_err(wrong)?;
    let now = file.metadata().and_then(|metadata| metadata.modified()).map_err(wrong)?;
    let since = now.duration_since(before).unwrap_or(DAY);
    if is_new || since >= DAY {
        return Ok(true);
    }
    // It was not due, and must not be put off.
    file.set_modified(before).map_err(wrong)?;
    Ok(false)
}

fn before(now: TimeMs, grace: Duration) -> TimeMs {
    TimeMs(now.0.saturating_sub(i64::try_from(grace.as_millis()).unwrap_or(i64::MAX)))
}

//! A copy of the whole store, of one moment, made while others go on writing.
//!
//! It owns the order of things: the rows of a snapshot first, then the blobs, everything on the disk, and at the end
//! the rename that makes a backup of it. Invariant: a folder of the asked name is a complete backup or was there before;
//! what a dead process left half made has another name, and the next backup removes it.

use std::{
    fs::{self, File},
    io::ErrorKind,
    path::{Path, PathBuf},
};

use rusqlite::{
    Connection, OpenFlags,
    backup::{Backup as Pages, StepResult},
};
use rustix::fs::{FlockOperation, flock};

use crate::{
    Place, ReadTx, Store, StoreError,
    blobs::off_the_runtime,
    connection::{private_dir, private_file},
    error::{from_io, from_sqlite},
    references::{References, references},
    shelf::{Folder, Kept, sync_dir},
    tx::Link,
};

/// Pages copied between two reports.
const PAGES_A_STEP: i32 = 1024;

/// How far a backup has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BackupProgress {
    /// Pages of the database copied.
    pub pages: u64,
    /// All its pages.
    pub pages_total: u64,
    /// Blobs copied.
    pub blobs: u64,
    /// All blobs; 0 until the pages are done.
    pub blobs_total: u64,
}

/// What a backup holds, and what it could not hold.
#[derive(Debug, Clone)]
#[must_use = "blobs that could not be read are missing from the backup"]
pub struct Backup {
    /// Where it is: a folder that can be opened as a store.
    pub path: PathBuf,
    /// Blobs copied, each verified.
    pub blobs: u64,
    /// Bytes of the database and the blobs together.
    pub bytes: u64,
    /// Blobs that rows refer to and that were missing or damaged already, each as its error.
    pub lacking: Vec<StoreError>,
}

impl Store {
    /// Copies the store as it is at one moment into a folder, with every blob, while others go on reading and writing.
    /// The folder must be new or empty; it gets its name when everything in it has reached the disk. `progress` is
    /// called now and then, on the thread that copies. To restore, open the folder as a store, or move it to where one
    /// is expected.
    ///
    /// # Errors
    /// [`StoreError::BackedUpElsewhere`] on PostgreSQL, whose own tools do it; [`StoreError::NotEmpty`],
    /// [`StoreError::DiskFull`], [`StoreError::Io`]; those of the database. No folder of the name exists then, unless an
    /// empty one did before.
    pub async fn backup(
        &self,
        to: &Path,
        progress: impl FnMut(BackupProgress) + Send + 'static,
    ) -> Result<Backup, StoreError> {
        let (store, to, mut progress) = (self.clone(), to.to_owned(), progress);
        off_the_runtime(move || store.backup_now(&to, &mut progress)).await
    }

    fn backup_now(&self, to: &Path, progress: &mut dyn FnMut(BackupProgress)) -> Result<Backup, StoreError> {
        if matches!(self.place(), Place::Postgres { .. }) {
            return Err(StoreError::BackedUpElsewhere { path: self.path().to_owned() });
        }
        let to = std::path::absolute(to).map_err(|error| from_io(to, error))?;
        check_empty(&to)?;
        let (Some(parent), Some(name)) = (to.parent(), to.file_name()) else {
            return Err(StoreError::NotEmpty { path: to });
        };
        private_dir(parent)?;
        let prefix = format!(".{}.partial-", name.to_string_lossy());
        remove_abandoned(parent, &prefix)?;
        let _every_blob_stays = self.blobs().keep_all()?;
        let partial = Partial::new(parent.join(format!("{prefix}{}", self.ambient().ids.body())))?;

        let mut so_far = BackupProgress::default();
        let database = partial.dir.join("longhaul.db");
        let needed = self.read_now(|read| {
            copy_pages(read, &database, |pages, pages_total| {
                so_far = BackupProgress { pages, pages_total, ..so_far };
                progress(so_far);
            })?;
            references(read)
        })?;
        let mut backup = self.copy_blobs(&partial, needed, so_far, progress)?;
        backup.bytes += fs::metadata(&database).map_err(|error| from_io(&database, error))?.len();
        partial.finish(&to, parent)?;
        backup.path = to;
        Ok(backup)
    }

    fn copy_blobs(
        &self,
        partial: &Partial,
        mut needed: References,
        mut so_far: BackupProgress,
        progress: &mut dyn FnMut(BackupProgress),
    ) -> Result<Backup, StoreError> {
        let (source, target) = (self.blobs(), Folder::new(partial.dir.clone()));
        let listed = source.list()?;
        let is_blob = |kept: &&Kept| matches!(kept, Kept::Blob { .. });
        so_far.blobs_total = listed.iter().filter(is_blob).count() as u64;
        progress(so_far);
        let mut backup = Backup { path: PathBuf::new(), blobs: 0, bytes: 0, lacking: Vec::new() };
        for kept in &listed {
            let Kept::Blob { tenant, digest, bytes, .. } = kept else { continue };
            let is_needed = needed.blobs.remove(&(tenant.clone(), *digest));
            let unique = self.ambient().ids.body();
            match source.stored_now(tenant, digest).and_then(|stored| target.copy(tenant, digest, stored, &unique)) {
                Ok(()) => {
                    backup.blobs += 1;
                    backup.bytes += bytes;
                }
                Err(error @ (StoreError::BlobMissing { .. } | StoreError::BlobDamaged { .. })) if is_needed => {
                    backup.lacking.push(error);
                }
                Err(StoreError::BlobMissing { .. } | StoreError::BlobDamaged { .. }) => {}
                Err(error) => return Err(error),
            }
            so_far.blobs += 1;
            progress(so_far);
        }
        for (tenant, digest) in needed.blobs {
            // Not listed, and so not there.
            backup.lacking.extend(source.check_now(&tenant, &digest).err());
        }
        Ok(backup)
    }
}

/// A folder that is becoming a backup; it is removed when it does not become one.
struct Partial {
    dir: PathBuf,
    /// Tells others that somebody is at work here.
    lock: File,
    finished: bool,
}

impl Partial {
    fn new(dir: PathBuf) -> Result<Self, StoreError> {
        for dir in [&dir, &dir.join("blobs"), &dir.join("locks")] {
            private_dir(dir)?;
        }
        let path = dir.join("locks/open.lock");
        let lock = private_file(&path)?;
        flock(&lock, FlockOperation::LockExclusive).map_err(|error| from_io(&path, error.into()))?;
        Ok(Self { dir, lock, finished: false })
    }

    /// Gives it its name, once everything is on the disk.
    fn finish(mut self, to: &Path, parent: &Path) -> Result<(), StoreError> {
        // What copying needed; an opened store makes its own.
        for name in ["blobs.lock", "sweep.lock"] {
            let _ = fs::remove_file(self.dir.join("locks").join(name));
        }
        let _ = fs::remove_dir(self.dir.join("blobs").join(crate::shelf::INCOMING));
        for dir in [&self.dir.join("blobs"), &self.dir.join("locks"), &self.dir] {
            sync_dir(dir)?;
        }
        // Replaces an empty folder, and nothing else.
        fs::rename(&self.dir, to).map_err(|error| {
            if matches!(error.kind(), ErrorKind::DirectoryNotEmpty | ErrorKind::AlreadyExists) {
                StoreError::NotEmpty { path: to.to_owned() }
            } else {
                from_io(to, error)
            }
        })?;
        self.finished = true;
        let _ = flock(&self.lock, FlockOperation::Unlock);
        sync_dir(parent)
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.finished {
            // The error that led here is the one worth telling; the next backup tries to remove it again.
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

fn check_empty(to: &Path) -> Result<(), StoreError> {
    match fs::read_dir(to) {
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => Err(StoreError::NotEmpty { path: to.to_owned() }),
        },
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(from_io(to, error)),
    }
}

/// Removes what earlier backups to the same place have left behind, unless they are still being made.
fn remove_abandoned(parent: &Path, prefix: &str) -> Result<(), StoreError> {
    let wrong = |error| from_io(parent, error);
    for entry in fs::read_dir(parent).map_err(wrong)? {
        let entry = entry.map_err(wrong)?;
        if !entry.file_name().to_string_lossy().starts_with(prefix) {
            continue;
        }
        let Ok(lock) = File::open(entry.path().join("locks/open.lock")) else { continue };
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            fs::remove_dir_all(entry.path()).map_err(|error| from_io(&entry.path(), error))?;
        }
    }
    Ok(())
}

/// Copies the snapshot's pages; `report` hears how many of how many.
fn copy_pages(read: &ReadTx<'_>, to: &Path, mut report: impl FnMut(u64, u64)) -> Result<(), StoreError> {
    let wrong = |error| from_sqlite(to, "backup", error);
    let Link::Sqlite(source) = read.link else {
        return Err(StoreError::BackedUpElsewhere { path: read.context.path.clone() });
    };
    // The snapshot is of now, not of the first page's turn.
    read.query("SELECT count(*) FROM sqlite_schema", &[], |_| Ok(()))?;
    let file = private_file(to)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut copy = Connection::open_with_flags(to, flags).map_err(wrong)?;
    // A copy that is not finished is never looked at, and a finished one is made durable below.
    copy.execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF").map_err(wrong)?;
    let pages = Pages::new(source, &mut copy).map_err(wrong)?;
    loop {
        let step = pages.step(PAGES_A_STEP).map_err(wrong)?;
        let progress = pages.progress();
        let total = u64::try_from(progress.pagecount).unwrap_or_default();
        report(total - u64::try_from(progress.remaining).unwrap_or_default().min(total), total);
        if step == StepResult::Done {
            break;
        }
        if step != StepResult::More {
            // Nobody else knows the copy, and a snapshot waits for nobody: not expected, and not to be waited for.
            let busy = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY);
            return Err(wrong(rusqlite::Error::SqliteFailure(busy, None)));
        }
    }
    drop(pages);
    // What is in a bucket is copied beside the rows: a backup must not share objects with a store that removes them.
    copy.execute_batch("DELETE FROM blob_objects; DELETE FROM blob_uploads").map_err(wrong)?;
    copy.close().map_err(|(_, error)| wrong(error))?;
    file.sync_all().map_err(|error| from_io(to, error))
}

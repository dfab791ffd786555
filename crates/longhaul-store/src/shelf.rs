//! Content-addressed files: one folder a tenant, a file a digest.
//!
//! It owns the files' names, durability and removal; whether a file is still needed is decided elsewhere. Invariants:
//! a file has its final name only when its content is on the disk; a file is removed only if nobody has put its content
//! since the given time, and no put gets in between.

use std::{
    fs::{self, DirBuilder, DirEntry, File, OpenOptions},
    io::{ErrorKind, Read, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use longhaul_core::{Digest, TenantId, TimeMs};
use rustix::fs::{FlockOperation, Timespec, Timestamps, UTIME_NOW, flock, futimens};

use crate::{StoreError, connection::private_file, error::from_io};

/// Something in the folder of blobs.
#[derive(Debug)]
pub(crate) enum Kept {
    /// Content under its name; whether it is what its name says, nobody has looked.
    Blob { tenant: TenantId, digest: Digest, path: PathBuf, bytes: u64, put_at: TimeMs },
    /// A file that somebody is writing, or was when it died.
    Leftover { path: PathBuf, put_at: TimeMs },
    /// Nothing that a store puts there.
    Stranger { path: PathBuf },
}

impl Kept {
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Blob { path, .. } | Self::Leftover { path, .. } | Self::Stranger { path } => path,
        }
    }
}

/// A lock on the removal of blobs, held until it is dropped.
#[derive(Debug, Default)]
pub(crate) struct SweepLock(Option<File>);

impl Drop for SweepLock {
    fn drop(&mut self) {
        // Closing the file is not enough: a child process between its fork and its exec still has it open.
        if let Some(file) = &self.0 {
            let _ = flock(file, FlockOperation::Unlock);
        }
    }
}

/// The blobs in the folder of a store.
#[derive(Debug, Clone)]
pub(crate) struct Folder {
    blobs: PathBuf,
    /// Shared by those who put, exclusive for a moment for whoever removes.
    put_lock: PathBuf,
    /// Shared by those who need everything that is there, exclusive for whoever removes.
    sweep_lock: PathBuf,
}

impl Folder {
    pub(crate) fn new(store: PathBuf) -> Self {
        let locks = store.join("locks");
        Self { put_lock: locks.join("blobs.lock"), sweep_lock: locks.join("sweep.lock"), blobs: store.join("blobs") }
    }

    pub(crate) fn path(&self, tenant: &TenantId, digest: &Digest) -> PathBuf {
        let hex = digest.hex();
        let (head, _) = hex.split_at(2);
        self.blobs.join(tenant.as_str()).join(head).join(&hex)
    }

    /// `unique` names the temporary file.
    pub(crate) fn put(&self, tenant: &TenantId, content: &[u8], unique: &str) -> Result<Digest, StoreError> {
        let digest = Digest::of(content);
        let path = self.path(tenant, &digest);
        let dir = path.parent().unwrap_or(&self.blobs);
        let _putting = locked(&self.put_lock, FlockOperation::LockShared)?;
        if refreshed(&path, content) {
            // Whoever wrote it may not have come so far as to make its name durable.
            sync_dir(dir)?;
            return Ok(digest);
        }
        make_dir(dir, &self.blobs)?;
        let temporary = path.with_extension(format!("tmp-{unique}"));
        let written = write_synced(&temporary, content).and_then(|()| fs::rename(&temporary, &path));
        if let Err(error) = written {
            // The half-written file is of no use; that it cannot be removed is the lesser trouble.
            let _ = fs::remove_file(&temporary);
            return Err(from_io(&path, error));
        }
        sync_dir(dir)?;
        Ok(digest)
    }

    pub(crate) fn get(&self, tenant: &TenantId, digest: &Digest) -> Result<Vec<u8>, StoreError> {
        let path = self.path(tenant, digest);
        let content = fs::read(&path).map_err(|error| {
            if error.kind() == ErrorKind::NotFound {
                StoreError::BlobMissing { digest: *digest, path: path.clone() }
            } else {
                from_io(&path, error)
            }
        })?;
        let found = Digest::of(&content);
        if found == *digest { Ok(content) } else { Err(StoreError::BlobDamaged { digest: *digest, found, path }) }
    }

    pub(crate) fn list(&self) -> Result<Vec<Kept>, StoreError> {
        let mut kept = Vec::new();
        for tenant in entries(&self.blobs)? {
            let owner = tenant.file_name().to_str().and_then(|name| name.parse::<TenantId>().ok());
            let Some(owner) = owner.filter(|_| is_dir(&tenant)) else {
                kept.push(Kept::Stranger { path: tenant.path() });
                continue;
            };
            for head in entries(&tenant.path())? {
                if !is_dir(&head) {
                    kept.push(Kept::Stranger { path: head.path() });
                    continue;
                }
                for file in entries(&head.path())? {
                    kept.extend(self.file(&owner, &file)?);
                }
            }
        }
        Ok(kept)
    }

    /// What this file is; nothing if it has gone meanwhile.
    fn file(&self, tenant: &TenantId, file: &DirEntry) -> Result<Option<Kept>, StoreError> {
        let path = file.path();
        let metadata = match file.metadata() {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(from_io(&path, error)),
        };
        let name = file.file_name().to_string_lossy().into_owned();
        let put_at = modified(&metadata);
        let digest = format!("sha256:{name}").parse::<Digest>().ok();
        Ok(Some(match digest.filter(|digest| metadata.is_file() && self.path(tenant, digest) == path) {
            Some(digest) => Kept::Blob { tenant: tenant.clone(), digest, path, bytes: metadata.len(), put_at },
            None if metadata.is_file() && name.contains(".tmp-") => Kept::Leftover { path, put_at },
            None => Kept::Stranger { path },
        }))
    }

    /// Now, by the clock of the file system, which need not be this machine's.
    pub(crate) fn now(&self) -> Result<TimeMs, StoreError> {
        let wrong = |error| from_io(&self.sweep_lock, error);
        let file = private_file(&self.sweep_lock)?;
        touch(&file).map_err(wrong)?;
        Ok(modified(&file.metadata().map_err(wrong)?))
    }

    pub(crate) fn remove(&self, path: &Path, before: TimeMs) -> Result<bool, StoreError> {
        let _alone = locked(&self.put_lock, FlockOperation::LockExclusive)?;
        match fs::symlink_metadata(path) {
            Ok(metadata) if modified(&metadata) < before => {
                fs::remove_file(path).map(|()| true).map_err(|error| from_io(path, error))
            }
            Ok(_) => Ok(false),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(from_io(path, error)),
        }
    }

    pub(crate) fn sweep_lock(&self, operation: FlockOperation) -> Result<SweepLock, StoreError> {
        locked(&self.sweep_lock, operation)
    }
}

fn locked(path: &Path, operation: FlockOperation) -> Result<SweepLock, StoreError> {
    let file = private_file(path)?;
    flock(&file, operation).map_err(|error| from_io(path, error.into()))?;
    Ok(SweepLock(Some(file)))
}

/// Whether the file has this content; then it is as if it had just been put.
fn refreshed(path: &Path, content: &[u8]) -> bool {
    let Ok(mut file) = File::open(path) else { return false };
    same(&mut file, content).unwrap_or(false) && touch(&file).is_ok()
}

fn same(file: &mut File, content: &[u8]) -> std::io::Result<bool> {
    if file.metadata()?.len() != content.len() as u64 {
        return Ok(false);
    }
    let mut piece = vec![0; content.len().min(64 * 1024)];
    for expected in content.chunks(piece.len().max(1)) {
        let piece = &mut piece[..expected.len()];
        file.read_exact(piece)?;
        if piece != expected {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Sets the time of the last change to now.
fn touch(file: &File) -> std::io::Result<()> {
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    Ok(futimens(file, &Timestamps { last_access: now, last_modification: now })?)
}

fn modified(metadata: &fs::Metadata) -> TimeMs {
    TimeMs(metadata.mtime().saturating_mul(1000).saturating_add(metadata.mtime_nsec() / 1_000_000))
}

fn is_dir(entry: &DirEntry) -> bool {
    entry.file_type().is_ok_and(|kind| kind.is_dir())
}

fn entries(dir: &Path) -> Result<Vec<DirEntry>, StoreError> {
    let wrong = |error| from_io(dir, error);
    fs::read_dir(dir).map_err(wrong)?.collect::<Result<_, _>>().map_err(wrong)
}

fn write_synced(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(content)?;
    file.sync_all()
}

/// Makes `dir` and what is missing above it up to `root`, and makes their names durable.
fn make_dir(dir: &Path, root: &Path) -> Result<(), StoreError> {
    if dir.is_dir() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(|error| from_io(dir, error))?;
    for above in dir.ancestors().skip(1).take_while(|above| above.starts_with(root)) {
        sync_dir(above)?;
    }
    Ok(())
}

/// Makes the names in this folder durable.
pub(crate) fn sync_dir(dir: &Path) -> Result<(), StoreError> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(|error| from_io(dir, error))
}

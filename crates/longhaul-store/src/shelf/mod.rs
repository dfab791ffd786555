//! Content-addressed files: one folder a tenant, a file a digest.
//!
//! It owns the files' names, durability and removal; whether a file is still needed is decided elsewhere. Invariants:
//! a file has its final name only when its content is on the disk; a file is removed only if nobody has put its content
//! since the given time, and no put gets in between. Compressed content has a name that ends in `.zst`; where both
//! stand, the one that is not compressed counts, as others may link to it.

mod incoming;

use std::{
    fs::{self, DirBuilder, DirEntry, File},
    io::{Error, ErrorKind, Read, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
};

use longhaul_core::{Digest, TenantId, TimeMs};
use rustix::fs::{FlockOperation, Timespec, Timestamps, UTIME_NOW, flock, futimens};

use crate::{
    StoreError,
    blobs::encoding::{Encoding, Stored, Verified, from_stream},
    connection::private_file,
    error::from_io,
};

pub(crate) use incoming::{DIR as INCOMING, Incoming};

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
        let putting = locked(&self.put_lock, FlockOperation::LockShared)?;
        if let Some(path) = self.refreshed(tenant, &digest, content) {
            // Whoever wrote it may not have come so far as to make its name durable.
            sync_dir(path.parent().unwrap_or(&self.blobs))?;
            return Ok(digest);
        }
        drop(putting);
        let encoding = Encoding::for_file(content);
        let mut incoming = Incoming::new(self, unique)?;
        let written = match encoding {
            Encoding::Raw => incoming.write_all(content),
            Encoding::Zstd => incoming.write_all(&encoding.encode(content)),
        };
        written.map_err(|error| from_io(incoming.path(), error))?;
        self.keep(&mut incoming, tenant, &digest, encoding)?;
        Ok(digest)
    }

    /// A file that is to become a blob. `unique` names it until then.
    pub(crate) fn incoming(&self, unique: &str) -> Result<Incoming, StoreError> {
        Incoming::new(self, unique)
    }

    /// Copies content as it lies elsewhere, and looks whether the copy is what its digest says.
    pub(crate) fn copy(
        &self,
        tenant: &TenantId,
        digest: &Digest,
        mut stored: Stored,
        unique: &str,
    ) -> Result<(), StoreError> {
        let mut incoming = Incoming::new(self, unique)?;
        std::io::copy(&mut stored.reader, &mut incoming).map_err(|error| from_stream(incoming.path(), error))?;
        let copied = File::open(incoming.path()).map_err(|error| from_io(incoming.path(), error))?;
        let copied = Stored { reader: Box::new(copied), encoding: stored.encoding, path: stored.path };
        Verified::new(copied, *digest)?.check()?;
        self.keep(&mut incoming, tenant, digest, stored.encoding)
    }

    /// Makes a blob of what was written.
    fn keep(
        &self,
        incoming: &mut Incoming,
        tenant: &TenantId,
        digest: &Digest,
        encoding: Encoding,
    ) -> Result<(), StoreError> {
        incoming.sync()?;
        let raw = self.path(tenant, digest);
        let dir = raw.parent().unwrap_or(&self.blobs).to_owned();
        make_dir(&dir, &self.blobs)?;
        let path = self.encoded_path(tenant, digest, encoding);
        let _putting = locked(&self.put_lock, FlockOperation::LockShared)?;
        let other = match encoding {
            Encoding::Raw => self.encoded_path(tenant, digest, Encoding::Zstd),
            Encoding::Zstd => raw,
        };
        if encoding == Encoding::Zstd && is_whole(&other, digest) && refresh(&other).is_ok() {
            return sync_dir(&dir);
        }
        incoming.rename(&path)?;
        match fs::remove_file(&other) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(from_io(&other, error)),
        }
        sync_dir(&dir)
    }

    /// The file that has this content, if one does; then it is as if it had just been put.
    fn refreshed(&self, tenant: &TenantId, digest: &Digest, content: &[u8]) -> Option<PathBuf> {
        let raw = self.path(tenant, digest);
        if refreshed(&raw, content) {
            return Some(raw);
        }
        let packed = self.stored_as(tenant, digest, Encoding::Zstd).ok()??;
        let path = packed.path.clone();
        let is_same = Verified::new(packed, *digest).and_then(|found| found.is(content)).unwrap_or(false);
        (is_same && refresh(&path).is_ok()).then_some(path)
    }

    /// The content as it lies there.
    pub(crate) fn stored(&self, tenant: &TenantId, digest: &Digest) -> Result<Option<Stored>, StoreError> {
        // Whoever puts it again may replace the second by the first between two looks.
        for encoding in [Encoding::Raw, Encoding::Zstd, Encoding::Raw] {
            if let Some(stored) = self.stored_as(tenant, digest, encoding)? {
                return Ok(Some(stored));
            }
        }
        Ok(None)
    }

    fn stored_as(&self, tenant: &TenantId, digest: &Digest, encoding: Encoding) -> Result<Option<Stored>, StoreError> {
        let path = self.encoded_path(tenant, digest, encoding);
        match File::open(&path) {
            Ok(file) => {
                let reader = Box::new(NamedFile { file, path: path.clone() });
                Ok(Some(Stored { reader, encoding, path }))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(from_io(&path, error)),
        }
    }

    pub(crate) fn list(&self) -> Result<Vec<Kept>, StoreError> {
        let mut kept = Vec::new();
        for tenant in entries(&self.blobs)? {
            if tenant.file_name() == INCOMING {
                for file in entries(&tenant.path())? {
                    let Ok(metadata) = file.metadata() else { continue };
                    kept.push(Kept::Leftover { path: file.path(), put_at: modified(&metadata) });
                }
                continue;
            }
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
        let hex = name.strip_suffix(Encoding::Zstd.suffix()).unwrap_or(&name);
        let digest = format!("sha256:{hex}").parse::<Digest>().ok();
        let is_placed =
            |digest: &Digest| self.path(tenant, digest).with_file_name(&name) == path && digest.hex() == hex;
        Ok(Some(match digest.filter(|digest| metadata.is_file() && is_placed(digest)) {
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

    /// Removes the file, unless it has been put again at or after `before`, or somebody is writing it.
    pub(crate) fn remove(&self, path: &Path, before: TimeMs) -> Result<bool, StoreError> {
        let _alone = locked(&self.put_lock, FlockOperation::LockExclusive)?;
        if path.parent() == Some(&self.blobs.join(INCOMING)) && !incoming::is_abandoned(path) {
            return Ok(false);
        }
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

/// A file whose errors tell its name.
struct NamedFile {
    file: File,
    path: PathBuf,
}

impl Read for NamedFile {
    fn read(&mut self, piece: &mut [u8]) -> std::io::Result<usize> {
        self.file.read(piece).map_err(|error| {
            if error.kind() == ErrorKind::Interrupted { error } else { Error::other(from_io(&self.path, error)) }
        })
    }
}

/// Whether the file, as it is, has this digest.
fn is_whole(path: &Path, digest: &Digest) -> bool {
    let Ok(file) = File::open(path) else { return false };
    let stored = Stored { reader: Box::new(file), encoding: Encoding::Raw, path: path.to_owned() };
    Verified::new(stored, *digest).and_then(Verified::check).is_ok()
}

fn refresh(path: &Path) -> std::io::Result<()> {
    touch(&File::open(path)?)
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
pub(crate) fn touch(file: &File) -> std::io::Result<()> {
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

//! Files that are being written, until they get their name.
//!
//! They stand together in one folder, so that what dead processes have left is found at once. Invariants: a file that
//! somebody writes is locked by it; one that is dropped is removed; one that is kept has reached the disk before it got
//! its name.

use std::{
    fs::{self, File, OpenOptions},
    io::{ErrorKind, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use rustix::fs::{FlockOperation, flock};

use super::{Folder, make_dir, modified, touch};
use crate::{
    StoreError,
    blobs::{
        encoding::Encoding,
        stream::{Content, Sink},
    },
    error::from_io,
};

/// A name that no tenant has.
pub(crate) const DIR: &str = ".incoming";

/// A file younger than this may be one that is about to be locked.
const YOUNG_MS: i64 = 60 * 1000;

/// A file that is being written.
#[derive(Debug)]
pub(crate) struct Incoming {
    folder: Folder,
    file: File,
    path: PathBuf,
    named: bool,
}

impl Incoming {
    pub(super) fn new(folder: &Folder, unique: &str) -> Result<Self, StoreError> {
        let dir = folder.blobs.join(DIR);
        make_dir(&dir, &folder.blobs)?;
        let path = dir.join(unique);
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path);
        let file = file.map_err(|error| from_io(&path, error))?;
        let incoming = Self { folder: folder.clone(), file, path, named: false };
        flock(&incoming.file, FlockOperation::NonBlockingLockExclusive)
            .map_err(|error| from_io(&incoming.path, error.into()))?;
        Ok(incoming)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes what was written durable.
    pub(super) fn sync(&self) -> Result<(), StoreError> {
        self.file.sync_all().map_err(|error| from_io(&self.path, error))
    }

    /// Gives it this name in place of whatever has it.
    pub(super) fn rename(&mut self, to: &Path) -> Result<(), StoreError> {
        // It counts as put now, however long it took to be written.
        touch(&self.file).and_then(|()| fs::rename(&self.path, to)).map_err(|error| from_io(to, error))?;
        self.named = true;
        Ok(())
    }
}

impl Write for Incoming {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

impl Sink for Incoming {
    fn keep(mut self: Box<Self>, content: Content) -> Result<(), StoreError> {
        let folder = self.folder.clone();
        folder.keep(&mut self, &content.tenant, &content.digest, content.encoding)
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        if !self.named {
            // A half-written file is of no use; that it cannot be removed is the lesser trouble.
            let _ = fs::remove_file(&self.path);
        }
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

/// Whether the one who wrote this file has died.
pub(super) fn is_abandoned(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok())
}

impl Folder {
    /// Removes what dead processes have left half written; tells how many there were.
    pub(crate) fn remove_abandoned(&self) -> Result<u64, StoreError> {
        let dir = self.blobs.join(DIR);
        let entries = match fs::read_dir(&dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
            Err(error) => return Err(from_io(&dir, error)),
        };
        let (mut removed, mut young) = (0, None);
        for entry in entries {
            let entry = entry.map_err(|error| from_io(&dir, error))?;
            let path = entry.path();
            let young = match young {
                Some(young) => young,
                None => *young.insert(self.now()?.0 - YOUNG_MS),
            };
            let is_old = entry.metadata().is_ok_and(|metadata| modified(&metadata).0 < young);
            if is_old && is_abandoned(&path) {
                match fs::remove_file(&path) {
                    Ok(()) => removed += 1,
                    // Somebody else does the same.
                    Err(error) if error.kind() == ErrorKind::NotFound => {}
                    Err(error) => return Err(from_io(&path, error)),
                }
            }
        }
        Ok(removed)
    }

    /// The file under which content of this encoding stands.
    pub(crate) fn encoded_path(
        &self,
        tenant: &longhaul_core::TenantId,
        digest: &longhaul_core::Digest,
        encoding: Encoding,
    ) -> PathBuf {
        let mut path = self.path(tenant, digest).into_os_string();
        path.push(encoding.suffix());
        path.into()
    }
}

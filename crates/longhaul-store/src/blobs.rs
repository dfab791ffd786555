//! Content-addressed files beside the database, one folder a tenant.
//!
//! It owns the files' names, durability and integrity; who refers to a blob is the caller's business, and deleting
//! unreferenced ones comes with retention. Invariant: a digest that `put` has returned names a file whose whole
//! content is on the disk, whatever happens next; `get` never returns other bytes.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{ErrorKind, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use longhaul_core::{Digest, Scope};

use crate::{StoreError, error::from_io, tx::Context};

/// The blobs of a store. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Blobs {
    dir: PathBuf,
    bytes_max: u64,
    context: Arc<Context>,
}

impl Blobs {
    pub(crate) fn new(dir: PathBuf, bytes_max: u64, context: Arc<Context>) -> Self {
        Self { dir, bytes_max, context }
    }

    /// Stores the content and gives its digest. Storing the same content again costs nothing.
    ///
    /// # Errors
    /// [`StoreError::BlobTooLarge`], [`StoreError::DiskFull`], [`StoreError::Io`].
    pub async fn put(&self, scope: &Scope, content: impl Into<Vec<u8>>) -> Result<Digest, StoreError> {
        let (blobs, scope, content) = (self.clone(), scope.clone(), content.into());
        off_the_runtime(move || blobs.write(&scope, &content)).await
    }

    /// The content of this digest, verified.
    ///
    /// # Errors
    /// [`StoreError::BlobMissing`], [`StoreError::BlobDamaged`], [`StoreError::Io`].
    pub async fn get(&self, scope: &Scope, digest: &Digest) -> Result<Vec<u8>, StoreError> {
        let (path, digest) = (self.path(scope, digest), *digest);
        off_the_runtime(move || {
            let content = fs::read(&path).map_err(|error| {
                if error.kind() == ErrorKind::NotFound {
                    StoreError::BlobMissing { digest, path: path.clone() }
                } else {
                    from_io(&path, error)
                }
            })?;
            let found = Digest::of(&content);
            if found == digest { Ok(content) } else { Err(StoreError::BlobDamaged { digest, found, path }) }
        })
        .await
    }

    /// Where the content of this digest is kept, for a reader that only links to it (a report). Not verified.
    #[must_use]
    pub fn path(&self, scope: &Scope, digest: &Digest) -> PathBuf {
        let hex = digest.hex();
        let (head, _) = hex.split_at(2);
        self.dir.join(scope.tenant.as_str()).join(head).join(&hex)
    }

    fn write(&self, scope: &Scope, content: &[u8]) -> Result<Digest, StoreError> {
        let bytes = content.len() as u64;
        if bytes > self.bytes_max {
            return Err(StoreError::BlobTooLarge { bytes, bytes_max: self.bytes_max });
        }
        let digest = Digest::of(content);
        let path = self.path(scope, &digest);
        if fs::metadata(&path).is_ok_and(|found| found.len() == bytes) {
            return Ok(digest);
        }
        let temporary = path.with_extension(format!("tmp-{}", self.context.ambient.ids.body()));
        let dir = path.parent().unwrap_or(&self.dir);
        make_dir(dir, &self.dir)?;
        let written = write_synced(&temporary, content).and_then(|()| fs::rename(&temporary, &path));
        if let Err(error) = written {
            // The half-written file is of no use; that it cannot be removed is the lesser trouble.
            let _ = fs::remove_file(&temporary);
            return Err(from_io(&path, error));
        }
        sync_dir(dir)?;
        Ok(digest)
    }
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

fn sync_dir(dir: &Path) -> Result<(), StoreError> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(|error| from_io(dir, error))
}

/// Runs file work on a thread that may block.
pub(crate) async fn off_the_runtime<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(outcome) => outcome,
        Err(error) => Err(StoreError::Panicked { message: error.to_string() }),
    }
}

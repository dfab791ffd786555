//! Content-addressed files beside the database, one folder a tenant; or the same in memory, or in rows.
//!
//! It owns the files' names, durability and integrity; who refers to a blob is the caller's business, and deleting
//! unreferenced ones comes with retention. Invariant: a digest that `put` has returned names a file whose whole
//! content is on the disk, whatever happens next; `get` never returns other bytes.

use std::{
    collections::HashMap,
    fs::{self, DirBuilder, File, OpenOptions},
    io::{ErrorKind, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use longhaul_core::{Digest, Scope, TenantId};

use crate::{Faults, Store, StoreError, error::from_io, postgres::blobs as rows, store::WeakStore, tx::Context};

/// The blobs of a store. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Blobs {
    shelf: Shelf,
    bytes_max: u64,
    context: Arc<Context>,
    faults: Option<Faults>,
}

#[derive(Debug, Clone)]
enum Shelf {
    Folder(PathBuf),
    Memory(Arc<Mutex<InMemory>>),
    /// Rows of the store itself, which may be gone while somebody still holds its blobs.
    Rows(WeakStore),
}

type InMemory = HashMap<(TenantId, Digest), Vec<u8>>;

impl Blobs {
    pub(crate) fn in_folder(dir: PathBuf, bytes_max: u64, context: Arc<Context>, faults: Option<Faults>) -> Self {
        Self { shelf: Shelf::Folder(dir), bytes_max, context, faults }
    }

    pub(crate) fn in_memory(bytes_max: u64, context: Arc<Context>, faults: Option<Faults>) -> Self {
        Self { shelf: Shelf::Memory(Arc::default()), bytes_max, context, faults }
    }

    pub(crate) fn in_rows(store: WeakStore, bytes_max: u64, context: Arc<Context>, faults: Option<Faults>) -> Self {
        Self { shelf: Shelf::Rows(store), bytes_max, context, faults }
    }

    /// Stores the content and gives its digest. Storing the same content again costs nothing.
    ///
    /// # Errors
    /// [`StoreError::BlobTooLarge`], [`StoreError::DiskFull`], [`StoreError::Io`].
    pub async fn put(&self, scope: &Scope, content: impl Into<Vec<u8>>) -> Result<Digest, StoreError> {
        let content = content.into();
        self.check_alive()?;
        let bytes = content.len() as u64;
        if bytes > self.bytes_max {
            return Err(StoreError::BlobTooLarge { bytes, bytes_max: self.bytes_max });
        }
        match &self.shelf {
            Shelf::Folder(dir) => {
                let (blobs, scope, dir) = (self.clone(), scope.clone(), dir.clone());
                off_the_runtime(move || blobs.write(&dir, &scope, &content)).await
            }
            Shelf::Memory(shelf) => {
                let digest = Digest::of(&content);
                lock(shelf).entry((scope.tenant.clone(), digest)).or_insert(content);
                Ok(digest)
            }
            Shelf::Rows(store) => {
                let (store, digest, scope) = (self.open_store(store)?, Digest::of(&content), scope.clone());
                let reader = scope.clone();
                if !store.read(move |read| rows::has(read, &reader, &digest)).await? {
                    store.write(move |tx| rows::put(tx, &scope, &digest, content)).await?;
                }
                Ok(digest)
            }
        }
    }

    fn open_store(&self, store: &WeakStore) -> Result<Store, StoreError> {
        store.upgrade().ok_or_else(|| StoreError::Closed { path: self.context.path.clone() })
    }

    /// The content of this digest, verified.
    ///
    /// # Errors
    /// [`StoreError::BlobMissing`], [`StoreError::BlobDamaged`], [`StoreError::Io`].
    pub async fn get(&self, scope: &Scope, digest: &Digest) -> Result<Vec<u8>, StoreError> {
        self.check_alive()?;
        let (path, digest) = (self.path(scope, digest), *digest);
        if let Shelf::Memory(shelf) = &self.shelf {
            let found = lock(shelf).get(&(scope.tenant.clone(), digest)).cloned();
            return found.ok_or(StoreError::BlobMissing { digest, path });
        }
        if let Shelf::Rows(store) = &self.shelf {
            let (store, scope) = (self.open_store(store)?, scope.clone());
            let content = store.read(move |read| rows::get(read, &scope, &digest)).await?;
            return verified(
                content.ok_or_else(|| StoreError::BlobMissing { digest, path: path.clone() })?,
                digest,
                path,
            );
        }
        off_the_runtime(move || {
            let content = fs::read(&path).map_err(|error| {
                if error.kind() == ErrorKind::NotFound {
                    StoreError::BlobMissing { digest, path: path.clone() }
                } else {
                    from_io(&path, error)
                }
            })?;
            verified(content, digest, path)
        })
        .await
    }

    /// Where the content of this digest is kept, for a reader that only links to it (a report). Not verified. In
    /// memory and on PostgreSQL, where there are no files, it names none.
    #[must_use]
    pub fn path(&self, scope: &Scope, digest: &Digest) -> PathBuf {
        let hex = digest.hex();
        let (head, _) = hex.split_at(2);
        let dir = match &self.shelf {
            Shelf::Folder(dir) => dir.as_path(),
            Shelf::Memory(_) | Shelf::Rows(_) => &self.context.path,
        };
        dir.join(scope.tenant.as_str()).join(head).join(&hex)
    }

    fn check_alive(&self) -> Result<(), StoreError> {
        self.faults.as_ref().map_or(Ok(()), |faults| faults.check_alive(&self.context.path))
    }

    fn write(&self, root: &Path, scope: &Scope, content: &[u8]) -> Result<Digest, StoreError> {
        let digest = Digest::of(content);
        let path = self.path(scope, &digest);
        if fs::metadata(&path).is_ok_and(|found| found.len() == content.len() as u64) {
            return Ok(digest);
        }
        let temporary = path.with_extension(format!("tmp-{}", self.context.ambient.ids.body()));
        let dir = path.parent().unwrap_or(root);
        make_dir(dir, root)?;
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

fn verified(content: Vec<u8>, digest: Digest, path: PathBuf) -> Result<Vec<u8>, StoreError> {
    let found = Digest::of(&content);
    if found == digest { Ok(content) } else { Err(StoreError::BlobDamaged { digest, found, path }) }
}

fn lock(shelf: &Mutex<InMemory>) -> std::sync::MutexGuard<'_, InMemory> {
    shelf.lock().unwrap_or_else(PoisonError::into_inner)
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

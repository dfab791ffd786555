//! Content by its digest, apart for each tenant: on the disk beside the database, in memory, or in rows.
//!
//! It owns what may be put and that what is got was put; where the bytes are is `shelf`'s. Who refers to a blob stands
//! in `references`. Invariant: a digest that `put` has returned names content that is wholly on the disk, whatever
//! happens next; `get` never returns other bytes.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use longhaul_core::{Digest, Scope, TenantId, TimeMs};

use crate::{
    Faults, Store, StoreError,
    postgres::blobs as rows,
    shelf::{Folder, Kept, SweepLock},
    store::WeakStore,
    tx::Context,
};

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
    Folder(Folder),
    Memory(Arc<Mutex<InMemory>>),
    /// Rows of the store itself, which may be gone while somebody still holds its blobs.
    Rows(WeakStore),
}

/// Contents, each with the time at which it was last put.
type InMemory = HashMap<(TenantId, Digest), (Vec<u8>, TimeMs)>;

impl Blobs {
    /// In this folder of a store: `blobs/` for the contents, `locks/` for the locks.
    pub(crate) fn in_folder(
        store: impl Into<PathBuf>,
        bytes_max: u64,
        context: Arc<Context>,
        faults: Option<Faults>,
    ) -> Self {
        Self { shelf: Shelf::Folder(Folder::new(store.into())), bytes_max, context, faults }
    }

    pub(crate) fn in_memory(bytes_max: u64, context: Arc<Context>, faults: Option<Faults>) -> Self {
        Self { shelf: Shelf::Memory(Arc::default()), bytes_max, context, faults }
    }

    pub(crate) fn in_rows(store: WeakStore, bytes_max: u64, context: Arc<Context>, faults: Option<Faults>) -> Self {
        Self { shelf: Shelf::Rows(store), bytes_max, context, faults }
    }

    /// Stores the content and gives its digest. Content that is there already is not written again. The row that
    /// refers to it is to be committed within the grace time of [`crate::Store::sweep_blobs`].
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
        let tenant = scope.tenant.clone();
        match &self.shelf {
            Shelf::Folder(folder) => {
                let (folder, unique) = (folder.clone(), self.context.ambient.ids.body());
                off_the_runtime(move || folder.put(&tenant, &content, &unique)).await
            }
            Shelf::Memory(shelf) => {
                let (digest, now) = (Digest::of(&content), self.context.ambient.clock.now());
                lock(shelf).insert((tenant, digest), (content, now));
                Ok(digest)
            }
            Shelf::Rows(store) => {
                let (store, digest, reader) = (self.open_store(store)?, Digest::of(&content), tenant.clone());
                if !store.read(move |read| rows::is_fresh(read, &reader, &digest)).await? {
                    store.write(move |tx| rows::put(tx, &tenant, &digest, content)).await?;
                }
                Ok(digest)
            }
        }
    }

    /// The content of this digest, verified.
    ///
    /// # Errors
    /// [`StoreError::BlobMissing`], [`StoreError::BlobDamaged`], [`StoreError::Io`].
    pub async fn get(&self, scope: &Scope, digest: &Digest) -> Result<Vec<u8>, StoreError> {
        self.check_alive()?;
        let (blobs, tenant, digest) = (self.clone(), scope.tenant.clone(), *digest);
        match self.shelf {
            Shelf::Folder(_) | Shelf::Rows(_) => off_the_runtime(move || blobs.get_now(&tenant, &digest)).await,
            Shelf::Memory(_) => self.get_now(&tenant, &digest),
        }
    }

    /// Where the content of this digest is kept, for a reader that only links to it (a report). Not verified. In
    /// memory and on PostgreSQL, where there are no files, it names none.
    #[must_use]
    pub fn path(&self, scope: &Scope, digest: &Digest) -> PathBuf {
        self.path_of(&scope.tenant, digest)
    }

    fn path_of(&self, tenant: &TenantId, digest: &Digest) -> PathBuf {
        match &self.shelf {
            Shelf::Folder(folder) => folder.path(tenant, digest),
            Shelf::Memory(_) | Shelf::Rows(_) => self.context.path.join(tenant.as_str()).join(digest.hex()),
        }
    }

    fn open_store(&self, store: &WeakStore) -> Result<Store, StoreError> {
        store.upgrade().ok_or_else(|| StoreError::Closed { path: self.context.path.clone() })
    }

    /// Verified content, blocking.
    pub(crate) fn get_now(&self, tenant: &TenantId, digest: &Digest) -> Result<Vec<u8>, StoreError> {
        match &self.shelf {
            Shelf::Folder(folder) => folder.get(tenant, digest),
            Shelf::Memory(shelf) => {
                let found = lock(shelf).get(&(tenant.clone(), *digest)).map(|(content, _)| content.clone());
                found.ok_or_else(|| self.missing(tenant, digest))
            }
            Shelf::Rows(store) => {
                let content = self.open_store(store)?.read_now(|read| rows::get(read, tenant, digest))?;
                let content = content.ok_or_else(|| self.missing(tenant, digest))?;
                let (found, path) = (Digest::of(&content), self.path_of(tenant, digest));
                if found == *digest {
                    Ok(content)
                } else {
                    Err(StoreError::BlobDamaged { digest: *digest, found, path })
                }
            }
        }
    }

    fn missing(&self, tenant: &TenantId, digest: &Digest) -> StoreError {
        StoreError::BlobMissing { digest: *digest, path: self.path_of(tenant, digest) }
    }

    /// Everything that is kept, in no order.
    pub(crate) fn list(&self) -> Result<Vec<Kept>, StoreError> {
        match &self.shelf {
            Shelf::Folder(folder) => folder.list(),
            Shelf::Memory(shelf) => Ok(lock(shelf)
                .iter()
                .map(|((tenant, digest), (content, put_at))| Kept::Blob {
                    tenant: tenant.clone(),
                    digest: *digest,
                    path: self.path_of(tenant, digest),
                    bytes: content.len() as u64,
                    put_at: *put_at,
                })
                .collect()),
            Shelf::Rows(store) => self.open_store(store)?.read_now(rows::list),
        }
    }

    /// Now, by the clock that stamps what is put.
    pub(crate) fn now(&self) -> Result<TimeMs, StoreError> {
        match &self.shelf {
            Shelf::Folder(folder) => folder.now(),
            Shelf::Memory(_) | Shelf::Rows(_) => Ok(self.context.ambient.clock.now()),
        }
    }

    /// Removes it, unless it has been put again at or after `before`. Rows are removed in a transaction and not here.
    pub(crate) fn remove(&self, kept: &Kept, before: TimeMs) -> Result<bool, StoreError> {
        match (&self.shelf, kept) {
            (Shelf::Folder(folder), kept) => folder.remove(kept.path(), before),
            (Shelf::Memory(shelf), Kept::Blob { tenant, digest, .. }) => {
                let mut shelf = lock(shelf);
                let key = (tenant.clone(), *digest);
                let is_old = shelf.get(&key).is_some_and(|(_, put_at)| *put_at < before);
                Ok(is_old && shelf.remove(&key).is_some())
            }
            (Shelf::Memory(_), Kept::Leftover { .. } | Kept::Stranger { .. }) | (Shelf::Rows(_), _) => Ok(false),
        }
    }

    /// Keeps every blob from being swept while the lock is held; others may do the same.
    pub(crate) fn keep_all(&self) -> Result<SweepLock, StoreError> {
        match &self.shelf {
            Shelf::Folder(folder) => folder.sweep_lock(rustix::fs::FlockOperation::LockShared),
            Shelf::Memory(_) | Shelf::Rows(_) => Ok(SweepLock::default()),
        }
    }

    /// Waits until nobody needs every blob, and keeps it so.
    pub(crate) fn may_sweep(&self) -> Result<SweepLock, StoreError> {
        match &self.shelf {
            Shelf::Folder(folder) => folder.sweep_lock(rustix::fs::FlockOperation::LockExclusive),
            Shelf::Memory(_) | Shelf::Rows(_) => Ok(SweepLock::default()),
        }
    }

    fn check_alive(&self) -> Result<(), StoreError> {
        self.faults.as_ref().map_or(Ok(()), |faults| faults.check_alive(&self.context.path))
    }
}

fn lock(shelf: &Mutex<InMemory>) -> MutexGuard<'_, InMemory> {
    shelf.lock().unwrap_or_else(PoisonError::into_inner)
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

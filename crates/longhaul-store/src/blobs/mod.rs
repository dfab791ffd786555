//! Content by its digest, apart for each tenant: on the disk beside the database, in memory, in rows, or in a bucket.
//!
//! It owns what may be put and that what is got was put; where the bytes are is `shelf`'s. Who refers to a blob stands
//! in `references`. Invariant: a digest that `put` has returned names content that is wholly on the disk, whatever
//! happens next; `get` never returns other bytes.

pub(crate) mod encoding;
mod memory;
pub(crate) mod stream;

use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    sync::Arc,
};

use longhaul_core::{Digest, Scope, TenantId, TimeMs};
use tokio::io::AsyncRead;

use crate::{
    Faults, Store, StoreError,
    bucket::{self, Bucket},
    error::from_io,
    postgres::blobs as rows,
    shelf::{Folder, Kept, SweepLock, sync_dir},
    store::WeakStore,
    tx::Context,
};
use encoding::{Encoding, SAMPLE_BYTES, Stored, Verified};
use memory::InMemory;
use stream::{BlobReader, Content, PIECE_BYTES, Piece, Sink, Writing};

/// Most that is given whole.
const WHOLE_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// The blobs of a store. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Blobs {
    shelf: Shelf,
    /// Where content goes in place of the shelf, and is looked for first.
    bucket: Option<Bucket>,
    /// To see whether what the shelf does not have is in a bucket.
    store: Option<WeakStore>,
    bytes_max: u64,
    context: Arc<Context>,
    faults: Option<Faults>,
}

#[derive(Debug, Clone)]
enum Shelf {
    Folder(Folder),
    Memory(InMemory),
    /// Rows of the store itself, which may be gone while somebody still holds its blobs.
    Rows(WeakStore),
}

impl Blobs {
    /// In this folder of a store: `blobs/` for the contents, `locks/` for the locks.
    pub(crate) fn in_folder(
        store: impl Into<PathBuf>,
        bytes_max: u64,
        context: Arc<Context>,
        faults: Option<Faults>,
    ) -> Self {
        Self { shelf: Shelf::Folder(Folder::new(store.into())), bucket: None, store: None, bytes_max, context, faults }
    }

    pub(crate) fn in_memory(bytes_max: u64, context: Arc<Context>, faults: Option<Faults>) -> Self {
        Self { shelf: Shelf::Memory(InMemory::default()), bucket: None, store: None, bytes_max, context, faults }
    }

    pub(crate) fn in_rows(store: WeakStore, bytes_max: u64, context: Arc<Context>, faults: Option<Faults>) -> Self {
        Self { shelf: Shelf::Rows(store), bucket: None, store: None, bytes_max, context, faults }
    }

    /// Those of this store, which keeps them in this bucket if there is one.
    pub(crate) fn of(self, store: WeakStore, bucket: Option<Bucket>) -> Self {
        Self { bucket, store: Some(store), ..self }
    }

    /// Stores the content and gives its digest. Content that is there already is not written again. The row that
    /// refers to it is to be committed within the grace time of [`crate::Store::sweep_blobs`].
    ///
    /// # Errors
    /// [`StoreError::BlobTooLarge`], [`StoreError::DiskFull`], [`StoreError::Io`].
    pub async fn put(&self, scope: &Scope, content: impl Into<Vec<u8>>) -> Result<Digest, StoreError> {
        let content = content.into();
        self.check_alive()?;
        self.check_size(content.len() as u64)?;
        let tenant = scope.tenant.clone();
        if self.bucket.is_some() {
            return self.put_now(tenant, content).await;
        }
        match &self.shelf {
            Shelf::Folder(folder) => {
                let (folder, unique) = (folder.clone(), self.context.ambient.ids.body());
                off_the_runtime(move || folder.put(&tenant, &content, &unique)).await
            }
            Shelf::Memory(shelf) => {
                let digest = Digest::of(&content);
                shelf.put(tenant, digest, content, self.context.ambient.clock.now());
                Ok(digest)
            }
            Shelf::Rows(store) if content.len() <= rows::INLINE_BYTES_MAX => {
                let (store, digest) = (self.open_store(store)?, Digest::of(&content));
                if !rows::refreshed(&store, &tenant, &digest).await? {
                    store.write(move |tx| rows::put(tx, &tenant, &digest, &content)).await?;
                }
                Ok(digest)
            }
            Shelf::Rows(store) => {
                let (store, digest) = (self.open_store(store)?, Digest::of(&content));
                if rows::refreshed(&store, &tenant, &digest).await? {
                    return Ok(digest);
                }
                self.put_now(tenant, content).await
            }
        }
    }

    /// Stores the content as if it came in pieces.
    async fn put_now(&self, tenant: TenantId, content: Vec<u8>) -> Result<Digest, StoreError> {
        let blobs = self.clone();
        off_the_runtime(move || {
            let mut writing = blobs.writing(&tenant, Encoding::for_file(&content))?;
            content.chunks(PIECE_BYTES).try_for_each(|piece| writing.add(piece))?;
            Ok(writing.finish(tenant)?.digest)
        })
        .await
    }

    /// Stores what the reader gives, in pieces, and gives its digest and its size in bytes. However much it is, about
    /// two megabytes of it are in memory at a time. What is not read to its end leaves nothing: dropping the future, too.
    /// For the rest it is as [`Self::put`].
    ///
    /// # Errors
    /// Those of [`Self::put`]; [`StoreError::BlobInterrupted`] when the reader fails.
    pub async fn put_stream(
        &self,
        scope: &Scope,
        mut reader: impl AsyncRead + Unpin,
    ) -> Result<(Digest, u64), StoreError> {
        self.check_alive()?;
        let failed = |error: std::io::Error| StoreError::BlobInterrupted { source: Arc::new(error) };
        let beginning = stream::next_piece(&mut reader, PIECE_BYTES).await.map_err(failed)?;
        let mut bytes = beginning.len() as u64;
        if beginning.len() < PIECE_BYTES {
            return Ok((self.put(scope, beginning).await?, bytes));
        }
        self.check_size(bytes)?;
        let encoding = Encoding::for_file(&beginning[..SAMPLE_BYTES]);
        let (sender, pieces) = stream::channel();
        let (blobs, tenant) = (self.clone(), scope.tenant.clone());
        let written = tokio::task::spawn_blocking(move || {
            let writing = blobs.writing(&tenant, encoding)?;
            stream::write_pieces(writing, pieces, tenant)
        });
        let feed = async {
            let mut piece = beginning;
            // Whoever writes has ended early only by an error, which it tells below.
            while sender.send(Piece::Bytes(piece)).await.is_ok() {
                piece = stream::next_piece(&mut reader, PIECE_BYTES).await.map_err(failed)?;
                bytes += piece.len() as u64;
                self.check_size(bytes)?;
                if piece.is_empty() {
                    let _ = sender.send(Piece::End).await;
                    break;
                }
            }
            Ok(())
        };
        let fed: Result<(), StoreError> = feed.await;
        drop(sender);
        // It has cleared away by then what is not to be kept.
        let written = written.await;
        fed?;
        match written {
            Ok(Ok(Some(Content { digest, bytes, .. }))) => Ok((digest, bytes)),
            Ok(Ok(None)) => Err(self.closed()),
            Ok(Err(error)) => Err(error),
            Err(error) => Err(StoreError::Panicked { message: error.to_string() }),
        }
    }

    /// Where content of this tenant goes. Used on a thread that may block.
    fn writing(&self, tenant: &TenantId, encoding: Encoding) -> Result<Writing, StoreError> {
        let unique = self.context.ambient.ids.body();
        if let Some(bucket) = &self.bucket {
            return Writing::new(bucket.incoming(&unique)?, encoding, self.context.path.clone());
        }
        let (sink, encoding): (Box<dyn Sink>, _) = match &self.shelf {
            Shelf::Folder(folder) => (Box::new(folder.incoming(&unique)?), encoding),
            Shelf::Memory(shelf) => (shelf.sink(self.context.ambient.clock.now()), Encoding::Raw),
            Shelf::Rows(store) => {
                let upload = rows::Upload::new(store.clone(), self.context.path.clone(), tenant.clone(), unique);
                (Box::new(upload), encoding)
            }
        };
        Writing::new(sink, encoding, self.context.path.clone())
    }

    fn check_size(&self, bytes: u64) -> Result<(), StoreError> {
        let bytes_max = self.bytes_max;
        if bytes > bytes_max { Err(StoreError::BlobTooLarge { bytes, bytes_max }) } else { Ok(()) }
    }

    /// The content of this digest, verified. At most 256 MiB; more is read with [`Self::open`].
    ///
    /// # Errors
    /// [`StoreError::BlobMissing`], [`StoreError::BlobDamaged`], [`StoreError::BlobNotWhole`], [`StoreError::Io`].
    pub async fn get(&self, scope: &Scope, digest: &Digest) -> Result<Vec<u8>, StoreError> {
        self.check_alive()?;
        let (blobs, tenant, digest) = (self.clone(), scope.tenant.clone(), *digest);
        match self.shelf {
            Shelf::Folder(_) | Shelf::Rows(_) => off_the_runtime(move || blobs.get_now(&tenant, &digest)).await,
            Shelf::Memory(_) => self.get_now(&tenant, &digest),
        }
    }

    /// The content of this digest in pieces, verified at the end: the last piece comes only when everything before it
    /// and itself had the right digest.
    ///
    /// # Errors
    /// [`StoreError::BlobMissing`], [`StoreError::Io`]; the rest is told by the reader.
    pub async fn open(&self, scope: &Scope, digest: &Digest) -> Result<BlobReader, StoreError> {
        self.check_alive()?;
        let (blobs, tenant, digest) = (self.clone(), scope.tenant.clone(), *digest);
        let content = off_the_runtime(move || blobs.verified_now(&tenant, &digest)).await?;
        Ok(BlobReader::new(content))
    }

    /// Writes the content of this digest into a file, verified, for programs that read files: it has its name when it
    /// is whole, and replaces what had that name. Its folder must exist.
    ///
    /// # Errors
    /// Those of [`Self::get`] and of writing.
    pub async fn save(&self, scope: &Scope, digest: &Digest, to: &Path) -> Result<(), StoreError> {
        self.check_alive()?;
        let unique = self.context.ambient.ids.body();
        let (blobs, tenant, digest, to) = (self.clone(), scope.tenant.clone(), *digest, to.to_owned());
        off_the_runtime(move || {
            let mut content = blobs.verified_now(&tenant, &digest)?;
            let half = to.with_extension(format!("tmp-{unique}"));
            let mut write = || -> Result<(), StoreError> {
                let wrong = |error| from_io(&half, error);
                let (mut file, mut piece) = (File::create_new(&half).map_err(wrong)?, vec![0; PIECE_BYTES]);
                loop {
                    let read = content.read(&mut piece)?;
                    file.write_all(&piece[..read]).map_err(wrong)?;
                    if read < piece.len() {
                        break;
                    }
                }
                file.sync_all().and_then(|()| fs::rename(&half, &to)).map_err(wrong)?;
                to.parent().filter(|dir| !dir.as_os_str().is_empty()).map_or(Ok(()), sync_dir)
            };
            write().inspect_err(|_| drop(fs::remove_file(&half)))
        })
        .await
    }

    /// The file in which the content of this digest lies as it is. There is none where content lies compressed, in
    /// memory, in rows or in a bucket: [`Self::save`] gives a file wherever it lies. Not verified.
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
        store.upgrade().ok_or_else(|| self.closed())
    }

    fn closed(&self) -> StoreError {
        StoreError::Closed { path: self.context.path.clone() }
    }

    /// Content as it lies, blocking.
    pub(crate) fn stored_now(&self, tenant: &TenantId, digest: &Digest) -> Result<Stored, StoreError> {
        if let Some(bucket) = &self.bucket
            && let Some(stored) = bucket.stored(tenant, digest)?
        {
            return Ok(stored);
        }
        let path = self.path_of(tenant, digest);
        let stored = match &self.shelf {
            Shelf::Folder(folder) => folder.stored(tenant, digest)?,
            Shelf::Memory(shelf) => shelf.stored(tenant, digest, path.clone()),
            Shelf::Rows(store) => rows::stored(&self.open_store(store)?, tenant, digest, path.clone())?,
        };
        stored.map_or_else(|| Err(self.missing(tenant, digest, path)), Ok)
    }

    /// Content that is not where it is looked for may be in a bucket that this process does not know.
    fn missing(&self, tenant: &TenantId, digest: &Digest, path: PathBuf) -> StoreError {
        let elsewhere = self.store.as_ref().and_then(WeakStore::upgrade).and_then(|store| {
            store.read_now(|read| bucket::find(read, tenant, digest)).ok().flatten().map(|row| row.place().to_owned())
        });
        match elsewhere {
            Some(place) => StoreError::BlobElsewhere { digest: *digest, place },
            None => StoreError::BlobMissing { digest: *digest, path },
        }
    }

    pub(crate) fn verified_now(&self, tenant: &TenantId, digest: &Digest) -> Result<Verified, StoreError> {
        Verified::new(self.stored_now(tenant, digest)?, *digest)
    }

    /// Verified content, blocking.
    pub(crate) fn get_now(&self, tenant: &TenantId, digest: &Digest) -> Result<Vec<u8>, StoreError> {
        self.verified_now(tenant, digest)?.whole(WHOLE_BYTES_MAX)
    }

    /// Reads all of it and keeps nothing, blocking.
    pub(crate) fn check_now(&self, tenant: &TenantId, digest: &Digest) -> Result<(), StoreError> {
        self.verified_now(tenant, digest)?.check()
    }

    /// Everything that is kept, in no order.
    pub(crate) fn list(&self) -> Result<Vec<Kept>, StoreError> {
        let mut kept = self.list_shelf()?;
        if let Some(bucket) = &self.bucket {
            kept.extend(bucket.list()?);
        }
        Ok(kept)
    }

    /// What is kept on the shelf alone.
    pub(crate) fn list_shelf(&self) -> Result<Vec<Kept>, StoreError> {
        match &self.shelf {
            Shelf::Folder(folder) => folder.list(),
            Shelf::Memory(shelf) => Ok(shelf.list(|tenant, digest| self.path_of(tenant, digest))),
            Shelf::Rows(store) => self.open_store(store)?.read_now(rows::list),
        }
    }

    pub(crate) fn bucket(&self) -> Option<&Bucket> {
        self.bucket.as_ref()
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
            (Shelf::Memory(shelf), Kept::Blob { tenant, digest, .. }) => Ok(shelf.remove(tenant, digest, before)),
            (Shelf::Memory(_), Kept::Leftover { .. } | Kept::Stranger { .. }) | (Shelf::Rows(_), _) => Ok(false),
        }
    }

    /// Removes what dead processes of this machine have left half written.
    pub(crate) fn remove_abandoned(&self) -> Result<u64, StoreError> {
        match (&self.shelf, &self.bucket) {
            (Shelf::Folder(folder), _) => folder.remove_abandoned(),
            (Shelf::Rows(_), Some(bucket)) => bucket.remove_abandoned(),
            (Shelf::Memory(_) | Shelf::Rows(_), _) => Ok(0),
        }
    }

    /// Removes what nobody refers to, unless it has been put again at or after the given time; blocking. Tells whether
    /// nothing of it is left.
    pub(crate) fn erase(&self, tenant: &TenantId, digest: &Digest, before: TimeMs) -> Result<bool, StoreError> {
        let mut is_gone = true;
        match &self.shelf {
            Shelf::Folder(folder) => {
                for encoding in [Encoding::Raw, Encoding::Zstd] {
                    let path = folder.encoded_path(tenant, digest, encoding);
                    is_gone &= folder.remove(&path, before)? || !path.exists();
                }
            }
            Shelf::Memory(shelf) => {
                is_gone =
                    shelf.remove(tenant, digest, before) || shelf.stored(tenant, digest, PathBuf::new()).is_none();
            }
            Shelf::Rows(store) => {
                let (store, tenant, digest) = (self.open_store(store)?, tenant.clone(), *digest);
                is_gone = futures::executor::block_on(store.write(move |tx| {
                    Ok(rows::remove(tx, &tenant, &digest, before)? || !rows::is_there(tx, &tenant, &digest)?)
                }))
                .map_err(|error: StoreError| error)?;
            }
        }
        if let Some(bucket) = &self.bucket {
            bucket.remove(&[(tenant.clone(), *digest, before)])?;
        }
        if let Some(store) = self.store.as_ref().and_then(WeakStore::upgrade) {
            is_gone &= store.read_now(|read| bucket::find(read, tenant, digest))?.is_none();
        }
        Ok(is_gone)
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

/// Runs file work on a thread that may block.
pub(crate) async fn off_the_runtime<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(outcome) => outcome,
        Err(error) => Err(StoreError::Panicked { message: error.to_string() }),
    }
}

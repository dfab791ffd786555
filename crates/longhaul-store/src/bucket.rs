//! Blobs in a bucket of an S3-compatible service.
//!
//! Which object holds a digest stands in a row of the store, and an object's key is never used again. So whoever puts,
//! reads and sweeps, on whatever machine, agrees by transactions, and the bucket need not know of time or of locks.
//! It owns the objects and these rows. Invariants: a row names an object that is whole; an object that no row of
//! `blob_objects` names stands in `blob_uploads` from before it was written until it has been deleted.

use std::{
    fs::File,
    io::{Error, Read, Write},
    os::unix::fs::FileExt,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use longhaul_core::{Digest, TenantId, TimeMs};
use object_store::{ObjectStore, ObjectStoreExt, PutPayload, path::Path};
use tokio::runtime::Handle;

use crate::{
    ReadTx, Store, StoreError, Tx,
    blobs::{
        encoding::{Encoding, Stored},
        stream::{Content, Sink},
    },
    error::from_io,
    postgres::blobs::enter,
    s3::{self, S3Limits, S3Place},
    shelf::{Folder, Incoming, Kept},
    store::WeakStore,
    values,
};

/// Bytes of one request: of a part that is uploaded, or of a range that is read.
const PART_BYTES: u64 = 8 * 1024 * 1024;

/// An open bucket. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Bucket {
    objects: Arc<dyn ObjectStore>,
    place: Arc<S3Place>,
    /// What may be shown of it, and what rows call it.
    name: Arc<str>,
    store: WeakStore,
    /// Content is written here until its digest, and so its key, is known.
    spool: Folder,
}

/// Where a digest's content is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    place: String,
    object: String,
    encoding: String,
    stored: u64,
    put_at: TimeMs,
}

impl Bucket {
    /// Opens it; it is not asked for anything yet.
    pub(crate) fn open(place: &S3Place, store: WeakStore, spool: PathBuf) -> Result<Self, StoreError> {
        let objects = s3::open(place, S3Limits::default())?;
        let (name, place) = (place.to_string().into(), Arc::new(place.clone()));
        Ok(Self { objects, place, name, store, spool: Folder::new(spool) })
    }

    fn store(&self) -> Result<Store, StoreError> {
        self.store.upgrade().ok_or_else(|| StoreError::Closed { path: self.shown("") })
    }

    fn shown(&self, object: &str) -> PathBuf {
        PathBuf::from(format!("{}/{object}", self.name))
    }

    fn key(&self, object: &str) -> Path {
        let prefix = &self.place.prefix;
        if prefix.is_empty() { Path::from(object) } else { Path::from(format!("{prefix}/{object}")) }
    }

    /// Runs a request from a thread that may block.
    fn ask<T>(
        &self,
        object: &str,
        request: impl Future<Output = Result<T, object_store::Error>>,
    ) -> Result<T, StoreError> {
        let runtime = Handle::try_current().map_err(|_| StoreError::Closed { path: self.shown(object) })?;
        let limit = Duration::from_millis(S3Limits::default().call_ms_max);
        let outcome = runtime.block_on(async { tokio::time::timeout(limit, request).await });
        let problem = match outcome {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error @ object_store::Error::NotFound { .. })) if !error.to_string().contains("NoSuchBucket") => {
                return Err(StoreError::ObjectMissing { path: self.shown(object) });
            }
            Ok(Err(error)) => innermost(&error),
            Err(_) => format!("no answer within {} ms", limit.as_millis()),
        };
        Err(StoreError::Bucket { place: self.name.to_string(), problem })
    }

    /// Something that is to become an object.
    pub(crate) fn incoming(&self, unique: &str) -> Result<Box<dyn Sink>, StoreError> {
        let incoming = self.spool.incoming(unique)?;
        Ok(Box::new(Spooled { bucket: self.clone(), incoming, stored: 0, unique: unique.to_owned() }))
    }

    /// What dead processes of this machine have left in the folder that content goes through.
    pub(crate) fn remove_abandoned(&self) -> Result<u64, StoreError> {
        self.spool.remove_abandoned()
    }

    /// The content as it lies there, if a row says that it does. Blocks its thread, and so does the reader.
    pub(crate) fn stored(&self, tenant: &TenantId, digest: &Digest) -> Result<Option<Stored>, StoreError> {
        let Some(row) = self.store()?.read_now(|read| find(read, tenant, digest))? else { return Ok(None) };
        if row.place != *self.name {
            return Err(StoreError::BlobElsewhere { digest: *digest, place: row.place });
        }
        let path = self.shown(&row.object);
        let Some(encoding) = Encoding::parse(&row.encoding) else {
            return Err(StoreError::BlobDamaged { digest: *digest, found: Digest::of([]), path });
        };
        let mut ranges = Ranges { bucket: self.clone(), row, digest: *digest, at: 0, read: Vec::new(), from: 0 };
        // Whether it is there at all is told before anything of it is used.
        ranges.next().map_err(|error| crate::blobs::encoding::from_stream(&path, error))?;
        Ok(Some(Stored { reader: Box::new(ranges), encoding, path }))
    }

    /// Whether content that is there already need not be written again; then it is as if it had just been put.
    fn refreshed(&self, content: &Content) -> Result<bool, StoreError> {
        let (store, Content { tenant, digest, .. }) = (self.store()?, content);
        let Some(row) = store.read_now(|read| find(read, tenant, digest))? else { return Ok(false) };
        if row.place != *self.name || row.encoding != content.encoding.name() {
            return Ok(false);
        }
        match self.ask(&row.object, self.objects.head(&self.key(&row.object))) {
            Ok(found) if found.size == row.stored => {}
            Ok(_) | Err(StoreError::ObjectMissing { .. }) => return Ok(false),
            Err(error) => return Err(error),
        }
        let (tenant, digest) = (tenant.clone(), *digest);
        transact(&store, move |tx| {
            let now = tx.now();
            let sql = "UPDATE blob_objects SET put_at = ?4 WHERE tenant_id = ?1 AND digest = ?2 AND object = ?3";
            Ok(tx.execute(sql, &values![&tenant, &digest, &row.object, now])? == 1)
        })
    }

    /// Uploads a file, in parts if it is large.
    fn upload(&self, object: &str, file: &File, bytes: u64, local: &std::path::Path) -> Result<(), StoreError> {
        let part = |at: u64| -> Result<PutPayload, StoreError> {
            let mut part = vec![0; usize::try_from(PART_BYTES.min(bytes - at)).unwrap_or(0)];
            file.read_exact_at(&mut part, at).map_err(|error| from_io(local, error))?;
            Ok(part.into())
        };
        let key = self.key(object);
        if bytes <= PART_BYTES {
            return self.ask(object, self.objects.put(&key, part(0)?)).map(drop);
        }
        let mut upload = self.ask(object, self.objects.put_multipart(&key))?;
        let mut parts = || -> Result<(), StoreError> {
            let mut at = 0;
            while at < bytes {
                self.ask(object, upload.put_part(part(at)?))?;
                at += PART_BYTES;
            }
            self.ask(object, upload.complete()).map(drop)
        };
        parts().inspect_err(|_| {
            // What cannot be called off now is the bucket's own rule of how long parts stay.
            let _ = self.ask(object, upload.abort());
        })
    }

    /// Everything that rows say is there.
    pub(crate) fn list(&self) -> Result<Vec<Kept>, StoreError> {
        let sql = "SELECT tenant_id, digest, stored, put_at, object FROM blob_objects WHERE place = ?1";
        self.store()?.read_now(|read| {
            read.query(sql, &values![&*self.name], |row| {
                let path = self.shown(row.text(4)?);
                let (tenant, digest) = (row.get(0)?, row.get(1)?);
                Ok(Kept::Blob { tenant, digest, path, bytes: row.get(2)?, put_at: row.get(3)? })
            })
        })
    }

    /// Takes these out of the rows, unless they have been put again at or after the given times, and then out of the
    /// bucket. Blocks its thread. Tells which have gone. Killed midway it is finished by [`Self::clear_away`].
    pub(crate) fn remove(&self, blobs: &[(TenantId, Digest, TimeMs)]) -> Result<Vec<(TenantId, Digest)>, StoreError> {
        let (store, name, blobs) = (self.store()?, self.name.to_string(), blobs.to_vec());
        let gone = transact(&store, move |tx| {
            let mut gone = Vec::new();
            for (tenant, digest, before) in blobs {
                let Some(row) = find(tx, &tenant, &digest)? else { continue };
                if row.place != name || row.put_at >= before {
                    continue;
                }
                leave(tx, &tenant, &row.object, &name)?;
                let sql = "DELETE FROM blob_objects WHERE tenant_id = ?1 AND digest = ?2";
                tx.execute(sql, &values![&tenant, &digest])?;
                gone.push((tenant, digest));
            }
            Ok(gone)
        })?;
        self.clear_away(TimeMs(1))?;
        Ok(gone)
    }

    /// Deletes objects that no row names, and of which nothing has been heard since then. Tells how many there were.
    pub(crate) fn clear_away(&self, before: TimeMs) -> Result<u64, StoreError> {
        let store = self.store()?;
        let params = values![&*self.name, before];
        let left = store.read_now(|read| {
            let sql = "SELECT tenant_id, upload FROM blob_uploads WHERE place = ?1 AND at < ?2";
            read.query(sql, &params, |row| Ok((row.get::<TenantId>(0)?, row.get::<String>(1)?)))
        })?;
        for (tenant, object) in &left {
            match self.ask(object, self.objects.delete(&self.key(object))) {
                Ok(()) | Err(StoreError::ObjectMissing { .. }) => {}
                Err(error) => return Err(error),
            }
            let params = values![tenant, object];
            let sql = "DELETE FROM blob_uploads WHERE tenant_id = ?1 AND upload = ?2";
            transact(&store, move |tx| tx.execute(sql, &params))?;
        }
        Ok(left.len() as u64)
    }
}

/// Where the content is, whichever bucket that is.
pub(crate) fn find(read: &ReadTx<'_>, tenant: &TenantId, digest: &Digest) -> Result<Option<Row>, StoreError> {
    read.query_optional(
        "SELECT place, object, encoding, stored, put_at FROM blob_objects WHERE tenant_id = ?1 AND digest = ?2",
        &values![tenant, digest],
        |row| {
            let (place, object, encoding) = (row.get(0)?, row.get(1)?, row.get(2)?);
            Ok(Row { place, object, encoding, stored: row.get(3)?, put_at: row.get(4)? })
        },
    )
}

impl Row {
    /// The bucket, as it may be shown.
    pub(crate) fn place(&self) -> &str {
        &self.place
    }
}

/// Enters an object that no row names any more, to be deleted as soon as possible.
fn leave(tx: &mut Tx<'_>, tenant: &TenantId, object: &str, place: &str) -> Result<(), StoreError> {
    enter(tx, tenant, object, place)?;
    let sql = "UPDATE blob_uploads SET at = 0 WHERE tenant_id = ?1 AND upload = ?2";
    tx.execute(sql, &values![tenant, object]).map(drop)
}

fn transact<T: Send + 'static>(
    store: &Store,
    f: impl FnOnce(&mut Tx<'_>) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    futures::executor::block_on(store.write(f))
}

/// Content on this machine's disk, on its way to a bucket.
struct Spooled {
    bucket: Bucket,
    incoming: Incoming,
    stored: u64,
    unique: String,
}

impl Write for Spooled {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.incoming.write(bytes)?;
        self.stored += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.incoming.flush()
    }
}

impl Sink for Spooled {
    fn keep(self: Box<Self>, content: Content) -> Result<(), StoreError> {
        let Self { bucket, incoming, stored, unique } = *self;
        if bucket.refreshed(&content)? {
            return Ok(());
        }
        let Content { tenant, digest, encoding, bytes } = content;
        let hex = digest.hex();
        let object = format!("{tenant}/{}/{hex}-{unique}{}", &hex[..2], encoding.suffix());
        let (store, name) = (bucket.store()?, bucket.name.to_string());
        let (owner, upload, place) = (tenant.clone(), object.clone(), name.clone());
        transact(&store, move |tx| enter(tx, &owner, &upload, &place))?;
        let file = File::open(incoming.path()).map_err(|error| from_io(incoming.path(), error))?;
        bucket.upload(&object, &file, stored, incoming.path())?;
        transact(&store, move |tx| {
            if let Some(before) = find(tx, &tenant, &digest)? {
                leave(tx, &tenant, &before.object, &before.place)?;
            }
            let sql = "DELETE FROM blob_uploads WHERE tenant_id = ?1 AND upload = ?2";
            if tx.execute(sql, &values![&tenant, &object])? == 0 {
                // It took so long that a sweep took it for dead.
                return Err(StoreError::ObjectMissing { path: PathBuf::from(format!("{name}/{object}")) });
            }
            let now = tx.now();
            tx.execute(
                "INSERT INTO blob_objects (tenant_id, digest, place, object, encoding, size, stored, put_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
                 ON CONFLICT (tenant_id, digest)
                 DO UPDATE SET place = ?3, object = ?4, encoding = ?5, size = ?6, stored = ?7, put_at = ?8",
                &values![&tenant, &digest, name, object, encoding.name(), bytes, stored, now],
            )
            .map(drop)
        })
    }
}

/// Reads an object by ranges, so that a cut connection costs one of them.
struct Ranges {
    bucket: Bucket,
    row: Row,
    digest: Digest,
    at: u64,
    read: Vec<u8>,
    from: usize,
}

impl Ranges {
    fn next(&mut self) -> std::io::Result<()> {
        let Self { bucket, row, digest, .. } = self;
        let range = self.at..row.stored.min(self.at + PART_BYTES / 2);
        if range.is_empty() {
            self.read.clear();
        } else {
            let (key, end) = (bucket.key(&row.object), range.end);
            let bytes = bucket.ask(&row.object, bucket.objects.get_range(&key, range)).map_err(|error| match error {
                StoreError::ObjectMissing { path } => StoreError::BlobMissing { digest: *digest, path },
                other => other,
            });
            self.read = bytes.map_err(Error::other)?.to_vec();
            self.at = end;
        }
        self.from = 0;
        Ok(())
    }
}

impl Read for Ranges {
    fn read(&mut self, piece: &mut [u8]) -> std::io::Result<usize> {
        if self.from == self.read.len() {
            self.next()?;
        }
        let read = piece.len().min(self.read.len() - self.from);
        piece[..read].copy_from_slice(&self.read[self.from..self.from + read]);
        self.from += read;
        Ok(read)
    }
}

/// The last cause, which is the system's or the service's own word, cut: what lies above it holds addresses.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string().chars().take(160).collect()
}

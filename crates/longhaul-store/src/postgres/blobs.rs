//! Blobs as rows, so that another machine finds them.
//!
//! Small content stands in the row of its digest; large content stands in rows of its own, in order, written before it
//! in many short transactions, so that nobody waits for a whole upload. It owns the statements; limits and digests are
//! checked in `crate::blobs`. Invariants: a digest that was put names a row that has been committed, and all rows with
//! its content have been before; rows of content that nothing names belong to an upload that is entered in
//! `blob_uploads`.

use std::{
    io::{Error, Read, Write},
    path::PathBuf,
};

use longhaul_core::{Digest, TenantId, TimeMs};

use crate::{
    ReadTx, Store, StoreError, Tx, Value,
    blobs::{
        encoding::{Encoding, Stored},
        stream::{Content, Sink},
    },
    shelf::Kept,
    store::WeakStore,
    values,
};

/// Content that was put less than this ago is not written again, so the time of a row may be behind by as much.
pub(crate) const FRESH_MS: i64 = 10 * 60 * 1000;

/// Content up to here stands in the row of its digest.
pub(crate) const INLINE_BYTES_MAX: usize = 1024 * 1024;

/// Size of a row of content.
const CHUNK_BYTES: usize = 256 * 1024;

/// Rows of content that one transaction writes, and one query reads.
const CHUNKS_AT_ONCE: usize = 4;

/// Keeps small content.
pub(crate) fn put(tx: &mut Tx<'_>, tenant: &TenantId, digest: &Digest, content: &[u8]) -> Result<(), StoreError> {
    let now = tx.now();
    let (encoding, packed) = Encoding::pack(content);
    let before = upload_of(tx, tenant, digest)?;
    tx.execute(
        "INSERT INTO blobs (tenant_id, digest, content, created_at, encoding, upload, stored)
         VALUES (?1, ?2, ?3, ?4, ?5, '', 0)
         ON CONFLICT (tenant_id, digest) DO UPDATE SET content = ?3, created_at = ?4, encoding = ?5, upload = '', stored = 0",
        &values![tenant, digest, packed, now, encoding.name()],
    )?;
    remove_chunks(tx, tenant, &before)
}

/// Whether it was put a short while ago, so that it need not be written again; then it is as if it had been put now.
pub(crate) async fn refreshed(store: &Store, tenant: &TenantId, digest: &Digest) -> Result<bool, StoreError> {
    let params = values![tenant, digest, store.ambient().clock.now().0.saturating_sub(FRESH_MS)];
    let fresh = "FROM blobs WHERE tenant_id = ?1 AND digest = ?2 AND created_at > ?3";
    let asked = params.clone();
    let find = move |read: &ReadTx<'_>| read.query_optional(&format!("SELECT 1 {fresh}"), &asked, |_| Ok(()));
    if store.read(find).await?.is_none() {
        return Ok(false);
    }
    // Whoever erases what another row refers to must see that this one relies on it, too.
    let touched = store.write(move |tx| {
        let now = tx.now();
        let sql = "UPDATE blobs SET created_at = ?4 WHERE tenant_id = ?1 AND digest = ?2 AND created_at > ?3";
        tx.execute(sql, &[&params[..], &[now.into()]].concat())
    });
    Ok(touched.await? == 1)
}

/// The content as it lies in rows. Blocks its thread, and so does the reader.
pub(crate) fn stored(
    store: &Store,
    tenant: &TenantId,
    digest: &Digest,
    path: PathBuf,
) -> Result<Option<Stored>, StoreError> {
    let head = store.read_now(|read| {
        read.query_optional(
            "SELECT content, encoding, upload FROM blobs WHERE tenant_id = ?1 AND digest = ?2",
            &values![tenant, digest],
            |row| Ok((row.bytes(0)?.to_vec(), row.get::<String>(1)?, row.get::<String>(2)?)),
        )
    })?;
    let Some((content, encoding, upload)) = head else { return Ok(None) };
    let Some(encoding) = Encoding::parse(&encoding) else {
        return Err(StoreError::BlobDamaged { digest: *digest, found: Digest::of(&content), path });
    };
    let reader: Box<dyn Read + Send> = if upload.is_empty() {
        Box::new(std::io::Cursor::new(content))
    } else {
        Box::new(Chunks {
            store: store.downgrade(),
            path: path.clone(),
            tenant: tenant.clone(),
            upload,
            next: 0,
            read: Vec::new(),
            at: 0,
        })
    };
    Ok(Some(Stored { reader, encoding, path }))
}

/// Reads rows of content, a few at a time.
struct Chunks {
    store: WeakStore,
    path: PathBuf,
    tenant: TenantId,
    upload: String,
    next: i64,
    read: Vec<u8>,
    at: usize,
}

impl Read for Chunks {
    fn read(&mut self, piece: &mut [u8]) -> std::io::Result<usize> {
        if self.at == self.read.len() {
            let store = open(&self.store, &self.path).map_err(Error::other)?;
            let params = values![&self.tenant, &self.upload, self.next, CHUNKS_AT_ONCE];
            self.read.clear();
            self.at = 0;
            store
                .read_now(|read| {
                    read.for_each(
                        "SELECT data FROM blob_chunks WHERE tenant_id = ?1 AND upload = ?2 AND n >= ?3
                         ORDER BY n LIMIT ?4",
                        &params,
                        |row| {
                            self.read.extend_from_slice(row.bytes(0)?);
                            self.next += 1;
                            Ok(true)
                        },
                    )
                })
                .map_err(Error::other)?;
        }
        let read = piece.len().min(self.read.len() - self.at);
        piece[..read].copy_from_slice(&self.read[self.at..self.at + read]);
        self.at += read;
        Ok(read)
    }
}

fn open(store: &WeakStore, path: &std::path::Path) -> Result<Store, StoreError> {
    store.upgrade().ok_or_else(|| StoreError::Closed { path: path.to_owned() })
}

/// Writes rows of content. Used on a thread that may block.
pub(crate) struct Upload {
    store: WeakStore,
    path: PathBuf,
    tenant: TenantId,
    upload: String,
    /// What no transaction has written yet.
    waiting: Vec<u8>,
    next: i64,
    stored: u64,
    kept: bool,
}

impl Upload {
    pub(crate) fn new(store: WeakStore, path: PathBuf, tenant: TenantId, upload: String) -> Self {
        Self { store, path, tenant, upload, waiting: Vec::new(), next: 0, stored: 0, kept: false }
    }

    fn write_chunks(&mut self) -> Result<(), StoreError> {
        let chunks: Vec<Vec<u8>> = self.waiting.chunks(CHUNK_BYTES).map(<[u8]>::to_vec).collect();
        let (tenant, upload, first) = (self.tenant.clone(), self.upload.clone(), self.next);
        self.next += i64::try_from(chunks.len()).unwrap_or(i64::MAX);
        self.stored += self.waiting.len() as u64;
        self.waiting.clear();
        self.transact(move |tx| {
            enter(tx, &tenant, &upload, "")?;
            for (n, chunk) in (first..).zip(chunks) {
                tx.execute(
                    "INSERT INTO blob_chunks (tenant_id, upload, n, data) VALUES (?1, ?2, ?3, ?4)",
                    &values![&tenant, &upload, n, chunk],
                )?;
            }
            Ok(())
        })
    }

    fn transact(
        &self,
        f: impl FnOnce(&mut Tx<'_>) -> Result<(), StoreError> + Send + 'static,
    ) -> Result<(), StoreError> {
        futures::executor::block_on(open(&self.store, &self.path)?.write(f))
    }

    /// The upload that holds the same content already, row by row; looked at outside of the transaction that decides.
    fn same_before(&self, content: &Content) -> Result<Option<String>, StoreError> {
        let params = values![&content.tenant, &content.digest, content.encoding.name(), &self.upload, self.next];
        open(&self.store, &self.path)?.read_now(|read| {
            read.query_optional(
                "SELECT upload FROM blobs b WHERE tenant_id = ?1 AND digest = ?2 AND encoding = ?3 AND upload <> ''
                   AND ?5 = (SELECT count(*) FROM blob_chunks c WHERE c.tenant_id = b.tenant_id AND c.upload = b.upload)
                   AND ?5 = (SELECT count(*) FROM blob_chunks c JOIN blob_chunks d
                               ON d.tenant_id = c.tenant_id AND d.n = c.n AND d.data = c.data
                             WHERE c.tenant_id = b.tenant_id AND c.upload = b.upload AND d.upload = ?4)",
                &params,
                |row| row.get(0),
            )
        })
    }
}

impl Write for Upload {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let room = CHUNK_BYTES * CHUNKS_AT_ONCE - self.waiting.len();
        let taken = bytes.len().min(room);
        self.waiting.extend_from_slice(&bytes[..taken]);
        if taken == room {
            self.write_chunks().map_err(Error::other)?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Sink for Upload {
    fn keep(mut self: Box<Self>, content: Content) -> Result<(), StoreError> {
        self.write_chunks()?;
        let (same, upload, stored) = (self.same_before(&content)?, self.upload.clone(), self.stored);
        self.transact(move |tx| {
            let Content { tenant, digest, encoding, .. } = &content;
            let (before, now) = (upload_of(tx, tenant, digest)?, tx.now());
            tx.execute("DELETE FROM blob_uploads WHERE tenant_id = ?1 AND upload = ?2", &values![tenant, &upload])?;
            if before.is_some() && before == same {
                tx.execute(
                    "UPDATE blobs SET created_at = ?3 WHERE tenant_id = ?1 AND digest = ?2",
                    &values![tenant, digest, now],
                )?;
                return remove_chunks(tx, tenant, &Some(upload));
            }
            tx.execute(
                "INSERT INTO blobs (tenant_id, digest, content, created_at, encoding, upload, stored)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
                 ON CONFLICT (tenant_id, digest)
                 DO UPDATE SET content = ?3, created_at = ?4, encoding = ?5, upload = ?6, stored = ?7",
                &values![tenant, digest, Value::Blob(Vec::new()), now, encoding.name(), &upload, stored],
            )?;
            remove_chunks(tx, tenant, &before)
        })?;
        self.kept = true;
        Ok(())
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if self.kept || self.next == 0 {
            return;
        }
        let (tenant, upload) = (self.tenant.clone(), self.upload.clone());
        // What cannot be removed now is removed by a sweep.
        let _ = self.transact(move |tx| remove_upload(tx, &tenant, &upload));
    }
}

/// Enters an upload, or that it is still going on, so that a sweep knows it.
pub(crate) fn enter(tx: &mut Tx<'_>, tenant: &TenantId, upload: &str, place: &str) -> Result<(), StoreError> {
    let now = tx.now();
    tx.execute(
        "INSERT INTO blob_uploads (tenant_id, upload, place, at) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (tenant_id, upload) DO UPDATE SET at = ?4",
        &values![tenant, upload, place, now],
    )
    .map(drop)
}

fn remove_upload(tx: &mut Tx<'_>, tenant: &TenantId, upload: &str) -> Result<(), StoreError> {
    tx.execute("DELETE FROM blob_uploads WHERE tenant_id = ?1 AND upload = ?2", &values![tenant, upload])?;
    remove_chunks(tx, tenant, &Some(upload.to_owned()))
}

fn remove_chunks(tx: &mut Tx<'_>, tenant: &TenantId, upload: &Option<String>) -> Result<(), StoreError> {
    if let Some(upload) = upload {
        tx.execute("DELETE FROM blob_chunks WHERE tenant_id = ?1 AND upload = ?2", &values![tenant, upload])?;
    }
    Ok(())
}

/// The upload whose rows hold the content of this digest.
fn upload_of(read: &ReadTx<'_>, tenant: &TenantId, digest: &Digest) -> Result<Option<String>, StoreError> {
    let sql = "SELECT upload FROM blobs WHERE tenant_id = ?1 AND digest = ?2 AND upload <> ''";
    read.query_optional(sql, &values![tenant, digest], |row| row.get(0))
}

pub(crate) fn is_there(read: &ReadTx<'_>, tenant: &TenantId, digest: &Digest) -> Result<bool, StoreError> {
    let sql = "SELECT 1 FROM blobs WHERE tenant_id = ?1 AND digest = ?2";
    Ok(read.query_optional(sql, &values![tenant, digest], |_| Ok(()))?.is_some())
}

pub(crate) fn list(read: &ReadTx<'_>) -> Result<Vec<Kept>, StoreError> {
    let sql = "SELECT tenant_id, digest, CAST(length(content) AS INTEGER) + stored, created_at FROM blobs";
    let mut kept = read.query(sql, &[], |row| {
        let (tenant, digest): (TenantId, Digest) = (row.get(0)?, row.get(1)?);
        let path = PathBuf::from(format!("blobs of {tenant}, {digest}"));
        Ok(Kept::Blob { tenant, digest, path, bytes: row.get(2)?, put_at: row.get(3)? })
    })?;
    kept.extend(read.query("SELECT tenant_id, upload, at FROM blob_uploads WHERE place = ''", &[], |row| {
        let (tenant, upload): (TenantId, String) = (row.get(0)?, row.get(1)?);
        Ok(Kept::Leftover { path: PathBuf::from(format!("upload {upload} of {tenant}")), put_at: row.get(2)? })
    })?);
    Ok(kept)
}

/// Removes uploads of which nothing has been heard since then; tells how many there were.
pub(crate) fn remove_abandoned(tx: &mut Tx<'_>, before: TimeMs) -> Result<u64, StoreError> {
    let found =
        tx.query("SELECT tenant_id, upload FROM blob_uploads WHERE place = '' AND at < ?1", &values![before], |row| {
            Ok((row.get::<TenantId>(0)?, row.get::<String>(1)?))
        })?;
    for (tenant, upload) in &found {
        remove_upload(tx, tenant, upload)?;
    }
    Ok(found.len() as u64)
}

pub(crate) fn remove(tx: &mut Tx<'_>, tenant: &TenantId, digest: &Digest, before: TimeMs) -> Result<bool, StoreError> {
    let upload = upload_of(tx, tenant, digest)?;
    let changed = tx.execute(
        "DELETE FROM blobs WHERE tenant_id = ?1 AND digest = ?2 AND created_at < ?3",
        &values![tenant, digest, before],
    )?;
    if changed == 1 {
        remove_chunks(tx, tenant, &upload)?;
    }
    Ok(changed == 1)
}

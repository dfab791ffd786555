//! Contents: small ones as rows, once for each tenant, larger ones as blobs; and reading either, verified.
//!
//! Invariant: bytes that are given to a reader have the digest that the record's row names, or reading ends in an error.

use std::{
    fmt, io,
    pin::Pin,
    task::{Context, Poll},
};

use longhaul_core::{Digest, RecordId, Scope, limits::CONTENT_INLINE_BYTES_MAX};
use longhaul_store::{Encoding, ReadTx, StoreError, Tx, values};
use tokio::io::{AsyncRead, ReadBuf};

use crate::{
    Record, TaskWorkspace, UserWorkspace, Wanted, WorkspaceError, access,
    record::{self, Place},
};

/// A small content, as its row has it.
pub(crate) struct Inline {
    encoding: Encoding,
    size: u64,
    data: Vec<u8>,
}

impl fmt::Debug for Inline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes, {} as {:?}", self.size, self.data.len(), self.encoding)
    }
}

impl Inline {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let (encoding, data) = Encoding::pack(bytes);
        Self { encoding, size: bytes.len() as u64, data }
    }

    /// Writes the row, unless the tenant has this content already.
    pub(crate) fn write(&self, tx: &mut Tx<'_>, scope: &Scope, digest: &Digest) -> Result<(), StoreError> {
        tx.execute(
            "insert into contents (tenant_id, digest, encoding, size, data) values (?1, ?2, ?3, ?4, ?5)
             on conflict (tenant_id, digest) do nothing",
            &values![&scope.tenant, digest, self.encoding.name(), self.size, &self.data[..]],
        )?;
        Ok(())
    }
}

/// The bytes of a row, as they were put.
pub(crate) fn inline(read: &ReadTx<'_>, scope: &Scope, record: &Record) -> Result<Vec<u8>, WorkspaceError> {
    let row = read.query_optional(
        "select encoding, data from contents where tenant_id = ?1 and digest = ?2",
        &values![&scope.tenant, &record.reference.digest],
        |row| Ok((row.get::<String>(0)?, row.bytes(1)?.to_vec())),
    )?;
    let id = &record.reference.id;
    let Some((encoding, data)) = row else {
        return Err(WorkspaceError::ContentLost { record: id.clone(), source: None });
    };
    let Some(encoding) = Encoding::parse(&encoding) else {
        return Err(WorkspaceError::Unreadable { id: id.to_string(), column: "content" });
    };
    // Bytes that cannot be unpacked are other bytes than those that were kept.
    let expected = record.reference.digest;
    let damaged = |_| WorkspaceError::DigestMismatch { record: id.clone(), expected, found: Digest::of(&data) };
    encoding.unpack(&data, CONTENT_INLINE_BYTES_MAX).map_err(damaged)
}

/// A content that is being read. What has been given is verified at its end: the last read fails where the bytes are not
/// those that were kept.
pub struct ContentReader {
    inner: Box<dyn AsyncRead + Send + Unpin>,
}

impl fmt::Debug for ContentReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ContentReader").finish_non_exhaustive()
    }
}

impl AsyncRead for ContentReader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl UserWorkspace {
    /// What is known of a record, without its content.
    ///
    /// # Errors
    /// [`WorkspaceError::NoSuchRecord`] where there is none that the user may see, or it has expired;
    /// [`WorkspaceError::DigestMismatch`] where a ref names another content than the record has; those of the store.
    pub async fn get<'a>(&self, wanted: impl Into<Wanted<'a>>) -> Result<Record, WorkspaceError> {
        Ok(self.look(wanted.into(), false).await?.0)
    }

    /// A record and its content, at most 256 MiB, whose digest is checked; more is read with [`UserWorkspace::open`].
    ///
    /// # Errors
    /// As [`UserWorkspace::get`]; [`WorkspaceError::DigestMismatch`] for content that was changed after it was kept,
    /// [`WorkspaceError::ContentLost`].
    pub async fn read<'a>(&self, wanted: impl Into<Wanted<'a>>) -> Result<(Record, Vec<u8>), WorkspaceError> {
        let (record, bytes) = self.look(wanted.into(), true).await?;
        let bytes = match bytes {
            Some(bytes) => bytes,
            None => {
                let blobs = self.workspace().store().blobs();
                blobs.get(self.scope(), &record.reference.digest).await.map_err(|error| of_blob(&record, error))?
            }
        };
        verified(&record, &bytes)?;
        Ok((record, bytes))
    }

    /// A record and a reader of its content, which is verified while it is read: the last read fails where the bytes are
    /// not those that were kept.
    ///
    /// # Errors
    /// As [`UserWorkspace::get`]; [`WorkspaceError::ContentLost`].
    pub async fn open<'a>(&self, wanted: impl Into<Wanted<'a>>) -> Result<(Record, ContentReader), WorkspaceError> {
        let (record, bytes) = self.look(wanted.into(), true).await?;
        let inner: Box<dyn AsyncRead + Send + Unpin> = match bytes {
            Some(bytes) => {
                verified(&record, &bytes)?;
                Box::new(io::Cursor::new(bytes))
            }
            None => {
                let blobs = self.workspace().store().blobs();
                let opened = blobs.open(self.scope(), &record.reference.digest).await;
                Box::new(opened.map_err(|error| of_blob(&record, error))?)
            }
        };
        Ok((record, ContentReader { inner }))
    }

    /// The record, with its bytes where these are wanted and in a row.
    async fn look(&self, wanted: Wanted<'_>, with_content: bool) -> Result<(Record, Option<Vec<u8>>), WorkspaceError> {
        let (scope, memory) = (self.scope().clone(), self.workspace().memory().clone());
        let (id, digest) = (wanted.id().clone(), wanted.digest().copied());
        let look = move |read: &ReadTx<'_>| {
            let record = visible(read, &memory, &scope, &id)?;
            if let Some(expected) = digest
                && expected != record.reference.digest
            {
                let found = record.reference.digest;
                return Err(WorkspaceError::DigestMismatch { record: id, expected, found });
            }
            let bytes = match record.place {
                Place::Row if with_content => Some(inline(read, &scope, &record)?),
                Place::Row | Place::Blob => None,
            };
            Ok((record, bytes))
        };
        self.workspace().store().read(look).await
    }
}

impl TaskWorkspace {
    /// As [`UserWorkspace::get`].
    ///
    /// # Errors
    /// As [`UserWorkspace::get`].
    pub async fn get<'a>(&self, wanted: impl Into<Wanted<'a>>) -> Result<Record, WorkspaceError> {
        self.user().get(wanted).await
    }

    /// As [`UserWorkspace::read`].
    ///
    /// # Errors
    /// As [`UserWorkspace::read`].
    pub async fn read<'a>(&self, wanted: impl Into<Wanted<'a>>) -> Result<(Record, Vec<u8>), WorkspaceError> {
        self.user().read(wanted).await
    }

    /// As [`UserWorkspace::open`].
    ///
    /// # Errors
    /// As [`UserWorkspace::open`].
    pub async fn open<'a>(&self, wanted: impl Into<Wanted<'a>>) -> Result<(Record, ContentReader), WorkspaceError> {
        self.user().open(wanted).await
    }
}

/// The record of this id, if the user may see it and it has not expired.
pub(crate) fn visible(
    read: &ReadTx<'_>,
    memory: &longhaul_memory::Memory,
    scope: &Scope,
    id: &RecordId,
) -> Result<Record, WorkspaceError> {
    let found = record::find(read, scope, id)?.filter(|found| found.expires_at.is_none_or(|at| at > read.now()));
    match found {
        Some(record) if access::may_see(read, memory, scope, &record)? => Ok(record),
        _ => Err(WorkspaceError::NoSuchRecord(id.clone())),
    }
}

fn verified(record: &Record, bytes: &[u8]) -> Result<(), WorkspaceError> {
    let (found, expected) = (Digest::of(bytes), record.reference.digest);
    if found == expected {
        return Ok(());
    }
    Err(WorkspaceError::DigestMismatch { record: record.reference.id.clone(), expected, found })
}

fn of_blob(record: &Record, error: StoreError) -> WorkspaceError {
    let id = record.reference.id.clone();
    if let StoreError::BlobDamaged { digest, found, .. } = error {
        return WorkspaceError::DigestMismatch { record: id, expected: digest, found };
    }
    if let StoreError::BlobMissing { .. } = error {
        return WorkspaceError::ContentLost { record: id, source: Some(error) };
    }
    WorkspaceError::Store(error)
}

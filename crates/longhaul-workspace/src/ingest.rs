//! What is to be kept, and its way in: checked, its content made durable, its text cut for the index.
//!
//! Invariant: nothing is visible before [`StagedRecord::commit`]; a crash before it leaves at most a blob without a row,
//! which a sweep removes. Ingesting never writes user memory or facts.

use std::{
    fmt, io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use longhaul_core::{
    Digest, ExecutionId, RecordId, TimeMs,
    limits::{CONTENT_INLINE_BYTES_MAX, INDEXED_TEXT_BYTES_MAX, RECORD_SOURCE_CHARS_MAX, SUMMARY_CHARS_MAX},
};
use longhaul_store::StoreError;
use serde_json::{Map, Value};
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};

use crate::{
    Kind, RecordRef, StagedRecord, TaskWorkspace, WorkspaceError,
    content::Inline,
    error::field,
    parts, retention, schema_check,
    staged::{About, Kept},
};

/// Largest metadata of one record, printed as JSON.
const META_BYTES_MAX: usize = 16 * 1024;
/// Records of one transaction of [`TaskWorkspace::ingest_many`].
const BATCH: usize = 1_024;
/// Largest content that is checked against a schema.
const SCHEMA_BYTES_MAX: usize = 16 * 1024 * 1024;

/// What a record holds.
pub enum Content {
    /// Bytes of any kind.
    Bytes(Vec<u8>),
    /// Text, which is searched.
    Text(String),
    /// Bytes that are read once and never held together in memory.
    Reader(Box<dyn AsyncRead + Send + Unpin>),
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "{} bytes", bytes.len()),
            Self::Text(text) => write!(f, "{} bytes of text", text.len()),
            Self::Reader(_) => f.write_str("a reader"),
        }
    }
}

impl From<Vec<u8>> for Content {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes)
    }
}

impl From<&[u8]> for Content {
    fn from(bytes: &[u8]) -> Self {
        Self::Bytes(bytes.to_vec())
    }
}

impl<const N: usize> From<&[u8; N]> for Content {
    fn from(bytes: &[u8; N]) -> Self {
        Self::Bytes(bytes.to_vec())
    }
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// Something to be kept. Start from [`Ingest::new`] and set what else there is to say.
#[derive(Debug)]
pub struct Ingest {
    /// What it holds.
    pub content: Content,
    /// Group in which it is looked up, `[a-z0-9_.-]`, 1 to 64 characters: `evidence`.
    pub collection: String,
    /// What sort of thing it is.
    pub kind: Kind,
    /// A name under which it has versions within the task, 1 to 200 characters: `draft-report`.
    pub name: Option<String>,
    /// What it is, in a few words; required, at most [`SUMMARY_CHARS_MAX`] characters.
    pub summary: String,
    /// Where it came from; required: `user`, `agent`, `model:NAME`, `tool:NAME`, `document NAME`, `web https://…`.
    pub source: String,
    /// Media type of the content: `image/png`.
    pub media_type: String,
    /// Anything else to say of it, at most 16 KiB of JSON.
    pub meta: Map<String, Value>,
    /// What is searched beside the summary when the content is no text, or in its place; empty for nothing.
    pub text: Option<String>,
    /// A JSON schema that the content must fit.
    pub schema: Option<Value>,
    /// When it stops being found.
    pub expires_at: Option<TimeMs>,
    /// Whom or what it is about, 1 to 200 characters: `customer:42`.
    pub subject: Option<String>,
    /// Makes the next version of its name, where the name is taken.
    pub revise: bool,
    /// The execution that made it.
    pub execution: Option<ExecutionId>,
    /// The step of that execution.
    pub step: Option<String>,
}

impl Ingest {
    /// A record with no more than what each must have. Text is `text/plain`, everything else
    /// `application/octet-stream`, until the media type is set.
    #[must_use]
    pub fn new(kind: Kind, collection: &str, summary: &str, source: &str, content: impl Into<Content>) -> Self {
        let content = content.into();
        let media_type = match &content {
            Content::Text(_) => "text/plain",
            Content::Bytes(_) | Content::Reader(_) => "application/octet-stream",
        };
        Self {
            media_type: media_type.to_owned(),
            content,
            collection: collection.to_owned(),
            kind,
            name: None,
            summary: summary.to_owned(),
            source: source.to_owned(),
            meta: Map::new(),
            text: None,
            schema: None,
            expires_at: None,
            subject: None,
            revise: false,
            execution: None,
            step: None,
        }
    }
}

impl TaskWorkspace {
    /// Keeps this: content, row, index and event together or not at all. Found by its words from now on, by its meaning
    /// once it has been embedded.
    ///
    /// # Errors
    /// Those of [`TaskWorkspace::stage`] and of [`StagedRecord::commit`].
    pub async fn ingest(&self, what: Ingest) -> Result<RecordRef, WorkspaceError> {
        let staged = self.stage(what).await?;
        let reference = staged.reference().clone();
        self.workspace().store().write(move |tx| staged.commit(tx)).await?;
        Ok(reference)
    }

    /// Keeps all of these, in order, some hundred in each transaction: far faster than one by one.
    ///
    /// # Errors
    /// As [`TaskWorkspace::ingest`]; nothing is kept when one is refused by its check, and whole transactions stay when a
    /// later one fails.
    pub async fn ingest_many(&self, what: Vec<Ingest>) -> Result<Vec<RecordRef>, WorkspaceError> {
        what.iter().try_for_each(|each| checked(each).map(drop))?;
        let (mut references, mut waiting) = (Vec::with_capacity(what.len()), what);
        let mut next = || {
            let rest = waiting.split_off(waiting.len().min(BATCH));
            self.stage_all(std::mem::replace(&mut waiting, rest))
        };
        let mut batch = next().await?;
        while !batch.is_empty() {
            references.extend(batch.iter().map(|staged| staged.reference().clone()));
            // The next batch is made ready while this one is written.
            let beside = next();
            let written = self.workspace().store().write(move |tx| StagedRecord::commit_all(&batch, tx));
            // In this order: writing may take this thread.
            let (following, written) = tokio::join!(beside, written);
            written?;
            batch = following?;
        }
        Ok(references)
    }

    /// Makes a batch ready: small contents in two threads beside the caller's.
    async fn stage_all(&self, mut batch: Vec<Ingest>) -> Result<Vec<StagedRecord>, WorkspaceError> {
        const FEW: usize = 8;
        let mut ready = Vec::with_capacity(batch.len());
        if batch.len() <= FEW {
            for each in batch {
                ready.push(self.stage(each).await?);
            }
            return Ok(ready);
        }
        let half = batch.split_off(batch.len() / 2);
        let parts = [batch, half].map(|part| {
            let task = self.clone();
            tokio::task::spawn_blocking(move || {
                part.into_iter().map(|each| task.stage_small(each)).collect::<Result<Vec<_>, WorkspaceError>>()
            })
        });
        for part in parts {
            let part = part.await.map_err(|error| StoreError::Panicked { message: error.to_string() })??;
            for each in part {
                ready.push(match each {
                    Small::Staged(staged) => *staged,
                    Small::NotSmall(what) => self.stage(*what).await?,
                });
            }
        }
        Ok(ready)
    }

    /// What needs no waiting: a content that goes into a row.
    fn stage_small(&self, mut what: Ingest) -> Result<Small, WorkspaceError> {
        let bytes = match what.content {
            Content::Bytes(bytes) if bytes.len() <= CONTENT_INLINE_BYTES_MAX => bytes,
            Content::Text(text) if text.len() <= CONTENT_INLINE_BYTES_MAX => text.into_bytes(),
            content @ (Content::Bytes(_) | Content::Text(_) | Content::Reader(_)) => {
                what.content = content;
                return Ok(Small::NotSmall(Box::new(what)));
            }
        };
        what.content = Content::Bytes(Vec::new());
        let about = checked(&what)?;
        let taken = take_small(bytes, what.schema.as_ref())?;
        Ok(Small::Staged(Box::new(self.staged(about, what.text, taken)?)))
    }

    /// Checks it and makes its content durable, for a transaction that then makes it visible with
    /// [`StagedRecord::commit`]. A content that no transaction ever made visible is swept away.
    ///
    /// # Errors
    /// [`WorkspaceError::Missing`] without a summary or a source, [`WorkspaceError::Field`],
    /// [`WorkspaceError::Misfit`] for content that its schema does not allow, [`WorkspaceError::Unread`]; those of the
    /// store.
    pub async fn stage(&self, what: Ingest) -> Result<StagedRecord, WorkspaceError> {
        let about = checked(&what)?;
        let taken = self.take(what.content, what.schema.as_ref()).await?;
        self.staged(about, what.text, taken)
    }

    fn staged(&self, mut about: About, text: Option<String>, taken: Taken) -> Result<StagedRecord, WorkspaceError> {
        let ambient = self.workspace().store().ambient();
        let id = RecordId::from_body(&ambient.ids.body());
        if about.expires_at.is_none() {
            about.expires_at = retention::expiry(self.workspace().rules(), &about, ambient.clock.now());
        }
        let text = text.or_else(|| searched_text(&about.media_type, taken.head));
        let index = parts::prepare(&self.owner().task, &id, &about, text.as_deref().unwrap_or(""))?;
        let (reference, content) = (RecordRef { id, digest: taken.digest }, (taken.size, taken.kept));
        Ok(StagedRecord::new(self.workspace(), self.owner().clone(), Arc::new(about), reference, content, index))
    }

    /// Makes the content durable, or ready to be written as a row.
    async fn take(&self, content: Content, schema: Option<&Value>) -> Result<Taken, WorkspaceError> {
        let bytes = match content {
            Content::Bytes(bytes) => bytes,
            Content::Text(text) => text.into_bytes(),
            Content::Reader(reader) => return self.take_stream(reader, schema).await,
        };
        if bytes.len() <= CONTENT_INLINE_BYTES_MAX {
            return take_small(bytes, schema);
        }
        if let Some(schema) = schema {
            schema_check::check(schema, &bytes)?;
        }
        let (size, head) = (bytes.len() as u64, bytes[..bytes.len().min(INDEXED_TEXT_BYTES_MAX)].to_vec());
        let digest = self.workspace().store().blobs().put(&self.owner().scope, bytes).await?;
        Ok(Taken { digest, size, kept: Kept::Blob, head })
    }

    /// Reads as far as a small content reaches; if there is more, the rest goes on as a stream.
    async fn take_stream(
        &self,
        mut reader: Box<dyn AsyncRead + Send + Unpin>,
        schema: Option<&Value>,
    ) -> Result<Taken, WorkspaceError> {
        let unread = |error: io::Error| WorkspaceError::Unread(Arc::new(error));
        // A schema judges the whole, which therefore has to fit into memory.
        let at_once = if schema.is_some() { SCHEMA_BYTES_MAX } else { CONTENT_INLINE_BYTES_MAX };
        let mut beginning = Vec::new();
        (&mut reader).take(at_once as u64 + 1).read_to_end(&mut beginning).await.map_err(unread)?;
        if beginning.len() <= at_once {
            return Box::pin(self.take(Content::Bytes(beginning), schema)).await;
        }
        if schema.is_some() {
            return Err(field("schema", "given", format!("none for a content of more than {SCHEMA_BYTES_MAX} bytes")));
        }
        let mut head = Vec::new();
        let whole = Tee { reader: io::Cursor::new(beginning).chain(reader), head: &mut head };
        let put = self.workspace().store().blobs().put_stream(&self.owner().scope, whole).await;
        let (digest, size) = put.map_err(|error| match error {
            StoreError::BlobInterrupted { source } => WorkspaceError::Unread(source),
            error => WorkspaceError::Store(error),
        })?;
        Ok(Taken { digest, size, kept: Kept::Blob, head })
    }
}

/// A record of a batch.
enum Small {
    Staged(Box<StagedRecord>),
    NotSmall(Box<Ingest>),
}

fn take_small(bytes: Vec<u8>, schema: Option<&Value>) -> Result<Taken, WorkspaceError> {
    if let Some(schema) = schema {
        schema_check::check(schema, &bytes)?;
    }
    let (digest, inline) = (Digest::of(&bytes), Inline::of(&bytes));
    Ok(Taken { digest, size: bytes.len() as u64, kept: Kept::Row(Arc::new(inline)), head: bytes })
}

/// A reader of which the beginning is kept, as much as may be searched.
struct Tee<'a, R> {
    reader: R,
    head: &'a mut Vec<u8>,
}

impl<R: AsyncRead + Unpin> AsyncRead for Tee<'_, R> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = to.filled().len();
        ready!(Pin::new(&mut self.reader).poll_read(context, to))?;
        let read = &to.filled()[before..];
        let wanted = INDEXED_TEXT_BYTES_MAX.saturating_sub(self.head.len()).min(read.len());
        self.head.extend_from_slice(&read[..wanted]);
        Poll::Ready(Ok(()))
    }
}

/// A content that is durable, or on its way with its row.
struct Taken {
    digest: Digest,
    size: u64,
    kept: Kept,
    /// Its beginning, as much as may be searched.
    head: Vec<u8>,
}

/// The content's text, if its media type or its own looks say that it is one.
fn searched_text(media_type: &str, head: Vec<u8>) -> Option<String> {
    let kind = media_type.split(';').next().unwrap_or("").trim();
    let says_text = kind.starts_with("text/")
        || ["application/json", "application/xml", "application/yaml", "application/toml"].contains(&kind)
        || kind.ends_with("+json")
        || kind.ends_with("+xml");
    if !says_text {
        return None;
    }
    let text = match String::from_utf8(head) {
        Ok(text) => text,
        Err(error) => {
            let whole = error.utf8_error().valid_up_to();
            let mut bytes = error.into_bytes();
            // The last character was cut in two where the head ends.
            if bytes.len() - whole < 4 {
                bytes.truncate(whole);
            }
            String::from_utf8_lossy(&bytes).into_owned()
        }
    };
    Some(text)
}

/// Refuses what cannot be kept, before anything is written.
fn checked(what: &Ingest) -> Result<About, WorkspaceError> {
    if what.summary.trim().is_empty() {
        return Err(WorkspaceError::Missing("summary"));
    }
    if what.source.trim().is_empty() {
        return Err(WorkspaceError::Missing("source"));
    }
    check_line("summary", &what.summary, SUMMARY_CHARS_MAX)?;
    check_line("source", &what.source, RECORD_SOURCE_CHARS_MAX)?;
    check_line("media_type", &what.media_type, 200)?;
    for (name, value) in [("name", &what.name), ("subject", &what.subject), ("step", &what.step)] {
        if let Some(value) = value {
            check_line(name, value, 200)?;
        }
    }
    let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_.-".contains(&b);
    if !(1..=64).contains(&what.collection.len()) || !what.collection.bytes().all(fits) {
        return Err(field("collection", &what.collection, "1 to 64 of a-z, 0-9, `_`, `.`, `-`"));
    }
    if let Kind::Own(own) = &what.kind {
        own.parse::<Kind>()?;
    }
    if what.revise && what.name.is_none() {
        return Err(field("revise", "true", "a name whose next version this is"));
    }
    let meta = Value::Object(what.meta.clone()).to_string();
    if meta.len() > META_BYTES_MAX {
        return Err(field(
            "meta",
            &meta,
            format!("at most {META_BYTES_MAX} bytes of JSON; ingest the rest as content"),
        ));
    }
    if meta.contains("\\u0000") {
        return Err(field("meta", &meta, "text without zero characters"));
    }
    Ok(About {
        collection: what.collection.clone(),
        kind: what.kind.clone(),
        name: what.name.clone(),
        summary: what.summary.trim().to_owned(),
        source: what.source.trim().to_owned(),
        media_type: what.media_type.clone(),
        meta,
        expires_at: what.expires_at,
        subject: what.subject.clone(),
        revise: what.revise,
        execution: what.execution.clone(),
        step: what.step.clone(),
    })
}

/// Text that stands on a line of its own wherever it is shown. Summaries may have line breaks and tabs.
pub(crate) fn check_line(name: &'static str, value: &str, chars_max: usize) -> Result<(), WorkspaceError> {
    let is_control = |c: char| c.is_control() && !(name == "summary" && matches!(c, '\n' | '\t' | '\r'));
    if value.is_empty() || value.chars().count() > chars_max || value.chars().any(is_control) {
        return Err(field(name, value, format!("1 to {chars_max} characters without control characters")));
    }
    Ok(())
}

//! What is to be kept, and its way in: checked, its content made durable, its text cut for the index.
//!
//! Invariant: nothing is visible before [`StagedRecord::commit`]; a crash before it leaves at most a blob without a row,
//! which a sweep removes. Ingesting never writes user memory or facts.

use std::{fmt, sync::Arc};

use longhaul_core::{
    Digest, ExecutionId, RecordId, TimeMs,
    limits::{CONTENT_INLINE_BYTES_MAX, INDEXED_TEXT_BYTES_MAX, RECORD_SOURCE_CHARS_MAX, SUMMARY_CHARS_MAX},
};
use serde_json::{Map, Value};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::{
    Kind, RecordRef, StagedRecord, TaskWorkspace, WorkspaceError,
    content::Inline,
    error::field,
    parts, schema_check,
    staged::{About, Kept},
};

/// Largest metadata of one record, printed as JSON.
const META_BYTES_MAX: usize = 16 * 1024;
/// Records of one transaction of [`TaskWorkspace::ingest_many`].
const BATCH: usize = 256;

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
        let mut staged = Vec::with_capacity(what.len());
        for each in what {
            staged.push(self.stage(each).await?);
        }
        let references = staged.iter().map(|staged| staged.reference().clone()).collect();
        while !staged.is_empty() {
            let rest = staged.split_off(staged.len().min(BATCH));
            let batch = std::mem::replace(&mut staged, rest);
            self.workspace().store().write(move |tx| StagedRecord::commit_all(&batch, tx)).await?;
        }
        Ok(references)
    }

    /// Checks it and makes its content durable, for a transaction that then makes it visible with
    /// [`StagedRecord::commit`]. A content that no transaction ever made visible is swept away.
    ///
    /// # Errors
    /// [`WorkspaceError::Missing`] without a summary or a source, [`WorkspaceError::Field`],
    /// [`WorkspaceError::Misfit`] for content that its schema does not allow, [`WorkspaceError::Unread`]; those of the
    /// store.
    pub async fn stage(&self, what: Ingest) -> Result<StagedRecord, WorkspaceError> {
        let about = Arc::new(checked(&what)?);
        let taken = self.take(what.content, what.schema.as_ref()).await?;
        let id = RecordId::from_body(&self.workspace().store().ambient().ids.body());
        let text = what.text.or_else(|| searched_text(&about.media_type, taken.head));
        let index = parts::prepare(&self.owner().task, &id, &about, text.as_deref().unwrap_or(""))?;
        let reference = RecordRef { id, digest: taken.digest };
        let content = (taken.size, taken.kept);
        Ok(StagedRecord::new(self.workspace(), self.owner().clone(), about, reference, content, index))
    }

    /// Makes the content durable, or ready to be written as a row.
    async fn take(&self, content: Content, schema: Option<&Value>) -> Result<Taken, WorkspaceError> {
        let bytes = match content {
            Content::Bytes(bytes) => bytes,
            Content::Text(text) => text.into_bytes(),
            Content::Reader(reader) => return self.take_stream(reader, schema).await,
        };
        if let Some(schema) = schema {
            schema_check::check(schema, &bytes)?;
        }
        let size = bytes.len() as u64;
        if bytes.len() <= CONTENT_INLINE_BYTES_MAX {
            let (digest, inline) = (Digest::of(&bytes), Inline::of(&bytes));
            return Ok(Taken { digest, size, kept: Kept::Row(Arc::new(inline)), head: bytes });
        }
        let head = head(&bytes);
        let digest = self.workspace().store().blobs().put(&self.owner().scope, bytes).await?;
        Ok(Taken { digest, size, kept: Kept::Blob, head })
    }

    async fn take_stream(
        &self,
        mut reader: Box<dyn AsyncRead + Send + Unpin>,
        schema: Option<&Value>,
    ) -> Result<Taken, WorkspaceError> {
        let mut bytes = Vec::new();
        let unread = |error| WorkspaceError::Unread(Arc::new(error));
        reader.read_to_end(&mut bytes).await.map_err(unread)?;
        Box::pin(self.take(Content::Bytes(bytes), schema)).await
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

fn head(bytes: &[u8]) -> Vec<u8> {
    bytes[..bytes.len().min(INDEXED_TEXT_BYTES_MAX)].to_vec()
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

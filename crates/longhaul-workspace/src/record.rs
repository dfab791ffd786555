//! What a record is: its small reference, what is known of it, and its row.
//!
//! It owns the columns of `records`; writing rows is `staged`'s, contents are `content`'s. Invariant: who reads a row
//! here has its tenant in hand, and asks `access` before showing it.

use std::{fmt, str::FromStr};

use longhaul_core::{Digest, ExecutionId, RecordId, Scope, TaskScope, TimeMs};
use longhaul_store::{ReadTx, Row, StoreError, values};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{WorkspaceError, error::field};

/// What sort of thing a record is. One's own sorts are `[a-z][a-z0-9_]*`, at most 40 characters.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Kind {
    /// Something seen on the way.
    Observation,
    /// Something made: a patch, a report.
    Artifact,
    /// A choice and its reason.
    Decision,
    /// What supports or refutes a claim.
    Evidence,
    /// A short text for later.
    Note,
    /// Where a piece of work stood.
    Checkpoint,
    /// Another sort; `"invoice".parse()` checks its name.
    Own(String),
}

impl Kind {
    /// Those that everybody knows.
    pub const KNOWN: [Self; 6] =
        [Self::Observation, Self::Artifact, Self::Decision, Self::Evidence, Self::Note, Self::Checkpoint];

    /// The word it is stored and printed as.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Observation => "observation",
            Self::Artifact => "artifact",
            Self::Decision => "decision",
            Self::Evidence => "evidence",
            Self::Note => "note",
            Self::Checkpoint => "checkpoint",
            Self::Own(name) => name,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Kind {
    type Err = WorkspaceError;
    fn from_str(word: &str) -> Result<Self, WorkspaceError> {
        if let Some(known) = Self::KNOWN.into_iter().find(|kind| kind.as_str() == word) {
            return Ok(known);
        }
        if !is_word(word) {
            return Err(field("kind", word, "a letter a-z and up to 39 of a-z, 0-9, `_`"));
        }
        Ok(Self::Own(word.to_owned()))
    }
}

impl TryFrom<String> for Kind {
    type Error = WorkspaceError;
    fn try_from(word: String) -> Result<Self, WorkspaceError> {
        word.parse()
    }
}

impl From<Kind> for String {
    fn from(kind: Kind) -> Self {
        kind.as_str().to_owned()
    }
}

/// Names of kinds and relations.
pub(crate) fn is_word(word: &str) -> bool {
    (1..=40).contains(&word.len())
        && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        && word.as_bytes()[0].is_ascii_lowercase()
}

/// The small reference that state, prompts and other rows carry.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RecordRef {
    /// The record.
    pub id: RecordId,
    /// Digest of its content.
    pub digest: Digest,
}

/// A record that is asked for: by its id, or by a ref, whose digest it must then have.
#[derive(Debug, Clone, Copy)]
pub enum Wanted<'a> {
    /// Whatever the record's content is.
    Id(&'a RecordId),
    /// This content and no other.
    Ref(&'a RecordRef),
}

impl Wanted<'_> {
    pub(crate) fn id(&self) -> &RecordId {
        match self {
            Self::Id(id) => id,
            Self::Ref(reference) => &reference.id,
        }
    }

    pub(crate) fn digest(&self) -> Option<&Digest> {
        match self {
            Self::Id(_) => None,
            Self::Ref(reference) => Some(&reference.digest),
        }
    }
}

impl<'a> From<&'a RecordId> for Wanted<'a> {
    fn from(id: &'a RecordId) -> Self {
        Self::Id(id)
    }
}

impl<'a> From<&'a RecordRef> for Wanted<'a> {
    fn from(reference: &'a RecordRef) -> Self {
        Self::Ref(reference)
    }
}

/// A stored record, without its content.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Record {
    /// The reference.
    #[serde(flatten)]
    pub reference: RecordRef,
    /// Whose task it belongs to, with the conversation and the request that led there.
    pub owner: TaskScope,
    /// The execution that made it, if one did.
    pub execution: Option<ExecutionId>,
    /// The step of that execution: `review/3/draft#1`.
    pub step: Option<String>,
    /// Its number within the task, from 1 in the order of ingestion.
    pub seq: i64,
    /// Group in which it is looked up: `evidence`.
    pub collection: String,
    /// What sort of thing it is.
    pub kind: Kind,
    /// The name under which it has versions, if any.
    pub name: Option<String>,
    /// Its version under that name, from 1.
    pub version: u32,
    /// Media type of the content: `image/png`.
    pub media_type: String,
    /// What it is, in a few words.
    pub summary: String,
    /// Where it came from: `tool:shell`, `user`, `web https://…`.
    pub source: String,
    /// Anything else that was said of it.
    pub meta: Map<String, Value>,
    /// Size of the content in bytes.
    pub size: u64,
    /// Whom or what it is about: `customer:42`.
    pub subject: Option<String>,
    /// When it was ingested.
    pub created_at: TimeMs,
    /// When it stops being found.
    pub expires_at: Option<TimeMs>,
    /// The version that took its place.
    pub superseded_by: Option<RecordId>,
    #[serde(skip)]
    pub(crate) place: Place,
    /// Rows of the index that belong to it.
    #[serde(skip)]
    pub(crate) parts: u32,
}

/// Where a content is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// In `contents`.
    Row,
    /// Among the store's blobs.
    Blob,
}

impl Place {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Row => "row",
            Self::Blob => "blob",
        }
    }
}

/// The columns [`record`] reads, in its order.
pub(crate) const COLUMNS: &str = "record_id, digest, tenant_id, user_id, session_id, task_id, trace_id, execution_id,
    step, seq, collection, kind, name, version, media_type, summary, source, meta, size, subject, created_at, expires_at,
    superseded_by, place, parts";

/// Reads one row of [`COLUMNS`].
pub(crate) fn record(row: &Row<'_>) -> Result<Record, StoreError> {
    let id: RecordId = row.get(0)?;
    let wrong = |column, expected| StoreError::Column {
        column,
        expected,
        found: row.text(column).unwrap_or("").chars().take(80).collect(),
    };
    Ok(Record {
        owner: TaskScope {
            scope: Scope { tenant: row.get(2)?, user: row.get(3)? },
            session: row.get(4)?,
            task: row.get(5)?,
            trace: row.get(6)?,
        },
        execution: row.get(7)?,
        step: row.get(8)?,
        seq: row.get(9)?,
        collection: row.get(10)?,
        kind: row.text(11)?.parse().map_err(|_| wrong(11, "a kind of record"))?,
        name: row.get(12)?,
        version: row.get(13)?,
        media_type: row.get(14)?,
        summary: row.get(15)?,
        source: row.get(16)?,
        meta: serde_json::from_str(row.text(17)?).map_err(StoreError::record("record", &id))?,
        size: row.get(18)?,
        subject: row.get(19)?,
        created_at: row.get(20)?,
        expires_at: row.get(21)?,
        superseded_by: row.get(22)?,
        place: match row.text(23)? {
            "row" => Place::Row,
            "blob" => Place::Blob,
            _ => return Err(wrong(23, "`row` or `blob`")),
        },
        parts: row.get(24)?,
        reference: RecordRef { id, digest: row.get(1)? },
    })
}

/// The tenant's record of this id, whoever may read it, expired or not.
pub(crate) fn find(read: &ReadTx<'_>, scope: &Scope, id: &RecordId) -> Result<Option<Record>, StoreError> {
    let sql = format!("select {COLUMNS} from records where tenant_id = ?1 and record_id = ?2");
    read.query_optional(&sql, &values![&scope.tenant, id], record)
}

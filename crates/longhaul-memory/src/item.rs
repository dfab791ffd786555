//! What a memory is, before it is stored and when it is found; and what may be asked. Plain data.
//!
//! Invariant: a [`Prepared`] memory has passed every check, so writing it can only fail in the store.

use std::{collections::BTreeMap, fmt, str::FromStr};

use longhaul_core::{MemoryId, TaskId, TimeMs, UserId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{MemoryError, text};

/// Largest content of one memory. Larger things belong into the workspace, their summary into memory.
pub const CONTENT_BYTES_MAX: usize = 64 * 1024;
/// Largest metadata of one memory, printed as JSON.
pub const META_BYTES_MAX: usize = 16 * 1024;
/// Most hits of one search.
pub const HITS_MAX: usize = 200;

macro_rules! words {
    ($(#[$doc:meta])* $name:ident, $field:literal { $($(#[$variant_doc:meta])* $variant:ident = $word:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $name { $($(#[$variant_doc])* $variant),* }

        impl $name {
            /// All of them.
            pub const ALL: &'static [$name] = &[$($name::$variant),*];

            /// The word it is stored and printed as.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $($name::$variant => $word),* }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl FromStr for $name {
            type Err = MemoryError;
            fn from_str(word: &str) -> Result<Self, MemoryError> {
                match word {
                    $($word => Ok($name::$variant),)*
                    _ => Err(field($field, word, concat!("one of", $(" ", $word),*))),
                }
            }
        }
    };
}

words! {
    /// What sort of thing is remembered; it decides how fast the memory fades.
    Kind, "kind" {
        /// Where a piece of work stood.
        Progress = "progress",
        /// A commit: its message and what it touched.
        Commit = "commit",
        /// Something that happened: a message, a tool's output, a verdict.
        Episode = "episode",
        /// What an agent chose to write down.
        Note = "note",
        /// What went wrong, and how it was mended.
        Lesson = "lesson",
        /// A choice and its reason.
        Decision = "decision",
        /// Something lasting about the world. Does not fade.
        Fact = "fact",
        /// What a user wants, always. Does not fade.
        Preference = "preference",
    }
}

impl Kind {
    /// Time after which half of the part of the weight that can fade is gone; `None` for what does not fade.
    #[must_use]
    pub fn half_life_days(self) -> Option<f32> {
        match self {
            Self::Progress | Self::Episode => Some(30.0),
            Self::Commit => Some(90.0),
            Self::Note | Self::Lesson => Some(180.0),
            Self::Decision => Some(365.0),
            Self::Fact | Self::Preference => None,
        }
    }
}

words! {
    /// Where a memory's text came from: the label it keeps wherever it is recalled (invariant 13).
    Source, "source" {
        /// The runtime itself.
        Harness = "harness",
        /// A model's words.
        Agent = "agent",
        /// A user's words.
        User = "user",
        /// A tool's output.
        Tool = "tool",
        /// Text from outside: a page, a message, a document.
        Outside = "outside",
    }
}

/// Something to be remembered.
#[derive(Debug, Clone, PartialEq)]
pub struct NewMemory {
    /// Named group of memories, `[a-z0-9_.-]`, 1 to 64 characters: `project`, `user`.
    pub collection: String,
    /// What sort of thing it is.
    pub kind: Kind,
    /// The text, 1 to [`CONTENT_BYTES_MAX`] bytes. Keywords are taken from all of it; its vector from the beginning,
    /// as far as the embedder's window reaches.
    pub content: String,
    /// Anything to filter by or to show, at most [`META_BYTES_MAX`]. Only top-level scalars can be filtered by.
    pub meta: Map<String, Value>,
    /// 0 to 1; 0.5 for the ordinary.
    pub importance: f32,
    /// The task it belongs to, if to one.
    pub task: Option<TaskId>,
    /// Where the text came from.
    pub source: Source,
    /// When it stops being found.
    pub expires_at: Option<TimeMs>,
}

impl NewMemory {
    /// A memory of ordinary importance without metadata, task or expiry.
    #[must_use]
    pub fn new(collection: &str, kind: Kind, source: Source, content: impl Into<String>) -> Self {
        Self {
            collection: collection.to_owned(),
            kind,
            content: content.into(),
            meta: Map::new(),
            importance: 0.5,
            task: None,
            source,
            expires_at: None,
        }
    }

    /// Checks it and takes the search terms from its text. Do this before a transaction begins.
    ///
    /// # Errors
    /// [`MemoryError::Empty`], [`MemoryError::TooLong`], [`MemoryError::MetaTooLong`], [`MemoryError::Field`].
    pub fn prepare(self) -> Result<Prepared, MemoryError> {
        if self.content.trim().is_empty() {
            return Err(MemoryError::Empty);
        }
        let bytes = self.content.len();
        if bytes > CONTENT_BYTES_MAX {
            return Err(MemoryError::TooLong { bytes, bytes_max: CONTENT_BYTES_MAX });
        }
        let meta = Value::Object(self.meta.clone()).to_string();
        if meta.len() > META_BYTES_MAX {
            return Err(MemoryError::MetaTooLong { bytes: meta.len(), bytes_max: META_BYTES_MAX });
        }
        if !(0.0..=1.0).contains(&self.importance) {
            return Err(field("importance", &self.importance.to_string(), "a number from 0 to 1"));
        }
        check_collection(&self.collection)?;
        let (terms, length) = counted(&self.content);
        Ok(Prepared { memory: self, meta, terms, length })
    }
}

/// A memory that has passed every check, with its search terms.
#[derive(Debug, Clone)]
pub struct Prepared {
    pub(crate) memory: NewMemory,
    /// The metadata, printed.
    pub(crate) meta: String,
    /// How often each term occurs. Sorted, so that writers lock postings in one order.
    pub(crate) terms: BTreeMap<String, u32>,
    /// Number of terms in all.
    pub(crate) length: u32,
}

/// The terms of a text with their counts, and how many there are in all.
pub(crate) fn counted(content: &str) -> (BTreeMap<String, u32>, u32) {
    let mut terms = BTreeMap::new();
    let mut length = 0;
    for term in text::terms(content) {
        *terms.entry(term).or_insert(0) += 1;
        length += 1;
    }
    (terms, length)
}

pub(crate) fn field(field: &'static str, value: &str, expected: &'static str) -> MemoryError {
    MemoryError::Field { field, value: value.chars().take(80).collect(), expected }
}

pub(crate) fn check_collection(name: &str) -> Result<(), MemoryError> {
    let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_.-".contains(&b);
    if (1..=64).contains(&name.len()) && name.bytes().all(fits) {
        return Ok(());
    }
    Err(field("collection", name, "1 to 64 of a-z, 0-9, `_`, `.`, `-`"))
}

/// What to search for. Every filter is applied before anything is scored.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Query {
    /// In any words and any language; the first 4,096 characters count.
    pub text: String,
    /// Most hits, 1 to [`HITS_MAX`].
    pub k: usize,
    /// Only of these collections; empty for all.
    pub collections: Vec<String>,
    /// Only of these kinds; empty for all.
    pub kinds: Vec<Kind>,
    /// Only of this task.
    pub task: Option<TaskId>,
    /// Only what this user wrote or had written for them.
    pub user: Option<UserId>,
    /// Only from this moment on.
    pub since: Option<TimeMs>,
    /// Only from before this moment.
    pub until: Option<TimeMs>,
    /// Only with these values in the metadata: text, number, or boolean, compared exactly.
    pub meta: Map<String, Value>,
}

impl Query {
    /// A search for the `k` best of everything in the tenant.
    #[must_use]
    pub fn new(text: impl Into<String>, k: usize) -> Self {
        Self { text: text.into(), k, ..Self::default() }
    }
}

/// One stored memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Item {
    /// Identity.
    pub id: MemoryId,
    /// Named group.
    pub collection: String,
    /// What sort of thing it is.
    pub kind: Kind,
    /// Where the text came from.
    pub source: Source,
    /// The text.
    pub content: String,
    /// Metadata.
    pub meta: Map<String, Value>,
    /// 0 to 1.
    pub importance: f32,
    /// On whose behalf it was written.
    pub user: UserId,
    /// The task it belongs to.
    pub task: Option<TaskId>,
    /// When it was written.
    pub created_at: TimeMs,
    /// When it stops being found.
    pub expires_at: Option<TimeMs>,
}

/// One memory that answers a query, and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hit {
    /// The memory.
    pub item: Item,
    /// 0 to 1; comparable within one answer.
    pub score: f32,
    /// How the score came about.
    pub explain: Explain,
}

/// The parts of a score: `(weight · keyword + weight · vector) · importance · decay`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Explain {
    /// Match of the words, 0 to 1, relative to the best in this answer.
    pub keyword: f32,
    /// Nearness of the meaning, 0 to 1, relative to the best in this answer.
    pub vector: f32,
    /// Factor for the memory's importance.
    pub importance: f32,
    /// Factor for its age.
    pub decay: f32,
    /// The BM25 score behind `keyword`.
    pub bm25: f32,
    /// The cosine behind `vector`, where the memory has been embedded.
    pub cosine: Option<f32>,
}

/// How a search was carried out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// By words and by meaning.
    Hybrid,
    /// By words alone.
    Keyword {
        /// Why the meaning could not be used.
        reason: String,
    },
}

/// The answer of a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recall {
    /// Best first.
    pub hits: Vec<Hit>,
    /// How it was searched.
    pub mode: Mode,
    /// Memories that passed the filters.
    pub considered: usize,
    /// Of these, how many have no vector yet and could be found by words alone.
    pub unembedded: usize,
    /// Time of the search itself, in microseconds.
    pub elapsed_us: u64,
    /// Time of embedding the query, in microseconds.
    pub embedded_us: u64,
}

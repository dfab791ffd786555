//! What a memory is, before it is stored and when it is found. Plain data; what may be asked is in `query`.
//!
//! Invariant: a [`Prepared`] memory has passed every check, so writing it can only fail in the store.

use std::{collections::BTreeMap, fmt, str::FromStr};

use longhaul_core::{MemoryId, TaskId, TimeMs, UserId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{MemoryError, Namespace, text};

/// Largest content of one memory. Larger things belong into the workspace, their summary into memory.
pub const CONTENT_BYTES_MAX: usize = 64 * 1024;
/// Largest metadata of one memory, printed as JSON.
pub const META_BYTES_MAX: usize = 16 * 1024;
/// Most tags of one memory.
pub const TAGS_MAX: usize = 64;

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

pub(crate) use words;

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

/// Which indexes a memory is put into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Index {
    /// Found by its words and by its meaning.
    #[default]
    Both,
    /// By its words alone; it is never embedded.
    Words,
    /// By its meaning alone.
    Meaning,
    /// By filters and ids alone.
    Nothing,
}

impl Index {
    /// Has keywords.
    #[must_use]
    pub fn has_words(self) -> bool {
        matches!(self, Self::Both | Self::Words)
    }

    /// Has, or will have, a vector.
    #[must_use]
    pub fn has_meaning(self) -> bool {
        matches!(self, Self::Both | Self::Meaning)
    }

    /// As it is stored: 1 for words, 2 for meaning.
    pub(crate) fn stored(self) -> u32 {
        u32::from(self.has_words()) + 2 * u32::from(self.has_meaning())
    }

    pub(crate) fn from_stored(stored: u32) -> Self {
        match (stored & 1, stored & 2) {
            (1, 2) => Self::Both,
            (1, _) => Self::Words,
            (_, 2) => Self::Meaning,
            _ => Self::Nothing,
        }
    }
}

/// What a memory says of the world: a value of some attribute of some subject, true for some time. A newer fact on the
/// same subject and attribute supersedes it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Fact {
    /// Whom or what it is about, 1 to 256 characters: `user`, `service billing`.
    pub subject: String,
    /// What about it, 1 to 256 characters: `home town`, `owner`.
    pub attribute: String,
    /// When it began to be true; `None` for always.
    pub valid_from: Option<TimeMs>,
    /// When it ceased to be true; `None` for not yet.
    pub valid_to: Option<TimeMs>,
}

/// Something to be remembered.
#[derive(Debug, Clone, PartialEq)]
pub struct NewMemory {
    /// The partition of the tenant that it goes to.
    pub namespace: Namespace,
    /// Named group of memories, `[a-z0-9_.-]`, 1 to 64 characters: `project`, `user`.
    pub collection: String,
    /// What sort of thing it is.
    pub kind: Kind,
    /// The text, 1 to [`CONTENT_BYTES_MAX`] bytes. Keywords are taken from all of it; its vector from the beginning,
    /// as far as the embedder's window reaches.
    pub content: String,
    /// Anything to filter by or to show, at most [`META_BYTES_MAX`]. Only top-level scalars can be filtered by.
    pub meta: Map<String, Value>,
    /// At most [`TAGS_MAX`], each 1 to 64 characters.
    pub tags: Vec<String>,
    /// 0 to 1; 0.5 for the ordinary.
    pub importance: f32,
    /// Stays hot and important whatever its age.
    pub pinned: bool,
    /// The task it belongs to, if to one.
    pub task: Option<TaskId>,
    /// The conversation, session or document it belongs to, 1 to 256 characters. Memories of one thread are each
    /// other's context, in the order of writing.
    pub thread: Option<String>,
    /// Where the text came from.
    pub source: Source,
    /// When it happened; `None` for when it is written.
    pub happened_at: Option<TimeMs>,
    /// When it stops being found.
    pub expires_at: Option<TimeMs>,
    /// What it says of the world, if it is such a statement.
    pub fact: Option<Fact>,
    /// Which indexes it is put into.
    pub index: Index,
    /// Its vector by the memory's embedder, where the caller has it already; of any length but zero.
    pub vector: Option<Vec<f32>>,
}

impl NewMemory {
    /// A memory of ordinary importance in the namespace `main`, with no more than this.
    #[must_use]
    pub fn new(collection: &str, kind: Kind, source: Source, content: impl Into<String>) -> Self {
        Self {
            namespace: Namespace::default(),
            collection: collection.to_owned(),
            kind,
            content: content.into(),
            meta: Map::new(),
            tags: Vec::new(),
            importance: 0.5,
            pinned: false,
            task: None,
            thread: None,
            source,
            happened_at: None,
            expires_at: None,
            fact: None,
            index: Index::Both,
            vector: None,
        }
    }

    /// Checks it and takes the search terms from its text. Do this before a transaction begins.
    ///
    /// # Errors
    /// [`MemoryError::Empty`], [`MemoryError::TooLong`], [`MemoryError::MetaTooLong`], [`MemoryError::Field`].
    pub fn prepare(self) -> Result<Prepared, MemoryError> {
        let mut prepared = self.checked()?;
        prepared.count_terms();
        Ok(prepared)
    }

    /// Checks it, and leaves taking the search terms for [`Prepared::count_terms`].
    pub(crate) fn checked(self) -> Result<Prepared, MemoryError> {
        check_content(&self.content)?;
        let meta = printed_meta(&self.meta)?;
        check_importance(self.importance)?;
        check_collection(&self.collection)?;
        let tags = printed_tags(&self.tags)?;
        if let Some(thread) = &self.thread {
            check_name("thread", thread)?;
        }
        if let Some(fact) = &self.fact {
            check_name("subject", &fact.subject)?;
            check_name("attribute", &fact.attribute)?;
            if fact.valid_from.zip(fact.valid_to).is_some_and(|(from, to)| from >= to) {
                return Err(field("valid_to", "not after valid_from", "a moment after valid_from, or none"));
            }
        }
        Ok(Prepared { memory: self, meta, tags, terms: BTreeMap::new(), length: 0 })
    }
}

pub(crate) fn check_content(content: &str) -> Result<(), MemoryError> {
    if content.trim().is_empty() {
        return Err(MemoryError::Empty);
    }
    let bytes = content.len();
    if bytes > CONTENT_BYTES_MAX {
        return Err(MemoryError::TooLong { bytes, bytes_max: CONTENT_BYTES_MAX });
    }
    // A database that takes text to its end cannot hold one.
    if content.contains('\0') {
        return Err(field("content", "text with a zero character", "text; put binary content into the workspace"));
    }
    Ok(())
}

pub(crate) fn check_importance(importance: f32) -> Result<(), MemoryError> {
    if (0.0..=1.0).contains(&importance) {
        return Ok(());
    }
    Err(field("importance", &importance.to_string(), "a number from 0 to 1"))
}

/// The metadata as it is stored.
pub(crate) fn printed_meta(meta: &Map<String, Value>) -> Result<String, MemoryError> {
    if let Some(key) = meta.keys().find(|key| !(1..=128).contains(&key.chars().count())) {
        return Err(field("meta key", key, "a name of 1 to 128 characters"));
    }
    let printed = serde_json::to_string(meta).unwrap_or_default();
    if printed.len() > META_BYTES_MAX {
        return Err(MemoryError::MetaTooLong { bytes: printed.len(), bytes_max: META_BYTES_MAX });
    }
    Ok(printed)
}

/// The tags as they are stored: each once, sorted, as a JSON array.
pub(crate) fn printed_tags(tags: &[String]) -> Result<String, MemoryError> {
    if tags.len() > TAGS_MAX {
        return Err(field("tags", &format!("{} tags", tags.len()), "at most 64 tags"));
    }
    tags.iter().try_for_each(|tag| check_tag(tag))?;
    let each: std::collections::BTreeSet<&String> = tags.iter().collect();
    Ok(serde_json::to_string(&each).unwrap_or_default())
}

pub(crate) fn check_tag(tag: &str) -> Result<(), MemoryError> {
    let chars = tag.chars().count();
    if (1..=64).contains(&chars) && !tag.chars().any(char::is_control) {
        return Ok(());
    }
    Err(field("tag", tag, "1 to 64 characters without control characters"))
}

pub(crate) fn check_name(name: &'static str, value: &str) -> Result<(), MemoryError> {
    let chars = value.chars().count();
    if (1..=256).contains(&chars) && !value.chars().any(char::is_control) {
        return Ok(());
    }
    Err(field(name, value, "1 to 256 characters without control characters"))
}

/// A memory that has passed every check, with its search terms.
#[derive(Debug, Clone)]
pub struct Prepared {
    pub(crate) memory: NewMemory,
    /// The metadata, printed.
    pub(crate) meta: String,
    /// The tags, printed.
    pub(crate) tags: String,
    /// How often each term occurs. Sorted, so that writers lock postings in one order.
    pub(crate) terms: BTreeMap<String, u32>,
    /// Number of terms in all.
    pub(crate) length: u32,
}

impl Prepared {
    /// Takes the search terms from the text.
    pub(crate) fn count_terms(&mut self) {
        if self.memory.index.has_words() {
            (self.terms, self.length) = counted(&self.memory.content);
        }
    }

    /// The memory that was checked.
    #[must_use]
    pub fn memory(&self) -> &NewMemory {
        &self.memory
    }
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

/// Where a memory is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// In the store's tables.
    #[default]
    Hot,
    /// In a segment of the object store.
    Cold,
}

/// One stored memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Item {
    /// Identity.
    pub id: MemoryId,
    /// The partition it is in.
    #[serde(default)]
    pub namespace: Namespace,
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
    /// Sorted.
    #[serde(default)]
    pub tags: Vec<String>,
    /// 0 to 1.
    pub importance: f32,
    /// Stays hot and important whatever its age.
    #[serde(default)]
    pub pinned: bool,
    /// On whose behalf it was written.
    pub user: UserId,
    /// The task it belongs to.
    pub task: Option<TaskId>,
    /// The conversation, session or document it belongs to.
    #[serde(default)]
    pub thread: Option<String>,
    /// When it was written.
    pub created_at: TimeMs,
    /// When it happened.
    #[serde(default = "unknown_time")]
    pub happened_at: TimeMs,
    /// When it stops being found.
    pub expires_at: Option<TimeMs>,
    /// What it says of the world.
    #[serde(default)]
    pub fact: Option<Fact>,
    /// The newer fact that took its place.
    #[serde(default)]
    pub superseded_by: Option<MemoryId>,
    /// When we learned the newer fact.
    #[serde(default)]
    pub superseded_at: Option<TimeMs>,
    /// Which indexes it is in.
    #[serde(default)]
    pub index: Index,
    /// Where it is kept.
    #[serde(default)]
    pub tier: Tier,
}

/// For items recorded before there was such a thing.
fn unknown_time() -> TimeMs {
    TimeMs(0)
}

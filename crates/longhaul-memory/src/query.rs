//! What may be asked of memory, and what is answered. Plain data.

use longhaul_core::{TaskId, TimeMs, UserId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Explain, Item, Kind, MemoryError, Namespace, item::field};

/// Most hits of one search.
pub const HITS_MAX: usize = 200;
/// Most conditions on metadata in one query.
pub const CONDITIONS_MAX: usize = 32;

/// How a condition compares a memory's field with its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// Equal; `2` equals `2.0`, and nothing equals a value of another type.
    Eq,
    /// Not equal; true where the field is missing.
    Ne,
    /// Less: numbers by value, texts by their characters' numbers.
    Lt,
    /// Less or equal.
    Le,
    /// Greater.
    Gt,
    /// Greater or equal.
    Ge,
    /// Equal to one of the values of an array.
    In,
    /// The field is there (`true`) or missing (`false`).
    Exists,
}

/// A condition on a top-level scalar of the metadata.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Condition {
    /// Key in the metadata.
    pub field: String,
    /// How to compare.
    pub op: Op,
    /// With what: a text, a number, `true` or `false`; an array of these for [`Op::In`].
    pub value: Value,
}

impl Condition {
    /// A condition on this field.
    #[must_use]
    pub fn new(field: &str, op: Op, value: impl Into<Value>) -> Self {
        Self { field: field.to_owned(), op, value: value.into() }
    }
}

/// Which tiers are searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tiers {
    /// Everything.
    #[default]
    All,
    /// The store's tables alone.
    Hot,
    /// The object store alone.
    Cold,
}

/// What to search for. Every filter is applied before anything is scored.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    /// In any words and any language; the first 4,096 characters count. May be empty where there is a vector.
    pub text: String,
    /// Most hits, 1 to [`HITS_MAX`].
    pub k: usize,
    /// The partitions to search; empty for `main`. Each needs the right to read.
    pub namespaces: Vec<Namespace>,
    /// Only of these collections; empty for all.
    pub collections: Vec<String>,
    /// Only of these kinds; empty for all.
    pub kinds: Vec<Kind>,
    /// Only with all of these tags.
    pub tags: Vec<String>,
    /// Only of this task.
    pub task: Option<TaskId>,
    /// Only what this user wrote or had written for them.
    pub user: Option<UserId>,
    /// Only of this thread.
    pub thread: Option<String>,
    /// Only what happened at this moment or later.
    pub since: Option<TimeMs>,
    /// Only what happened before this moment.
    pub until: Option<TimeMs>,
    /// Only where all of these hold of the metadata, at most [`CONDITIONS_MAX`].
    pub filter: Vec<Condition>,
    /// Only facts about this subject.
    pub subject: Option<String>,
    /// Facts as they were true at this moment; `None` for now.
    pub as_of: Option<TimeMs>,
    /// What was believed at this moment: nothing learned later counts. `None` for now.
    pub known_at: Option<TimeMs>,
    /// Facts that were superseded or are not valid as well.
    pub include_superseded: bool,
    /// Which tiers to search.
    pub tiers: Tiers,
    /// Whether neighbours in the same thread weigh in.
    pub context: bool,
    /// The vector to search by instead of the text's, of any length but zero.
    pub vector: Option<Vec<f32>>,
}

impl Default for Query {
    fn default() -> Self {
        Self {
            text: String::new(),
            k: 10,
            namespaces: Vec::new(),
            collections: Vec::new(),
            kinds: Vec::new(),
            tags: Vec::new(),
            task: None,
            user: None,
            thread: None,
            since: None,
            until: None,
            filter: Vec::new(),
            subject: None,
            as_of: None,
            known_at: None,
            include_superseded: false,
            tiers: Tiers::All,
            context: true,
            vector: None,
        }
    }
}

impl Query {
    /// A search for the `k` best of everything in the namespace `main`.
    #[must_use]
    pub fn new(text: impl Into<String>, k: usize) -> Self {
        Self { text: text.into(), k, ..Self::default() }
    }

    /// The number of hits asked for, if it is one that may be.
    pub(crate) fn checked_k(&self) -> Result<usize, MemoryError> {
        if (1..=HITS_MAX).contains(&self.k) {
            return Ok(self.k);
        }
        Err(field("k", &self.k.to_string(), "a number of hits from 1 to 200"))
    }
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
    /// What the reader should know of the answer: `3 cold segments could not be read: …`.
    #[serde(default)]
    pub notes: Vec<String>,
}

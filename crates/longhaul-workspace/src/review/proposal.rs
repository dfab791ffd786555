//! What is proposed for shared knowledge, and what an entry is. Plain data and its checks.
//!
//! Invariant: a wish is a key, a value that fits a schema, and what shows it; nothing here writes.

use std::{collections::BTreeSet, fmt, str::FromStr};

use longhaul_core::{Digest, TaskScope, TimeMs, limits::REFS_MAX};
use longhaul_memory::user::Actor;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ReviewError;

/// Largest value of an entry, printed as JSON.
pub const VALUE_BYTES_MAX: usize = 32 * 1024;
/// Characters of a reason.
pub const WHY_CHARS_MAX: usize = 1_000;
const KEY_CHARS_MAX: usize = 128;

/// A proposal's id, printed `proposal_…`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ReviewId(pub(super) String);

impl fmt::Display for ReviewId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for ReviewId {
    type Err = ReviewError;
    fn from_str(text: &str) -> Result<Self, ReviewError> {
        let fits = |body: &str| (1..=64).contains(&body.len()) && body.bytes().all(|b| b.is_ascii_alphanumeric());
        if text.strip_prefix("proposal_").is_some_and(fits) {
            return Ok(Self(text.to_owned()));
        }
        Err(wrong("proposal id", text, "`proposal_` and 1 to 64 letters or digits"))
    }
}

impl TryFrom<String> for ReviewId {
    type Error = ReviewError;
    fn try_from(text: String) -> Result<Self, ReviewError> {
        text.parse()
    }
}

impl From<ReviewId> for String {
    fn from(id: ReviewId) -> Self {
        id.0
    }
}

/// What became of a proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReviewState {
    /// Waits for a person.
    Pending,
    /// Approved: it is a version.
    Applied,
    /// Not wanted.
    Rejected,
}

impl ReviewState {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Pending, Self::Applied, Self::Rejected];

    /// The word it is stored and printed as.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Applied => "applied",
            Self::Rejected => "rejected",
        }
    }
}

impl FromStr for ReviewState {
    type Err = ReviewError;
    fn from_str(word: &str) -> Result<Self, ReviewError> {
        let found = Self::ALL.into_iter().find(|state| state.as_str() == word);
        found.ok_or_else(|| wrong("state", word, "pending, applied or rejected"))
    }
}

/// What an entry says: a value of a schema.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Said {
    /// The schema that the value fits.
    pub schema: String,
    /// The value.
    pub value: Value,
}

/// A change that is to be proposed.
#[derive(Debug, Clone, PartialEq)]
pub struct NewProposal {
    /// The entry: 1 to 128 of `a-z`, `0-9` and `_./:-`, as in `billing/port`.
    pub key: String,
    /// What it would say; `None` for an entry that should go.
    pub said: Option<Said>,
    /// What shows it: ids of records, messages, steps, memories. At least one; each must exist.
    pub evidence: Vec<String>,
    /// Why, in a sentence or two.
    pub why: String,
    /// Who proposes.
    pub proposer: Actor,
}

impl NewProposal {
    /// Another value for an entry.
    #[must_use]
    pub fn set(key: &str, schema: &str, value: Value, proposer: Actor) -> Self {
        let said = Some(Said { schema: schema.to_owned(), value });
        Self { key: key.to_owned(), said, evidence: Vec::new(), why: String::new(), proposer }
    }

    /// An entry would go.
    #[must_use]
    pub fn retire(key: &str, proposer: Actor) -> Self {
        Self { key: key.to_owned(), said: None, evidence: Vec::new(), why: String::new(), proposer }
    }

    /// The same with one more reason to believe it.
    #[must_use]
    pub fn shown_by(mut self, id: impl fmt::Display) -> Self {
        self.evidence.push(id.to_string());
        self
    }

    /// The same with a reason in words.
    #[must_use]
    pub fn because(self, why: &str) -> Self {
        Self { why: why.to_owned(), ..self }
    }

    /// Checks what can be checked without the store.
    pub(super) fn check(&self) -> Result<(), ReviewError> {
        check_key(&self.key)?;
        if let Some(Said { schema, value }) = &self.said {
            check_schema_id(schema)?;
            let bytes = value.to_string().len();
            if bytes > VALUE_BYTES_MAX {
                return Err(ReviewError::ValueTooLong { bytes, bytes_max: VALUE_BYTES_MAX });
            }
            if value.to_string().contains("\\u0000") {
                return Err(wrong("value", "a text with a zero character", "text without one"));
            }
        }
        if self.why.chars().count() > WHY_CHARS_MAX || self.why.contains('\0') {
            return Err(wrong("why", &self.why, "at most 1000 characters of text"));
        }
        match self.evidence.len() {
            0 => Err(ReviewError::NoEvidence),
            1..=REFS_MAX => Ok(()),
            many => Err(wrong("evidence", &many.to_string(), "at most 256 ids")),
        }
    }

    /// Equal for proposals that want the same of the same entry.
    pub(super) fn wish(&self) -> String {
        let said = self.said.as_ref().map(|said| format!("{}\u{1}{}", said.schema, said.value));
        Digest::of(format!("{}\u{1}{}", self.key, said.unwrap_or_default())).hex()
    }
}

pub(super) fn check_key(key: &str) -> Result<(), ReviewError> {
    let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_./:-".contains(&b);
    if (1..=KEY_CHARS_MAX).contains(&key.len()) && key.bytes().all(fits) {
        return Ok(());
    }
    Err(wrong("key", key, "1 to 128 of a-z, 0-9, `_`, `.`, `/`, `:`, `-`"))
}

pub(super) fn check_schema_id(id: &str) -> Result<(), ReviewError> {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b"_.-@/".contains(&b);
    if (1..=KEY_CHARS_MAX).contains(&id.len()) && id.bytes().all(fits) {
        return Ok(());
    }
    Err(wrong("schema", id, "1 to 128 letters, digits, `_`, `.`, `-`, `@`, `/`, as in `service_port@1`"))
}

pub(super) fn wrong(field: &'static str, value: &str, expected: &'static str) -> ReviewError {
    ReviewError::Field { field, value: value.chars().take(80).collect(), expected }
}

/// One proposal, as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reviewed {
    /// Identity.
    pub id: ReviewId,
    /// In whose task it was proposed.
    pub owner: TaskScope,
    /// The entry.
    pub key: String,
    /// What it would say; `None` for an entry that should go.
    pub said: Option<Said>,
    /// What shows it.
    pub evidence: BTreeSet<String>,
    /// Why.
    pub why: String,
    /// Who proposes.
    pub proposer: Actor,
    /// The entry's version when it was proposed.
    pub base_version: u32,
    /// What became of it.
    pub state: ReviewState,
    /// When it was proposed.
    pub created_at: TimeMs,
    /// When it was decided.
    pub decided_at: Option<TimeMs>,
    /// Who decided.
    pub decided_by: Option<Actor>,
    /// What they said to it.
    pub note: Option<String>,
    /// The version that it became.
    pub version: Option<u32>,
}

/// What made a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SharedAction {
    /// A proposal was approved.
    Approved,
    /// An earlier version was restored.
    RolledBack,
}

impl SharedAction {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Approved => "approved",
            Self::RolledBack => "rolled_back",
        }
    }
}

/// One version of an entry of shared knowledge.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SharedVersion {
    /// The entry.
    pub key: String,
    /// Its number, from 1.
    pub version: u32,
    /// In whose task it came to be.
    pub owner: TaskScope,
    /// What it says; `None` where the entry is gone.
    pub said: Option<Said>,
    /// What shows it.
    pub evidence: BTreeSet<String>,
    /// What made it.
    pub action: SharedAction,
    /// The version that it restores.
    pub of_version: Option<u32>,
    /// The proposal that it applied.
    pub proposal: Option<ReviewId>,
    /// Who decided.
    pub actor: Actor,
    /// The reason given.
    pub why: String,
    /// When.
    pub at: TimeMs,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_proposal_is_checked_before_it_is_filed() {
        let agent = || Actor::Agent("coder".into());
        let good = NewProposal::set("billing/port", "port@1", json!(8080), agent()).shown_by("rec_1");
        assert!(good.check().is_ok());
        for wrong in [
            NewProposal { evidence: Vec::new(), ..good.clone() },
            NewProposal { key: "Billing Port".into(), ..good.clone() },
            NewProposal { key: String::new(), ..good.clone() },
            NewProposal::set("a", "", json!(1), agent()).shown_by("rec_1"),
            NewProposal::set("a", "s", json!("x".repeat(40_000)), agent()).shown_by("rec_1"),
            NewProposal::set("a", "s", json!("a\0b"), agent()).shown_by("rec_1"),
            good.clone().because(&"x".repeat(2_000)),
        ] {
            assert!(wrong.check().is_err(), "{wrong:?}");
        }
        assert_eq!(good.wish(), good.clone().because("another reason").shown_by("rec_2").wish());
        assert_ne!(good.wish(), NewProposal::retire("billing/port", agent()).wish());
        assert!("proposal_1a".parse::<ReviewId>().is_ok() && "prop_1a".parse::<ReviewId>().is_err());
    }
}

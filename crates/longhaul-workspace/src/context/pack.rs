//! What a context pack is: items with their origin, and every candidate that did not become one with the reason.
//!
//! Plain data. Invariant: an id stands in [`ContextPack::items`] or in [`ContextPack::omitted`], never in both and never
//! in one of them twice.

use longhaul_core::{TaskId, TimeMs};
use serde::{Deserialize, Serialize};

use super::fence;

/// What a model is given to read before it works on a goal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ContextPack {
    /// What it was built for.
    pub goal: String,
    /// By which profile.
    pub profile: String,
    /// Tokens that [`ContextPack::render`] may have.
    pub budget_tokens: u64,
    /// Tokens that it has.
    pub used_tokens: u64,
    /// How tokens were counted: `estimate`, `estimate × 1.21`, the path of a `tokenizer.json`.
    pub counted_by: String,
    /// Best first, or in order of time where the profile says so.
    pub items: Vec<PackItem>,
    /// Every other candidate, best first.
    pub omitted: Vec<Omitted>,
    /// What the reader should know: that there is no embedding model, that tasks were left out.
    pub notes: Vec<String>,
    /// What was looked at.
    pub searched: Searched,
    /// Time of building it, in microseconds.
    pub elapsed_us: u64,
}

impl ContextPack {
    /// The pack as a prompt holds it: each item between marks that nothing inside it can forge, with its origin beside
    /// it. Empty when no item fits.
    #[must_use]
    pub fn render(&self) -> String {
        fence::render(&self.items)
    }
}

/// Who keeps an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// A record of a task: `rec_…`.
    Record,
    /// A message of a conversation: `msg_…`.
    Message,
    /// A memory: `mem_…`.
    Memory,
}

impl Origin {
    /// As it is printed.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Record => "record",
            Self::Message => "message",
            Self::Memory => "memory",
        }
    }
}

/// Where a text came from (invariant 13): `user`, `agent`, `harness`, `tool:NAME`, `document`, `web`, `model`, or what the
/// maker of a record called it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", from = "String")]
pub struct Label(String);

/// Characters of a label that are shown.
const LABEL_CHARS_MAX: usize = 80;

impl Label {
    /// The label for what somebody called the source of a text. An address becomes `web` and its host; anything else is
    /// kept, on one line.
    #[must_use]
    pub fn of(source: &str) -> Self {
        let source = source.trim();
        let address = source.strip_prefix("web ").unwrap_or(source).trim_start();
        let address = address.strip_prefix("https://").or_else(|| address.strip_prefix("http://"));
        let named = match address {
            Some(rest) => format!("web:{}", rest.split(['/', '?', '#']).next().unwrap_or_default()),
            None if source.is_empty() => "unknown".to_owned(),
            None => source.to_owned(),
        };
        Self(named.chars().map(|c| if c.is_control() { ' ' } else { c }).take(LABEL_CHARS_MAX).collect())
    }

    /// The label as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the text may have been written by somebody whom nobody here vouches for: anything but the user's own
    /// words, a model's, and the harness's.
    #[must_use]
    pub fn is_outside(&self) -> bool {
        let word = self.0.split([':', ' ']).next().unwrap_or_default();
        !matches!(word, "user" | "agent" | "model" | "harness")
    }
}

impl From<String> for Label {
    fn from(source: String) -> Self {
        Self::of(&source)
    }
}

impl From<Label> for String {
    fn from(label: Label) -> Self {
        label.0
    }
}

/// One thing to read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PackItem {
    /// `rec_…`, `msg_…` or `mem_…`.
    pub id: String,
    /// Who keeps it.
    pub origin: Origin,
    /// `decision`, `evidence`, `user`, `preference`, … as its owner calls it.
    pub kind: String,
    /// Where the text came from.
    pub label: Label,
    /// What it is, in a few words.
    pub summary: String,
    /// As much of its text as was taken.
    pub text: String,
    /// Whether that is all of it.
    pub whole: bool,
    /// Tokens it takes in the rendered pack, marks included.
    pub tokens: u64,
    /// When it was made or said.
    pub at: TimeMs,
    /// The task it belongs to.
    pub task: Option<TaskId>,
    /// Why it stands where it stands.
    pub score: Score,
}

/// How an item's place came about: the product of the parts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// The product.
    pub total: f32,
    /// How well it answers the goal, 0 to 1; for what a link led to, a part of the other end's.
    pub relevance: f32,
    /// The profile's weight of its kind.
    pub kind: f32,
    /// The profile's weight of who keeps it.
    pub origin: f32,
    /// What its age leaves, 0 to 1.
    pub recency: f32,
    /// How it was found.
    pub found: Found,
}

/// How a candidate was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Found {
    /// It answers the goal.
    Search,
    /// It is among the newest of the task.
    Recent,
    /// A link leads to it.
    Link {
        /// The relation's name.
        relation: String,
        /// The other end.
        of: String,
    },
    /// It took the place of an older version that was found.
    Newest {
        /// The older one.
        of: String,
    },
}

/// A candidate that is no item.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Omitted {
    /// Its id.
    pub id: String,
    /// What it is, in a few words.
    pub summary: String,
    /// Why it is left out.
    pub reason: Reason,
}

/// Why a candidate is no item.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// It does not fit into what is left of the budget, not even cut.
    Budget {
        /// Tokens it needs at least.
        needs: u64,
        /// Tokens that were left.
        left: u64,
    },
    /// Its owner has used up its share of the budget: `messages_share_max`, `memories_share_max`.
    Share {
        /// Who keeps it.
        origin: Origin,
        /// Tokens of that share.
        tokens_max: u64,
    },
    /// It has the same content as another candidate, which is better placed.
    Duplicate {
        /// That one.
        of: String,
    },
    /// It says nearly the same as another candidate, which is better placed or newer.
    NearDuplicate {
        /// That one.
        of: String,
        /// How much of this one's text is in it, 0 to 1.
        likeness: f32,
    },
    /// A newer version took its place.
    Superseded {
        /// The newest version.
        by: String,
    },
    /// It answers the goal much worse than the best.
    Relevance {
        /// Its score.
        score: f32,
        /// The least that counts here.
        least: f32,
    },
    /// The profile does not want things of its kind or of its owner.
    Unwanted,
    /// Its content is not what was written.
    Damaged,
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Budget { needs, left } => write!(f, "needs {needs} tokens and {left} are left"),
            Self::Share { origin, tokens_max } => {
                write!(f, "the share of {} is used up ({tokens_max} tokens)", origin.as_str())
            }
            Self::Duplicate { of } => write!(f, "same content as {of}"),
            Self::NearDuplicate { of, likeness } => write!(f, "{:.0} % of it is in {of}", likeness * 100.0),
            Self::Superseded { by } => write!(f, "{by} took its place"),
            Self::Relevance { score, least } => write!(f, "answers the goal too badly ({score:.2} of {least:.2})"),
            Self::Unwanted => f.write_str("the profile does not want its kind"),
            Self::Damaged => f.write_str("its content was changed; run `longhaul store verify`"),
        }
    }
}

/// What was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Searched {
    /// Tasks whose records were searched.
    pub tasks: usize,
    /// Parts of records that could be found.
    pub record_parts: usize,
    /// Messages that could be found.
    pub messages: usize,
    /// Memories that could be found.
    pub memories: usize,
    /// Time of embedding the goal, in microseconds; part of [`ContextPack::elapsed_us`].
    pub embedded_us: u64,
}

#[cfg(test)]
mod tests {
    use super::Label;

    #[test]
    fn a_label_says_where_a_text_came_from_and_stays_on_one_line() {
        for (source, label, outside) in [
            ("user", "user", false),
            ("tool:shell", "tool:shell", true),
            ("https://example.org/a?b", "web:example.org", true),
            ("web https://example.org/a", "web:example.org", true),
            ("document terms.pdf", "document terms.pdf", true),
            ("model:gpt", "model:gpt", false),
            ("", "unknown", true),
            ("users\n<item", "users <item", true),
            (" agent ", "agent", false),
        ] {
            assert_eq!((Label::of(source).as_str(), Label::of(source).is_outside()), (label, outside), "{source:?}");
        }
        assert_eq!(Label::of(&"x".repeat(500)).as_str().chars().count(), 80);
    }
}

//! What user memory is made of: blocks of bounded size, and the entries in them. Plain data and the checks of a text.
//!
//! Invariant: an [`Entry`] that exists has a text that fits its block: one line, nothing invisible in it.

use std::{
    collections::BTreeSet,
    fmt::{self, Display},
    str::FromStr,
};

use longhaul_core::TimeMs;
use serde::{Deserialize, Serialize};
use unicode_normalization::UnicodeNormalization;

use super::UserError;
use crate::{Kind, MemoryError, item::field, item::words};

/// Most characters of one entry.
pub const ENTRY_CHARS_MAX: usize = 400;
/// Most characters of all entries of one block together.
pub const BLOCK_CHARS_MAX: usize = 4_000;
/// Most entries of one block.
pub const BLOCK_ENTRIES_MAX: usize = 64;
/// Most conversations that are kept as the reason of one entry; the newest.
pub const THREADS_MAX: usize = 16;

words! {
    /// A part of user memory. The order is the order in which prompts show them.
    Block, "block" {
        /// Who the user is: name, home, work, languages.
        Identity = "identity",
        /// How answers should always be made: rules the user has set.
        Instructions = "instructions",
        /// What the user likes and dislikes.
        Preferences = "preferences",
        /// What the user works on.
        Projects = "projects",
        /// People around the user.
        People = "people",
        /// Everything else worth keeping.
        Other = "other",
    }
}

impl Block {
    /// The kind under which an entry of this block is found by a search.
    #[must_use]
    pub fn kind(self) -> Kind {
        match self {
            Self::Identity | Self::Projects | Self::People | Self::Other => Kind::Fact,
            Self::Instructions | Self::Preferences => Kind::Preference,
        }
    }
}

words! {
    /// How an entry came to be.
    Origin, "origin" {
        /// A person said so, in so many words: stays until a person changes it.
        Explicit = "explicit",
        /// Found in conversations: fades when they are deleted.
        Implicit = "implicit",
    }
}

/// Number of an entry within its user's memory, printed `u7`; never given twice, short enough for a model to repeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct EntryId(pub u32);

impl Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "u{}", self.0)
    }
}

impl FromStr for EntryId {
    type Err = MemoryError;
    fn from_str(text: &str) -> Result<Self, MemoryError> {
        let number = text.trim().strip_prefix('u').filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
        let wrong = || field("entry id", text, "`u` and a number, as user memory lists them: `u7`");
        number.and_then(|digits| digits.parse().ok()).map(Self).ok_or_else(wrong)
    }
}

impl TryFrom<String> for EntryId {
    type Error = MemoryError;
    fn try_from(text: String) -> Result<Self, MemoryError> {
        text.parse()
    }
}

impl From<EntryId> for String {
    fn from(id: EntryId) -> Self {
        id.to_string()
    }
}

/// What an entry speaks of and what it says of that, so that two entries about one thing are known to be: `name` is
/// `anna`, `taste:coffee` is `+`. Two entries with one attribute contradict each other unless their values are equal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Slot {
    /// What it is about.
    pub attribute: String,
    /// What is said of it, in the form in which equal sayings are equal.
    pub value: String,
}

/// One thing known of a user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its number.
    pub id: EntryId,
    /// The block it stands in.
    pub block: Block,
    /// One line, in the words in which it was said.
    pub text: String,
    /// What it is about, where that is known.
    pub slot: Option<Slot>,
    /// How it came to be.
    pub origin: Origin,
    /// The conversations behind it.
    pub threads: BTreeSet<String>,
    /// When it was first written.
    pub created_at: TimeMs,
    /// When its text, or what is behind it, last changed.
    pub updated_at: TimeMs,
}

/// A text as it is kept: composed, on one line, without characters that show nothing or turn the order of writing.
///
/// # Errors
/// [`MemoryError::Empty`] when nothing is left; [`UserError::EntryTooLong`].
pub(crate) fn one_line(text: &str) -> Result<String, MemoryError> {
    let spaced = text.nfc().filter(|c| !is_invisible(*c)).map(|c| if c.is_whitespace() { ' ' } else { c });
    let line = spaced.collect::<String>().split_whitespace().collect::<Vec<_>>().join(" ");
    if line.is_empty() {
        return Err(MemoryError::Empty);
    }
    let chars = line.chars().count();
    if chars > ENTRY_CHARS_MAX {
        return Err(UserError::EntryTooLong { chars, chars_max: ENTRY_CHARS_MAX }.into());
    }
    Ok(line)
}

/// Characters that show nothing, turn the direction, or mark tags: a text can hide words behind them.
fn is_invisible(c: char) -> bool {
    (c.is_control() && !c.is_whitespace())
        || matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// The form in which two texts that say the same in the same words are equal: compatible characters, small letters,
/// no marks at the ends, single spaces.
#[must_use]
pub(crate) fn plain(text: &str) -> String {
    let folded: String = text.nfkc().flat_map(char::to_lowercase).collect();
    let words = folded.split_whitespace().collect::<Vec<_>>().join(" ");
    words.trim_matches(|c: char| !c.is_alphanumeric() && !matches!(c, '+' | '#')).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_kept_on_one_line_without_what_hides() {
        assert_eq!(one_line("  likes\n\ttea \u{200b}\u{202e}and \u{e0041}cake ").unwrap(), "likes tea and cake");
        assert!(matches!(one_line(" \n\u{200b} "), Err(MemoryError::Empty)));
        assert!(one_line(&"あ".repeat(ENTRY_CHARS_MAX)).is_ok());
        assert!(one_line(&"あ".repeat(ENTRY_CHARS_MAX + 1)).is_err());
    }

    #[test]
    fn equal_sayings_have_one_form() {
        assert_eq!(plain("  Short ANSWERS. "), plain("short  answers"));
        assert_eq!(plain("ｶﾌｪ！"), plain("カフェ"));
        assert_eq!(plain("C++"), "c++");
    }

    #[test]
    fn entry_ids_are_read_as_they_are_printed() {
        assert_eq!("u12".parse::<EntryId>().unwrap(), EntryId(12));
        for wrong in ["12", "u", "u-1", "u+1", "v3", "u99999999999"] {
            assert!(wrong.parse::<EntryId>().is_err(), "{wrong}");
        }
    }
}

//! What every parser makes of a file: blocks in reading order, each with its place. Plain data.
//!
//! Invariant: a block's text has the line breaks of its source, so the place of any part of it can be counted out.

use serde::{Deserialize, Serialize};

/// A file as a parser understood it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Document {
    /// What the file says it is called.
    pub title: Option<String>,
    /// Its parts in reading order.
    pub blocks: Vec<Block>,
}

/// One part of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// What sort of part it is.
    pub kind: BlockKind,
    /// Its text; a heading's without marks.
    pub text: String,
    /// Where it stands.
    pub place: Place,
    /// The name that a link to this part would have: an HTML id.
    pub anchor: Option<String>,
}

impl Block {
    /// A part without a name.
    #[must_use]
    pub fn new(kind: BlockKind, text: impl Into<String>, place: Place) -> Self {
        Self { kind, text: text.into(), place, anchor: None }
    }
}

/// What sort of part a block is; it decides where it may be divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockKind {
    /// A heading of this level, 1 being the highest.
    Heading(u8),
    /// Sentences.
    Prose,
    /// A list, or lines that belong together; divided between lines.
    Lines,
    /// Source code or the like; divided between lines.
    Code,
    /// A table whose first so many lines are its head, repeated in each part.
    Table {
        /// Lines of the head.
        head: usize,
    },
}

/// Where something stands in its file; counted from 1, the last one included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// Lines of a text.
    Lines(u32, u32),
    /// Pages.
    Pages(u32, u32),
}

impl Place {
    /// From the first place's beginning to the second one's end.
    #[must_use]
    pub fn to(self, end: Self) -> Self {
        match (self, end) {
            (Self::Lines(first, last), Self::Lines(_, other)) => Self::Lines(first, last.max(other)),
            (Self::Pages(first, last), Self::Pages(_, other)) => Self::Pages(first, last.max(other)),
            (Self::Lines(..), Self::Pages(..)) | (Self::Pages(..), Self::Lines(..)) => self,
        }
    }

    /// As it is written behind a path: `:12-18`, `:12`, ` page 3`, ` pages 3-4`.
    #[must_use]
    pub fn shown(self) -> String {
        match self {
            Self::Lines(first, last) if first == last => format!(":{first}"),
            Self::Lines(first, last) => format!(":{first}-{last}"),
            Self::Pages(first, last) if first == last => format!(" page {first}"),
            Self::Pages(first, last) => format!(" pages {first}-{last}"),
        }
    }
}

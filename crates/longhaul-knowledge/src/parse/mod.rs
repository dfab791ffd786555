//! From a file's bytes to a [`Document`]: what sort of file it is, and the parser for it.
//!
//! Parsers are pure: bytes in, blocks out. Invariant: whatever the bytes are, the answer is a document or a [`Refusal`]
//! that says what is wrong with this one file; nothing panics and nothing runs without bound.

mod html;
mod markdown;
mod pdf;
mod plain;

use std::path::Path;

use crate::{block::Document, decode};

/// Goes up when the same file would give other chunks: then nothing of older versions is reused.
pub const PARSER_VERSION: u32 = 1;

/// What sort of file it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Markdown.
    Markdown,
    /// HTML.
    Html,
    /// PDF.
    Pdf,
    /// Rows of cells divided by this character.
    Cells(char),
    /// Source code, configuration and the like: lines that belong as they stand.
    Code,
    /// Any other text.
    Text,
}

impl Format {
    /// The format a file's name and first bytes speak for.
    #[must_use]
    pub fn of(path: &Path, bytes: &[u8]) -> Self {
        if bytes[..bytes.len().min(1024)].windows(5).any(|window| window == b"%PDF-") {
            return Self::Pdf;
        }
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or("").to_ascii_lowercase();
        match extension.as_str() {
            "md" | "markdown" | "mdx" | "mkd" => Self::Markdown,
            "html" | "htm" | "xhtml" => Self::Html,
            "pdf" => Self::Pdf,
            "csv" => Self::Cells(','),
            "tsv" => Self::Cells('\t'),
            "" | "txt" | "text" | "rst" | "adoc" | "org" | "tex" | "log" => Self::Text,
            _ => Self::Code,
        }
    }

    /// Its name for people.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Markdown => "markdown",
            Self::Html => "html",
            Self::Pdf => "pdf",
            Self::Cells(_) => "table",
            Self::Code => "code",
            Self::Text => "text",
        }
    }
}

/// Why one file is not taken. Others go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Nothing in it.
    #[error("it is empty")]
    Empty,
    /// Not text.
    #[error("it is not text ({problem})")]
    Binary {
        /// What speaks against it.
        problem: &'static str,
    },
    /// Larger than a file may be.
    #[error("it has {bytes} bytes, above the limit of {bytes_max}; divide it")]
    TooLarge {
        /// Its size.
        bytes: u64,
        /// The limit.
        bytes_max: u64,
    },
    /// A password is needed.
    #[error("it is encrypted; save a copy without a password")]
    Encrypted,
    /// Pictures of text.
    #[error("its {pages} pages hold no text: they are pictures; run text recognition (OCR) over it first")]
    Scanned {
        /// How many pages it has.
        pages: usize,
    },
    /// A PDF that cannot be read.
    #[error("it is damaged or not a PDF ({problem}); open it in a viewer and save it again")]
    BrokenPdf {
        /// The parser's words.
        problem: String,
    },
    /// It cannot be read from the disk.
    #[error("it cannot be read ({problem})")]
    Unreadable {
        /// The system's words.
        problem: String,
    },
    /// It leads out of what was asked for, or in a circle.
    #[error("it is a link {problem}; add what it leads to by itself")]
    Link {
        /// Where it leads.
        problem: &'static str,
    },
}

/// Understands a file.
///
/// # Errors
/// What is wrong with it.
pub fn parse(path: &Path, bytes: &[u8]) -> Result<Document, Refusal> {
    if bytes.is_empty() {
        return Err(Refusal::Empty);
    }
    let document = match Format::of(path, bytes) {
        Format::Pdf => pdf::parse(bytes)?,
        Format::Markdown => markdown::parse(&decode::text(bytes)?),
        Format::Html => html::parse(&decode::html(bytes)?),
        Format::Cells(divider) => plain::cells(&decode::text(bytes)?, divider),
        Format::Code => plain::code(&decode::text(bytes)?),
        Format::Text => plain::prose(&decode::text(bytes)?),
    };
    if document.blocks.iter().all(|block| block.text.trim().is_empty()) { Err(Refusal::Empty) } else { Ok(document) }
}

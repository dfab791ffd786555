//! What a corpus and its versions are called and consist of. Plain data.

use std::{fmt, str::FromStr};

use longhaul_core::{TimeMs, UserId};
use longhaul_memory::{KNOWLEDGE_PREFIX, Namespace};
use serde::{Deserialize, Serialize};

use crate::KnowledgeError;

const NAME_CHARS_MAX: usize = 64;

/// A corpus's name: `[a-z0-9_.-]`, 1 to 64 characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CorpusName(String);

impl CorpusName {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The partition that holds a version's chunks: `kb:NAME@VERSION`, written `kb:NAME:VERSION` as `@` is not allowed.
    pub(crate) fn namespace(&self, version: u32) -> Result<Namespace, KnowledgeError> {
        Ok(format!("{KNOWLEDGE_PREFIX}{}:{version}", self.0).parse()?)
    }
}

impl fmt::Display for CorpusName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for CorpusName {
    type Err = KnowledgeError;
    fn from_str(name: &str) -> Result<Self, KnowledgeError> {
        Self::try_from(name.to_owned())
    }
}

impl TryFrom<String> for CorpusName {
    type Error = KnowledgeError;
    fn try_from(name: String) -> Result<Self, KnowledgeError> {
        let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_.-".contains(&b);
        if (1..=NAME_CHARS_MAX).contains(&name.len()) && name.bytes().all(fits) {
            return Ok(Self(name));
        }
        Err(KnowledgeError::Name { name: name.chars().take(80).collect() })
    }
}

impl From<CorpusName> for String {
    fn from(name: CorpusName) -> Self {
        name.0
    }
}

/// A corpus and, where one is meant, a version: `guide`, `guide@3`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CorpusRef {
    /// The corpus.
    pub name: CorpusName,
    /// The version; `None` for the newest complete one.
    pub version: Option<u32>,
}

impl FromStr for CorpusRef {
    type Err = KnowledgeError;
    fn from_str(text: &str) -> Result<Self, KnowledgeError> {
        let wrong = || KnowledgeError::Name { name: text.chars().take(80).collect() };
        match text.split_once('@') {
            Some((name, version)) => {
                let version = version.parse().ok().filter(|version| *version > 0).ok_or_else(wrong)?;
                Ok(Self { name: name.parse()?, version: Some(version) })
            }
            None => Ok(Self { name: text.parse()?, version: None }),
        }
    }
}

/// Where a version is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Being built, or left unfinished; nobody finds it.
    Building,
    /// Complete and read-only.
    Ready,
    /// Taken away; its number stays taken.
    Removed,
}

impl State {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Building => "building",
            Self::Ready => "ready",
            Self::Removed => "removed",
        }
    }

    pub(crate) fn of(word: &str) -> Self {
        match word {
            "ready" => Self::Ready,
            "building" => Self::Building,
            _ => Self::Removed,
        }
    }
}

/// One version of a corpus.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// The corpus.
    pub corpus: CorpusName,
    /// Its number, from 1.
    pub version: u32,
    /// Who made it, and may remove it or share it.
    pub owner: UserId,
    /// Where it is in its life.
    pub state: State,
    /// The path it was made of.
    pub source: String,
    /// Files in it.
    pub files: u64,
    /// Files that could not be taken.
    pub refused: u64,
    /// Chunks in it.
    pub chunks: u64,
    /// Bytes of its files.
    pub bytes: u64,
    /// When it was begun.
    pub created_at: TimeMs,
    /// When it was complete.
    pub completed_at: Option<TimeMs>,
}

/// One file of a version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileInfo {
    /// Its path below what was added.
    pub name: String,
    /// SHA-256 of its content, in hexadecimal.
    pub digest: String,
    /// What it was read as: `markdown`, `pdf`.
    pub format: String,
    /// What it says it is called.
    pub title: Option<String>,
    /// Its size.
    pub bytes: u64,
    /// Chunks made of it.
    pub chunks: u64,
    /// Why it was not taken, if it was not.
    pub problem: Option<String>,
}

/// What is different between two versions, by the names of their files.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Difference {
    /// Only in the newer one.
    pub added: Vec<String>,
    /// In both, with other content.
    pub changed: Vec<String>,
    /// Only in the older one.
    pub removed: Vec<String>,
    /// In both with the same content.
    pub unchanged: u64,
}

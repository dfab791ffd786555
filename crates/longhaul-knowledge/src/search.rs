//! Asking corpora: passages with the place they stand in.
//!
//! Invariant: only complete versions answer; the rights are memory's to check, in the snapshot that is searched.

use std::collections::BTreeMap;

use longhaul_core::Scope;
use longhaul_memory::{Explain, Hit, Mode, Query};
use serde::{Deserialize, Serialize};

use crate::{CorpusRef, Knowledge, KnowledgeError, State, Version, block::Place};

/// What to ask.
#[derive(Debug, Clone)]
pub struct KnowledgeQuery {
    /// In any words.
    pub text: String,
    /// Most passages.
    pub k: usize,
    /// Which corpora; empty for the newest version of each that the user may read.
    pub corpora: Vec<CorpusRef>,
}

/// A passage that answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Passage {
    /// `corpus@version path:lines`: what to cite.
    pub citation: String,
    /// The corpus.
    pub corpus: String,
    /// Its version.
    pub version: u32,
    /// The file's path within it.
    pub path: String,
    /// Where in the file.
    pub place: Place,
    /// The name of the heading for links, where it has one.
    pub anchor: Option<String>,
    /// The headings above, outermost first, in one line.
    pub heading: String,
    /// SHA-256 of the file, in hexadecimal.
    pub file_digest: String,
    /// The text, without the headings.
    pub text: String,
    /// 0 to 1; comparable within one answer.
    pub score: f32,
    /// How the score came about.
    pub explain: Explain,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// Best first.
    pub passages: Vec<Passage>,
    /// The versions that were searched: `guide@3`.
    pub searched: Vec<String>,
    /// How it was searched.
    pub mode: Mode,
    /// Passages that have no vector yet and could be found by words alone.
    pub unembedded: usize,
    /// What the reader should know of the answer.
    pub notes: Vec<String>,
}

impl Knowledge {
    /// The passages that answer best.
    ///
    /// # Errors
    /// [`KnowledgeError::NoCorpus`], [`KnowledgeError::NoVersion`]; those of a search of memory.
    pub async fn search(&self, scope: &Scope, query: &KnowledgeQuery) -> Result<Answer, KnowledgeError> {
        let versions = self.meant(scope, &query.corpora).await?;
        let mut by_namespace = BTreeMap::new();
        for version in &versions {
            by_namespace.insert(version.corpus.namespace(version.version)?, version);
        }
        let asked =
            Query { namespaces: by_namespace.keys().cloned().collect(), ..Query::new(query.text.clone(), query.k) };
        let recall = self.memory.search(scope, &asked).await?;
        let passages = recall.hits.into_iter().filter_map(|hit| {
            let version = *by_namespace.get(&hit.item.namespace)?;
            Some(passage(hit, version))
        });
        Ok(Answer {
            passages: passages.collect(),
            searched: versions.iter().map(|version| format!("{}@{}", version.corpus, version.version)).collect(),
            mode: recall.mode,
            unembedded: recall.unembedded,
            notes: recall.notes,
        })
    }

    async fn meant(&self, scope: &Scope, corpora: &[CorpusRef]) -> Result<Vec<Version>, KnowledgeError> {
        let mut versions: Vec<Version> = Vec::new();
        if corpora.is_empty() {
            for version in self.versions(scope).await?.into_iter().filter(|version| version.state == State::Ready) {
                // They come by name and number, so the last of a name is its newest.
                versions.retain(|older| older.corpus != version.corpus);
                versions.push(version);
            }
            if versions.is_empty() {
                return Err(KnowledgeError::NoCorpus { name: "*".to_owned(), there: Vec::new() });
            }
        }
        for meant in corpora {
            let version = self.resolve(scope, meant).await?;
            if !versions.contains(&version) {
                versions.push(version);
            }
        }
        Ok(versions)
    }
}

fn passage(hit: Hit, version: &Version) -> Passage {
    let Hit { item, score, explain } = hit;
    let text_of = |key: &str| item.meta.get(key).and_then(|value| value.as_str()).unwrap_or_default().to_owned();
    let place = item.meta.get("place").and_then(|place| serde_json::from_value(place.clone()).ok());
    let place: Place = place.unwrap_or(Place::Lines(1, 1));
    let (path, heading) = (text_of("path"), text_of("heading"));
    let whole = item.content.as_str();
    let text = whole.strip_prefix(heading.as_str()).and_then(|rest| rest.strip_prefix("\n\n")).unwrap_or(whole);
    Passage {
        citation: format!("{}@{} {path}{}", version.corpus, version.version, place.shown()),
        corpus: version.corpus.to_string(),
        version: version.version,
        anchor: Some(text_of("anchor")).filter(|anchor| !anchor.is_empty()),
        file_digest: text_of("file_digest"),
        text: text.to_owned(),
        path,
        place,
        heading,
        score,
        explain,
    }
}

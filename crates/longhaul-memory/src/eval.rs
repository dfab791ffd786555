//! How well memories are found: recall and reciprocal rank over questions whose answers are known, for each leg of the
//! ranking by itself and for all of them together.
//!
//! ```
//! # use longhaul_core::{Ambient, Scope};
//! # use longhaul_memory::{Kind, Memory, NewMemory, Query, Source, eval};
//! # use longhaul_store::{Store, StoreSettings};
//! # let folder = tempfile::tempdir()?;
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! # let store = Store::open(StoreSettings::new(folder.path()), Ambient::system(), &[longhaul_memory::MIGRATIONS]).await?;
//! let (memory, scope) = (Memory::new(store, None), Scope::single_user());
//! let id = memory.add(&scope, NewMemory::new("notes", Kind::Note, Source::Agent, "the kettle is in the cellar")).await?;
//!
//! let asked = [eval::Question::new("where is the kettle?", [id])];
//! let report = eval::evaluate(&memory, &scope, &asked, &Query::new("", 10)).await?;
//! assert_eq!(report.fused.recall_at(10), Some(1.0));
//! # Ok::<_, longhaul_memory::MemoryError>(())
//! # })?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

use std::{collections::BTreeSet, sync::Arc};

use longhaul_core::{MemoryId, Scope};
use serde::{Deserialize, Serialize};

use crate::{LegWeights, Memory, MemoryError, Mode, Query, RankSettings};

/// The numbers of hits that recall is given for.
pub const PLACES: &[usize] = &[1, 5, 10, 20, 50];

/// A question and what answers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// As it is asked.
    pub text: String,
    /// The memories that should be found; a question without any is left out.
    pub relevant: BTreeSet<MemoryId>,
}

impl Question {
    /// A question that these memories answer.
    #[must_use]
    pub fn new(text: impl Into<String>, relevant: impl IntoIterator<Item = MemoryId>) -> Self {
        Self { text: text.into(), relevant: relevant.into_iter().collect() }
    }
}

/// How well one way of ranking finds what was asked for.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Quality {
    /// Questions asked.
    pub questions: usize,
    /// For each of [`PLACES`] the part of the relevant memories among so many hits, 0 to 1: the mean over the questions.
    pub recall: Vec<(usize, f64)>,
    /// One over the place of the first relevant hit, 0 for none: the mean over the questions.
    pub reciprocal_rank: f64,
}

impl Quality {
    /// Recall among so many hits, if it was measured.
    #[must_use]
    pub fn recall_at(&self, k: usize) -> Option<f64> {
        self.recall.iter().find(|(place, _)| *place == k).map(|(_, recall)| *recall)
    }

    /// The mean over the questions of all of them.
    #[must_use]
    pub fn joined(all: &[Self]) -> Self {
        let questions: usize = all.iter().map(|quality| quality.questions).sum();
        let mean = |of: &dyn Fn(&Self) -> f64| {
            all.iter().map(|quality| of(quality) * quality.questions as f64).sum::<f64>() / questions.max(1) as f64
        };
        Self {
            questions,
            recall: PLACES.iter().map(|k| (*k, mean(&|quality| quality.recall_at(*k).unwrap_or(0.0)))).collect(),
            reciprocal_rank: mean(&|quality| quality.reciprocal_rank),
        }
    }

    fn add(&mut self, found: &[MemoryId], relevant: &BTreeSet<MemoryId>) {
        if self.recall.is_empty() {
            self.recall = PLACES.iter().map(|k| (*k, 0.0)).collect();
        }
        self.questions += 1;
        for (k, recall) in &mut self.recall {
            let hits = found.iter().take(*k).filter(|id| relevant.contains(id)).count();
            *recall += hits as f64 / relevant.len() as f64;
        }
        let first = found.iter().position(|id| relevant.contains(id));
        self.reciprocal_rank += first.map_or(0.0, |place| 1.0 / (place + 1) as f64);
    }

    fn mean(mut self) -> Self {
        let questions = self.questions.max(1) as f64;
        self.recall.iter_mut().for_each(|(_, recall)| *recall /= questions);
        self.reciprocal_rank /= questions;
        self
    }
}

/// All ways of ranking beside each other.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Report {
    /// The words of the memory alone.
    pub words: Quality,
    /// The words of the memory with its neighbours.
    pub words_around: Quality,
    /// The meaning of the memory alone; nothing where queries cannot be embedded.
    pub meaning: Quality,
    /// The meaning of the memory with its neighbours.
    pub meaning_around: Quality,
    /// As searches rank, importance and age included.
    pub fused: Quality,
}

impl Report {
    /// The legs by name.
    #[must_use]
    pub fn legs(&self) -> [(&'static str, &Quality); 4] {
        [
            ("words", &self.words),
            ("words_around", &self.words_around),
            ("meaning", &self.meaning),
            ("meaning_around", &self.meaning_around),
        ]
    }

    /// The mean over the questions of all of them.
    #[must_use]
    pub fn joined(all: &[Self]) -> Self {
        let of = |quality: &dyn Fn(&Self) -> Quality| Quality::joined(&all.iter().map(quality).collect::<Vec<_>>());
        Self {
            words: of(&|report| report.words.clone()),
            words_around: of(&|report| report.words_around.clone()),
            meaning: of(&|report| report.meaning.clone()),
            meaning_around: of(&|report| report.meaning_around.clone()),
            fused: of(&|report| report.fused.clone()),
        }
    }
}

/// Asks all questions, with everything but the text as `query` has it; its `k` is the number of hits that are looked at,
/// so recall is only told for as many.
///
/// # Errors
/// Those of [`Memory::search`].
pub async fn evaluate(
    memory: &Memory,
    scope: &Scope,
    questions: &[Question],
    query: &Query,
) -> Result<Report, MemoryError> {
    let fused = memory.shared.rank();
    let alone = |words, words_around, meaning, meaning_around| {
        let legs = LegWeights { words, words_around, meaning, meaning_around };
        Arc::new(RankSettings { legs, importance_share: 0.0, decay_share: 0.0, ..(*fused).clone() })
    };
    let by_words = [alone(1.0, 0.0, 0.0, 0.0), alone(0.0, 1.0, 0.0, 0.0)];
    let by_meaning = [alone(0.0, 0.0, 1.0, 0.0), alone(0.0, 0.0, 0.0, 1.0)];
    let mut report = Report::default();
    for question in questions.iter().filter(|question| !question.relevant.is_empty()) {
        let (vector, mode) = match &query.vector {
            Some(vector) => (Some(vector.clone()), Mode::Hybrid),
            None => memory.embedded(&question.text).await,
        };
        let asked = Query { text: question.text.clone(), vector, ..query.clone() };
        let mut qualities: Vec<(&mut Quality, &Arc<RankSettings>)> = vec![
            (&mut report.words, &by_words[0]),
            (&mut report.words_around, &by_words[1]),
            (&mut report.fused, &fused),
        ];
        if mode == Mode::Hybrid {
            qualities.push((&mut report.meaning, &by_meaning[0]));
            qualities.push((&mut report.meaning_around, &by_meaning[1]));
        }
        for (quality, settings) in qualities {
            let recall = memory.search_by(scope, &asked, settings.clone()).await?;
            let found: Vec<MemoryId> = recall.hits.into_iter().map(|hit| hit.item.id).collect();
            quality.add(&found, &question.relevant);
        }
    }
    let Report { words, words_around, meaning, meaning_around, fused } = report;
    Ok(Report {
        words: words.mean(),
        words_around: words_around.mean(),
        meaning: meaning.mean(),
        meaning_around: meaning_around.mean(),
        fused: fused.mean(),
    })
}

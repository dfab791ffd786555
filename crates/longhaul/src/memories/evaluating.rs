//! How well a user's own memories are found: questions with what should answer them, asked one after the other.
//!
//! Figures: recall at k is the share of expected memories among the first k, averaged over the questions; the mean
//! reciprocal rank is the mean of 1/place of the first expected memory, 0 where none was found.

use std::{collections::BTreeMap, fs, path::Path};

use longhaul_memory::{Hit, Mode};
use serde::{Deserialize, Serialize};

use super::{Filters, Memories, MemoriesError};

/// Places at which recall is given.
const PLACES: [usize; 5] = [1, 5, 10, 20, 50];

/// A question of the file, one a line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// What is asked.
    pub question: String,
    /// What should be found: ids of memories, the ids they were imported with, or a part of their text.
    pub expect: Vec<String>,
}

/// How it went.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Evaluation {
    /// Questions asked.
    pub questions: usize,
    /// Share of what was expected among the first so many, 0 to 1.
    pub recall: BTreeMap<usize, f64>,
    /// Mean of 1/place of the first that was expected, 0 to 1.
    pub mean_reciprocal_rank: f64,
    /// Half of the searches took less, in microseconds, without embedding the question.
    pub p50_us: u64,
    /// 99 of 100 searches took less, in microseconds.
    pub p99_us: u64,
    /// Searched by words alone: why.
    pub words_only: Option<String>,
    /// Questions of which something was not among the first ten.
    pub missed: Vec<Missed>,
}

/// A question that was not answered well.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Missed {
    /// Its line in the file.
    pub line: usize,
    /// What was asked.
    pub question: String,
    /// What was expected, with the place at which it was found, if it was.
    pub expected: Vec<(String, Option<usize>)>,
}

/// Reads questions: one JSON object a line, empty lines between them.
///
/// # Errors
/// [`MemoriesError::File`], [`MemoriesError::Question`] with the line.
pub fn questions(path: &Path) -> Result<Vec<(usize, Question)>, MemoriesError> {
    let read = |source| MemoriesError::File { action: "read", path: path.to_owned(), source };
    let text = fs::read_to_string(path).map_err(read)?;
    let wrong = |line, problem: String| MemoriesError::Question { path: path.to_owned(), line, problem };
    let mut found = Vec::new();
    for (line, text) in (1..).zip(text.lines()).filter(|(_, text)| !text.trim().is_empty()) {
        let question: Question = serde_json::from_str(text).map_err(|error| wrong(line, error.to_string()))?;
        if question.expect.is_empty() {
            return Err(wrong(line, "nothing is expected".to_owned()));
        }
        found.push((line, question));
    }
    if found.is_empty() {
        return Err(wrong(1, "there is no question in it".to_owned()));
    }
    Ok(found)
}

impl Memories {
    /// Asks every question among the memories that pass the filters.
    ///
    /// # Errors
    /// Those of a search.
    pub async fn evaluate(
        &self,
        questions: &[(usize, Question)],
        filters: &Filters,
        mut progress: impl FnMut(usize),
    ) -> Result<Evaluation, MemoriesError> {
        let most = PLACES.iter().copied().max().unwrap_or(1);
        let mut outcomes = Vec::with_capacity(questions.len());
        let mut elapsed: Vec<u64> = Vec::with_capacity(questions.len());
        let mut words_only = None;
        for (done, (line, asked)) in questions.iter().enumerate() {
            let recall = self.search(&self.query(&asked.question, most, filters)?).await?;
            elapsed.push(recall.elapsed_us);
            if let Mode::Keyword { reason } = recall.mode {
                words_only = Some(reason);
            }
            outcomes.push((*line, asked, places(&asked.expect, &recall.hits)));
            progress(done + 1);
        }
        elapsed.sort_unstable();
        let at = |share: usize| elapsed.get((elapsed.len() * share / 100).min(elapsed.len() - 1)).copied().unwrap_or(0);
        let mean = |of: &dyn Fn(&[Option<usize>]) -> f64| {
            outcomes.iter().map(|(_, _, places)| of(places)).sum::<f64>() / outcomes.len().max(1) as f64
        };
        let recall = |k: usize| mean(&|places| share_within(places, k));
        let missed = outcomes.iter().filter(|(_, _, places)| share_within(places, 10) < 1.0);
        Ok(Evaluation {
            questions: outcomes.len(),
            recall: PLACES.iter().map(|k| (*k, recall(*k))).collect(),
            mean_reciprocal_rank: mean(&|places| {
                places.iter().flatten().min().map_or(0.0, |place| 1.0 / *place as f64)
            }),
            p50_us: at(50),
            p99_us: at(99),
            words_only,
            missed: missed.map(|(line, asked, places)| missed_one(*line, asked, places)).collect(),
        })
    }
}

fn missed_one(line: usize, asked: &Question, places: &[Option<usize>]) -> Missed {
    let expected = asked.expect.iter().cloned().zip(places.iter().copied()).collect();
    Missed { line, question: asked.question.clone(), expected }
}

/// The place, from 1, at which each of what was expected is found.
fn places(expect: &[String], hits: &[Hit]) -> Vec<Option<usize>> {
    let place = |wanted: &String| hits.iter().position(|hit| is_meant(wanted, hit)).map(|index| index + 1);
    expect.iter().map(place).collect()
}

fn is_meant(wanted: &str, hit: &Hit) -> bool {
    let imported = hit.item.meta.get("imported_id").and_then(|id| id.as_str());
    hit.item.id.as_str() == wanted || imported == Some(wanted) || hit.item.content.contains(wanted)
}

fn share_within(places: &[Option<usize>], k: usize) -> f64 {
    let found = places.iter().flatten().filter(|place| **place <= k).count();
    found as f64 / places.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::share_within;

    #[test]
    fn recall_counts_what_is_among_the_first() {
        let places = [Some(1), Some(7), None, Some(12)];
        assert_eq!([1, 5, 10, 20].map(|k| share_within(&places, k)), [0.25, 0.25, 0.5, 0.75]);
        assert_eq!(share_within(&[], 5), 0.0);
    }
}

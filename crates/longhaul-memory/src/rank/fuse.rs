//! From four legs to one relevance.
//!
//! Legs are combined after normalisation, not by rank: equal-weight reciprocal ranks with a weak dense leg lose to
//! keywords alone. A leg is divided by its best value (Bruch, Gai and Ingber, An Analysis of Fusion Functions for Hybrid
//! Retrieval, 2023), but by no less than a floor, so that the best of nothing but bad matches does not look perfect.

use crate::words::Scores;

use super::{Leg, LegWeights};

/// A BM25 score below this part of the query's bound is a weak match, even if it is the best.
const BM25_FLOOR: f32 = 0.1;
/// A cosine below this is a weak match for the local model, even if it is the best.
const COSINE_FLOOR: f32 = 0.35;

/// What the legs measured of one memory.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Raw {
    pub(crate) words: f32,
    /// `None` where neighbours do not count: then the memory's own words stand for both.
    pub(crate) words_around: Option<f32>,
    /// `None` for what has no vector yet.
    pub(crate) meaning: Option<f32>,
    pub(crate) meaning_around: Option<f32>,
}

/// What the legs are divided by, and how they weigh, in one answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    weights: [f32; 4],
    best: [f32; 4],
    /// Mean share of the meaning among the candidates, for those that have no vector yet.
    meaning_usual: f32,
}

impl Scale {
    /// From all candidates of an answer. `bounds` are those of BM25, alone and with neighbours; `is_hybrid` says whether
    /// the query has a vector that can be trusted.
    pub(crate) fn new<'a>(
        legs: &LegWeights,
        bounds: (f32, f32),
        is_hybrid: bool,
        candidates: impl Iterator<Item = &'a Raw> + Clone,
    ) -> Self {
        let meaning = if is_hybrid { 1.0 } else { 0.0 };
        let weights = [legs.words, legs.words_around, legs.meaning * meaning, legs.meaning_around * meaning];
        let sum: f32 = weights.iter().sum();
        let weights = if sum > 0.0 { weights.map(|weight| weight / sum) } else { [0.5, 0.5, 0.0, 0.0] };
        let best =
            |of: &dyn Fn(&Raw) -> f32| candidates.clone().map(of).filter(|value| value.is_finite()).fold(0.0, f32::max);
        let words = best(&|raw| raw.words).max(BM25_FLOOR * bounds.0);
        let words_around = best(&|raw| raw.words_around.unwrap_or(0.0)).max(BM25_FLOOR * bounds.1);
        let meaning = best(&|raw| raw.meaning.unwrap_or(0.0)).max(COSINE_FLOOR);
        let meaning_around = best(&|raw| raw.meaning_around.unwrap_or(0.0)).max(COSINE_FLOOR);
        let known = candidates.filter_map(|raw| raw.meaning);
        let (sum, count) = known.fold((0.0, 0_u32), |(sum, count), cosine| (sum + share(cosine, meaning), count + 1));
        let meaning_usual = if count > 0 { sum / count as f32 } else { 0.0 };
        Self { weights, best: [words, words_around, meaning, meaning_around], meaning_usual }
    }

    /// The legs (words, words around, meaning, meaning around) and their sum.
    pub(crate) fn fused(&self, raw: Raw) -> ([Leg; 4], f32) {
        let words = share(raw.words, self.best[0]);
        let words_around = raw.words_around.map_or(words, |value| share(value, self.best[1]));
        // What has no vector yet is taken to mean as much as others do, but no more than its words say; so a memory is
        // found by its words the moment it is written, and neither gains nor loses by waiting for its vector.
        let meaning = raw.meaning.map_or(self.meaning_usual.min(words), |value| share(value, self.best[2]));
        let meaning_around = raw.meaning_around.map_or(meaning, |value| share(value, self.best[3]));
        let raws = [Some(raw.words), raw.words_around, raw.meaning, raw.meaning_around];
        let shares = [words, words_around, meaning, meaning_around];
        let legs: [Leg; 4] = std::array::from_fn(|leg| {
            let (share, weight) = (shares[leg], self.weights[leg]);
            Leg { raw: raws[leg], share, weight, contribution: share * weight }
        });
        (legs, legs.iter().map(|leg| leg.contribution).sum::<f32>().clamp(0.0, 1.0))
    }
}

/// The numbers with the best words, alone and with neighbours together; at most `take`, in no order.
pub(crate) fn lead(legs: &LegWeights, scores: &Scores, take: usize) -> Vec<u32> {
    let Scores { own, around, found, .. } = scores;
    let at = |values: &[f32], seq: u32| values.get(seq as usize).copied().unwrap_or(0.0);
    let best = |values: &[f32]| found.iter().map(|seq| at(values, *seq)).fold(0.0, f32::max);
    let (own_best, around_best) = (best(own), best(around));
    let value = |seq: u32| {
        let own = share(at(own, seq), own_best);
        let around = if around.is_empty() { own } else { share(at(around, seq), around_best) };
        legs.words * own + legs.words_around * around
    };
    let mut scored: Vec<(f32, u32)> = found.iter().map(|seq| (value(*seq), *seq)).collect();
    if scored.len() > take {
        scored.select_nth_unstable_by(take, |a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)));
        scored.truncate(take);
    }
    scored.into_iter().map(|(_, seq)| seq).collect()
}

fn share(value: f32, best: f32) -> f32 {
    if best > 0.0 && value.is_finite() { (value / best).clamp(0.0, 1.0) } else { 0.0 }
}

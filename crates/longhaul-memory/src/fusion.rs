//! From two legs to one score. Pure.
//!
//! The legs are combined after normalisation, not by rank: equal-weight reciprocal ranks with a weak dense leg lose to
//! keywords alone (`docs/decisions/embedding.md`). A leg is divided by its best value (Bruch, Gai and Ingber, An Analysis
//! of Fusion Functions for Hybrid Retrieval, 2023), but by no less than a floor, so that the best of nothing but bad
//! matches does not look perfect. Invariant: every score is a finite number from 0 to 1.

use crate::{Explain, Kind};

/// Share of the words; the rest is the meaning's.
const KEYWORD_WEIGHT: f32 = 0.6;
/// A BM25 score below this part of the query's bound is a weak match, even if it is the best.
const BM25_FLOOR: f32 = 0.1;
/// A cosine below this is a weak match for the local model, even if it is the best.
const COSINE_FLOOR: f32 = 0.35;
/// Part of a score that depends on the importance, and on the age.
const IMPORTANCE_SHARE: f32 = 0.2;
const DECAY_SHARE: f32 = 0.4;

const MS_A_DAY: f32 = 86_400_000.0;

/// What the legs are divided by in one answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    bm25: f32,
    cosine: f32,
    hybrid: bool,
}

impl Scale {
    /// From the best value of each leg; `cosine_best` is `None` when the meaning cannot be used.
    pub(crate) fn new(bm25_best: f32, bm25_bound: f32, cosine_best: Option<f32>) -> Self {
        Self {
            bm25: bm25_best.max(BM25_FLOOR * bm25_bound),
            cosine: cosine_best.unwrap_or(0.0).max(COSINE_FLOOR),
            hybrid: cosine_best.is_some(),
        }
    }
}

/// The score of one memory and its parts.
pub(crate) fn score(
    scale: Scale,
    bm25: f32,
    cosine: Option<f32>,
    importance: f32,
    kind: Kind,
    age_ms: i64,
) -> (f32, Explain) {
    let keyword = share(bm25, scale.bm25);
    let vector = share(cosine.unwrap_or(0.0), scale.cosine);
    let relevance = if scale.hybrid { KEYWORD_WEIGHT * keyword + (1.0 - KEYWORD_WEIGHT) * vector } else { keyword };
    let importance = 1.0 - IMPORTANCE_SHARE * (1.0 - importance.clamp(0.0, 1.0));
    let decay = kind.half_life_days().map_or(1.0, |half_life| {
        let days = age_ms.max(0) as f32 / MS_A_DAY;
        1.0 - DECAY_SHARE * (1.0 - (-days / half_life).exp2())
    });
    (relevance * importance * decay, Explain { keyword, vector, importance, decay, bm25, cosine })
}

fn share(value: f32, best: f32) -> f32 {
    if best > 0.0 { (value / best).clamp(0.0, 1.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Scale, score};
    use crate::Kind;

    const DAY: i64 = 86_400_000;

    #[test]
    fn old_progress_fades_to_a_floor_and_facts_do_not() {
        let scale = Scale::new(1.0, 1.0, None);
        let at = |kind, days| score(scale, 1.0, None, 1.0, kind, days * DAY).0;
        assert_eq!(at(Kind::Progress, 0), 1.0);
        assert!((at(Kind::Progress, 30) - 0.8).abs() < 1e-6);
        assert!((at(Kind::Progress, 3_650) - 0.6).abs() < 1e-3);
        assert_eq!(at(Kind::Fact, 3_650), 1.0);
    }

    #[test]
    fn a_poor_best_match_does_not_look_perfect() {
        let (total, explain) = score(Scale::new(0.2, 10.0, Some(0.07)), 0.2, Some(0.07), 1.0, Kind::Fact, 0);
        assert!((explain.keyword - 0.2).abs() < 1e-6 && (explain.vector - 0.2).abs() < 1e-6, "{explain:?}");
        assert!((total - 0.2).abs() < 1e-6);
    }

    proptest! {
        #[test]
        fn a_score_is_from_0_to_1(best in 0_f32..100.0, bound in 0_f32..1e6, bm25 in 0_f32..100.0,
            cosine in proptest::option::of(-1_f32..1.0), importance in -1_f32..2.0, age in any::<i64>()) {
            let scale = Scale::new(best, bound, cosine);
            let (total, _) = score(scale, bm25, cosine, importance, Kind::Note, age);
            prop_assert!((0.0..=1.0).contains(&total), "{}", total);
        }
    }
}

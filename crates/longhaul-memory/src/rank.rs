//! Ranking: from what the legs say of a memory to one score, with the reasons.
//!
//! Pure. Legs are combined after normalisation, not by rank; then the memory's importance and its age weigh on the sum.
//! Weights are plain data ([`RankSettings`]); why they are what they are, and on which conversations they were chosen and
//! reported, is in `docs/decisions/ranking.md`. Invariants: every score is a finite number from 0 to 1, and equals what
//! its [`Explain`] adds up to.

mod context;
mod decay;
mod explain;
mod fuse;
pub(crate) mod importance;
mod settings;
mod standing;
mod uses;

pub(crate) use context::{beside, meaning_around};
pub use explain::{Decay, Explain, Importance, Leg, Rule};
pub(crate) use fuse::{Raw, Scale, lead};
pub(crate) use importance::Standing;
pub use importance::{TAG_ACTION, TAG_CACHE, TAG_TEMPORARY};
pub use settings::{HalfLives, LegWeights, RankSettings};
pub(crate) use standing::Stand;
pub(crate) use uses::Uses;

/// The score of one memory and its parts.
pub(crate) fn score(settings: &RankSettings, scale: &Scale, raw: Raw, standing: &Standing) -> (f32, Explain) {
    let (legs, relevance) = scale.fused(raw);
    let importance = importance::importance(settings, standing);
    let decay = decay::decay(settings, standing);
    let score = (relevance * importance.factor * decay.factor).clamp(0.0, 1.0);
    let [words, words_around, meaning, meaning_around] = legs;
    (score, Explain { words, words_around, meaning, meaning_around, relevance, importance, decay })
}

#[cfg(test)]
mod tests;

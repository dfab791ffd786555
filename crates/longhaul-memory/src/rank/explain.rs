//! Why a hit has its score: every leg, the importance and the age, in numbers that add up. Part of the public answer, so
//! fields are added here and never renamed.

use serde::{Deserialize, Serialize};

/// The parts of a score: `relevance · importance.factor · decay.factor`, where the relevance is the sum of the legs'
/// contributions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Explain {
    /// The words of the memory and its date; `raw` is BM25.
    pub words: Leg,
    /// The words of the memory with its neighbours in the thread; `raw` is BM25.
    pub words_around: Leg,
    /// The meaning of the memory; `raw` is a cosine.
    pub meaning: Leg,
    /// The meaning of the memory and its neighbours; `raw` is a mean of cosines.
    pub meaning_around: Leg,
    /// Sum of the contributions, 0 to 1.
    pub relevance: f32,
    /// How important the memory is, and why.
    pub importance: Importance,
    /// How much it has faded.
    pub decay: Decay,
}

/// What one leg says of a memory.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Leg {
    /// As it was measured; `None` where there is nothing to measure, such as the meaning of what has no vector yet.
    pub raw: Option<f32>,
    /// The same relative to the best in this answer, 0 to 1.
    pub share: f32,
    /// Part of the relevance that this leg decides; the weights of an answer add up to 1.
    pub weight: f32,
    /// `share · weight`.
    pub contribution: f32,
}

/// How important a memory is now.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Importance {
    /// What the score is multiplied by.
    pub factor: f32,
    /// 0 to 1, by the rule.
    pub value: f32,
    /// What decided it.
    pub rule: Rule,
    /// As it was stated when it was written, 0 to 1.
    pub stated: f32,
    /// How lately it happened, was edited or used, 0 to 1.
    pub recency: f32,
    /// How often it is used, 0 to 1.
    pub frequency: f32,
}

/// What decides how important a memory is; the first that applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// It is pinned: 1.
    Pinned,
    /// A temporary or cache file: never above the cap.
    Temporary,
    /// A user said or decided it: never below the floor.
    Said,
    /// It was touched lately, which speaks louder than how often.
    Recency,
    /// It is used often, which speaks louder than when.
    Frequency,
    /// Nothing speaks for more than was stated.
    Stated,
}

/// How much a memory has faded.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Decay {
    /// What the score is multiplied by.
    pub factor: f32,
    /// Since it happened, in days.
    pub age_days: f32,
    /// Days after which half of what can fade is gone; `None` for what does not fade.
    pub half_life_days: Option<f32>,
}

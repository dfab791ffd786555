//! What ranking can be told: weights, half-lives, shares. Plain data with defaults.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Kind, MemoryError, item::field};

/// How hits are weighed against each other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RankSettings {
    /// Parts of the relevance.
    pub legs: LegWeights,
    /// Part of a score that depends on the importance, 0 to 1.
    pub importance_share: f32,
    /// Part of a score that fades with age, 0 to 1. What is left for ever is one minus this.
    pub decay_share: f32,
    /// How fast each kind fades.
    pub half_lives: HalfLives,
    /// Days after which the recency in a memory's importance has halved.
    pub recency_half_life_days: f32,
    /// Uses after which the frequency in a memory's importance has reached a half.
    pub frequency_half: f32,
    /// Importance that what a user said or decided never falls below, 0 to 1.
    pub said_floor: f32,
    /// Importance that temporary and cache files never rise above, 0 to 1.
    pub temporary_cap: f32,
}

impl Default for RankSettings {
    fn default() -> Self {
        Self {
            legs: LegWeights::default(),
            importance_share: 0.2,
            decay_share: 0.4,
            half_lives: HalfLives::default(),
            recency_half_life_days: 7.0,
            frequency_half: 5.0,
            said_floor: 0.6,
            temporary_cap: 0.2,
        }
    }
}

impl RankSettings {
    /// Checks the ranges.
    ///
    /// # Errors
    /// [`MemoryError::Field`] naming the setting that is out of range.
    pub fn check(&self) -> Result<(), MemoryError> {
        let share = |name: &'static str, value: f32| {
            if (0.0..=1.0).contains(&value) {
                return Ok(());
            }
            Err(field(name, &value.to_string(), "a number from 0 to 1"))
        };
        let more_than_none = |name: &'static str, value: f32| {
            if value.is_finite() && value > 0.0 {
                return Ok(());
            }
            Err(field(name, &value.to_string(), "a number above 0"))
        };
        let LegWeights { words, words_around, meaning, meaning_around } = self.legs;
        share("rank.legs.words", words)?;
        share("rank.legs.words_around", words_around)?;
        share("rank.legs.meaning", meaning)?;
        share("rank.legs.meaning_around", meaning_around)?;
        more_than_none("the sum of rank.legs", words + words_around + meaning + meaning_around)?;
        share("rank.importance_share", self.importance_share)?;
        share("rank.decay_share", self.decay_share)?;
        share("rank.said_floor", self.said_floor)?;
        share("rank.temporary_cap", self.temporary_cap)?;
        more_than_none("rank.recency_half_life_days", self.recency_half_life_days)?;
        more_than_none("rank.frequency_half", self.frequency_half)?;
        self.half_lives.0.values().flatten().try_for_each(|days| more_than_none("rank.half_lives", *days))
    }
}

/// The parts of the relevance. Only their proportions count.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LegWeights {
    /// The words of the memory and its date.
    pub words: f32,
    /// The words of the memory with its neighbours in the thread, and its date.
    pub words_around: f32,
    /// The meaning of the memory.
    pub meaning: f32,
    /// The meaning of the memory and its neighbours, on average.
    pub meaning_around: f32,
}

impl Default for LegWeights {
    fn default() -> Self {
        Self { words: 0.10, words_around: 0.45, meaning: 0.25, meaning_around: 0.20 }
    }
}

/// For kinds that are named here, days after which half of what can fade is gone; `None` for never. Kinds that are not
/// named fade as [`Kind::half_life_days`] says.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HalfLives(pub BTreeMap<Kind, Option<f32>>);

impl HalfLives {
    /// The half-life of a kind in days; `None` for what does not fade.
    #[must_use]
    pub fn days(&self, kind: Kind) -> Option<f32> {
        self.0.get(&kind).copied().unwrap_or_else(|| kind.half_life_days())
    }
}

//! How large a plan a request wants. The initializer says how large the thing is; a person may set a number. The harness
//! holds the plan to it.

use serde::{Deserialize, Serialize};

use crate::features::Feature;

/// Sentences from which a feature counts as a long one.
const LONG_STEPS: usize = 10;

/// How large the thing is that was asked for, in the initializer's judgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Size {
    /// A page, a script, a report.
    Small,
    /// An application with several views.
    Medium,
    /// A product: "a clone of claude.ai".
    Large,
}

impl Size {
    /// The size by its name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "small" => Some(Self::Small),
            "medium" => Some(Self::Medium),
            "large" => Some(Self::Large),
            _ => None,
        }
    }
}

/// The least a plan must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// Features in all.
    pub(crate) features: usize,
    /// Features of ten sentences or more.
    pub(crate) long: usize,
}

impl Wanted {
    /// What is wanted: the number that a person set, else what follows from the size.
    pub(crate) fn of(features_min: usize, size: Option<Size>) -> Self {
        let by_size = match size {
            None => Self { features: 0, long: 0 },
            Some(Size::Small) => Self { features: 3, long: 0 },
            Some(Size::Medium) => Self { features: 40, long: 5 },
            Some(Size::Large) => Self { features: 200, long: 25 },
        };
        match features_min {
            0 => by_size,
            // One long feature in eight, as in a large plan.
            features => Self { features, long: if features >= 40 { features / 8 } else { 0 } },
        }
    }

    /// What the plan still lacks, in words; nothing when it is large enough.
    pub(crate) fn lacking(self, features: &[Feature]) -> Option<String> {
        let (all, long) = (features.len(), long(features));
        let mut missing = Vec::new();
        if all < self.features {
            missing.push(format!("{all} of at least {} features are planned", self.features));
        }
        if long < self.long {
            missing.push(format!("{long} of at least {} features with {LONG_STEPS} sentences or more", self.long));
        }
        (!missing.is_empty()).then(|| missing.join(", "))
    }
}

/// How many features are long.
pub(crate) fn long(features: &[Feature]) -> usize {
    features.iter().filter(|feature| feature.definition.steps.len() >= LONG_STEPS).count()
}

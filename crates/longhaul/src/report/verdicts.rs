//! Questions about the verdicts of a project, and which features passed when.

use std::collections::BTreeSet;

use longhaul_harness::verification::{Evidence, Occasion, StoredVerdict};
use serde::Deserialize;

/// Why the verdict was made.
pub(super) fn occasion(stored: &StoredVerdict) -> Option<Occasion> {
    let value = serde_json::to_value(&stored.verdict).ok()?;
    Occasion::deserialize(value.get("occasion")?).ok()
}

/// A verdict with its occasion.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen<'a> {
    pub(super) stored: &'a StoredVerdict,
    pub(super) occasion: Option<Occasion>,
}

impl Seen<'_> {
    pub(super) fn feature(&self) -> &str {
        self.stored.verdict.feature().as_str()
    }

    pub(super) fn passed(&self) -> bool {
        self.stored.verdict.passed()
    }

    pub(super) fn id(&self) -> String {
        self.stored.verdict.id().to_string()
    }

    pub(super) fn is_claim(&self) -> bool {
        self.occasion == Some(Occasion::Claim)
    }

    /// The session it was made in, where it was made in one.
    pub(super) fn session(&self) -> Option<u32> {
        Some(self.stored.session).filter(|n| *n > 0)
    }

    /// Whether it says where its feature stands: a refused claim does not, nor one about a folder with stray changes.
    fn decides(&self) -> bool {
        match self.occasion {
            Some(Occasion::Claim) => self.passed(),
            Some(Occasion::OnDemand) => self.stored.commit.is_some(),
            Some(Occasion::Regression | Occasion::FinalCheck) | None => true,
        }
    }
}

impl<'a> Seen<'a> {
    /// Its last picture.
    pub(super) fn picture(&self) -> Option<&'a Evidence> {
        self.stored.verdict.evidence().iter().rev().find(|piece| piece.media_type == "image/png")
    }
}

/// Which features passed when, replayed from the verdicts.
#[derive(Debug, Default)]
pub(super) struct Course {
    /// Moments at which the number changed, and the number.
    counts: Vec<(i64, usize)>,
    /// Verdicts, by position, that found a passing feature broken.
    pub(super) broke: Vec<usize>,
}

impl Course {
    pub(super) fn replay(seen: &[Seen<'_>]) -> Self {
        let mut passing: BTreeSet<&str> = BTreeSet::new();
        let mut course = Self::default();
        for (position, verdict) in seen.iter().enumerate().filter(|(_, verdict)| verdict.decides()) {
            if verdict.passed() {
                passing.insert(verdict.feature());
            } else if passing.remove(verdict.feature()) {
                course.broke.push(position);
            }
            course.counts.push((verdict.stored.at.0, passing.len()));
        }
        course
    }

    /// Features that passed at this moment.
    pub(super) fn passing_at(&self, at: i64) -> usize {
        let after = self.counts.partition_point(|(when, _)| *when <= at);
        after.checked_sub(1).map_or(0, |last| self.counts[last].1)
    }
}

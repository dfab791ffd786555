//! What came out: how many faults were refused, how many healthy features passed, and what differed between runs.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde_json::json;

use crate::plan::Fault;

/// How one verification ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    Refused(String),
    /// No verdict. That is neither a pass nor a refusal, and never right.
    Undecided(String),
}

impl Outcome {
    fn name(&self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Refused(_) => "refused",
            Self::Undecided(_) => "undecided",
        }
    }
}

/// Every outcome so far.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    outcomes: BTreeMap<(&'static str, String, Option<Fault>), Vec<Outcome>>,
}

impl Figures {
    pub(crate) fn note(&mut self, app: &'static str, feature: &str, fault: Option<Fault>, outcome: Outcome) {
        self.outcomes.entry((app, feature.to_owned(), fault)).or_default().push(outcome);
    }

    /// How many kinds of faults there were.
    pub(crate) fn kinds(&self) -> usize {
        let kinds: BTreeSet<&str> = self.outcomes.keys().filter_map(|(.., f)| f.map(|f| f.seed.kind())).collect();
        kinds.len()
    }

    /// Outcomes of faults, or of what is healthy, and how many of them are as they should be.
    fn share(&self, faulty: bool) -> (usize, usize) {
        let wanted = if faulty { "refused" } else { "passed" };
        let of = self.outcomes.iter().filter(|((.., fault), _)| fault.is_some() == faulty);
        let all: Vec<&Outcome> = of.flat_map(|(_, outcomes)| outcomes).collect();
        (all.iter().filter(|outcome| outcome.name() == wanted).count(), all.len())
    }

    fn flaky(&self) -> usize {
        let differ = |outcomes: &&Vec<Outcome>| outcomes.iter().any(|o| o.name() != outcomes[0].name());
        self.outcomes.values().filter(differ).count()
    }

    /// Whether the figures are what is promised: 95 % of the faults refused, 2 % of the healthy at most, nothing flaky.
    pub(crate) fn hold(&self) -> bool {
        let ((refused, faults), (passed, healthy)) = (self.share(true), self.share(false));
        refused * 100 >= faults * 95 && passed * 100 >= healthy * 98 && self.flaky() == 0
    }

    /// One line for machines.
    pub(crate) fn json(&self) -> serde_json::Value {
        let ((refused, faults), (passed, healthy)) = (self.share(true), self.share(false));
        json!({
            "kinds": self.kinds(), "faults": faults, "refused": refused, "healthy": healthy, "passed": passed,
            "flaky": self.flaky(), "ok": self.hold(),
        })
    }
}

impl fmt::Display for Figures {
    /// The shares, and every outcome that is not as it should be.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ((refused, faults), (passed, healthy)) = (self.share(true), self.share(false));
        writeln!(
            f,
            "{refused} of {faults} faults of {} kinds refused, {passed} of {healthy} healthy features passed, {} flaky",
            self.kinds(),
            self.flaky()
        )?;
        for ((app, feature, fault), outcomes) in &self.outcomes {
            let wanted = if fault.is_some() { "refused" } else { "passed" };
            let wrong: Vec<_> = outcomes.iter().filter(|outcome| outcome.name() != wanted).collect();
            if let Some(first) = wrong.first() {
                let what = fault.map_or_else(|| "healthy".to_owned(), |fault| format!("{:?}", fault.seed));
                writeln!(f, "  {app} {feature}, {what}: {} of {} times {first:?}", wrong.len(), outcomes.len())?;
            }
        }
        Ok(())
    }
}

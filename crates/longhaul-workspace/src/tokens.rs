//! Counting tokens for a budget: by the estimate, by the estimate corrected by what a service reported, or by the model's
//! own tokenizer file.
//!
//! It does not bill anybody: a service's own count always wins. Invariant: a counter gives the same number for the same
//! text for as long as it lives, so that a budget kept by one is kept whenever it is asked again.

mod file;

use std::collections::VecDeque;

use longhaul_core::estimate_tokens;

pub use file::TokenizerFile;
pub(crate) use file::Tokenizers;

/// Counts tokens as some model would.
pub trait TokenCounter: Send + Sync {
    /// Tokens of the text; the same for the same text.
    fn count(&self, text: &str) -> u64;

    /// How it counts, in a few words for people: `estimate`, `estimate × 1.21`, `tokenizer.json`.
    fn name(&self) -> String {
        "a counter of the caller's".to_owned()
    }
}

/// Counts by [`estimate_tokens`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Estimator;

impl TokenCounter for Estimator {
    fn count(&self, text: &str) -> u64 {
        estimate_tokens(text)
    }

    fn name(&self) -> String {
        "estimate".to_owned()
    }
}

/// What was estimated of a request, and what the service said of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsageReport {
    /// By [`estimate_tokens`].
    pub estimated: u64,
    /// By the service.
    pub reported: u64,
}

/// Reports that count; older ones are dropped.
pub const REPORTS_MAX: usize = 64;
/// Fewer say nothing.
pub const REPORTS_MIN: usize = 3;
/// Requests smaller than this tell more of a service's frame around a message than of its tokenizer.
const ESTIMATED_MIN: u64 = 100;
/// No tokenizer of today is further off than this, in either direction.
const FACTOR_MIN: f64 = 0.5;
const FACTOR_MAX: f64 = 4.0;

/// The newest reports of one model. Plain data; give it what the service says and take a counter when one is needed.
#[derive(Debug, Clone, Default)]
pub struct UsageReports {
    newest: VecDeque<UsageReport>,
}

impl UsageReports {
    /// Takes note of one answer.
    pub fn add(&mut self, report: UsageReport) {
        if report.estimated < ESTIMATED_MIN || report.reported == 0 {
            return;
        }
        if self.newest.len() == REPORTS_MAX {
            self.newest.pop_front();
        }
        self.newest.push_back(report);
    }

    /// A counter by what is known now; the plain estimate until [`REPORTS_MIN`] answers are.
    ///
    /// Its factor is the reported in the estimated tokens of all, and the standard deviation of the single answers on top:
    /// a budget is better kept than used up.
    #[must_use]
    pub fn counter(&self) -> CorrectedEstimator {
        if self.newest.len() < REPORTS_MIN {
            return CorrectedEstimator { factor: 1.0 };
        }
        let sum = |of: fn(&UsageReport) -> u64| self.newest.iter().map(of).sum::<u64>() as f64;
        let mean = sum(|report| report.reported) / sum(|report| report.estimated);
        let off = self.newest.iter().map(|report| (report.reported as f64 / report.estimated as f64 - mean).powi(2));
        let deviation = (off.sum::<f64>() / self.newest.len() as f64).sqrt();
        CorrectedEstimator { factor: (mean + deviation).clamp(FACTOR_MIN, FACTOR_MAX) }
    }
}

impl Extend<UsageReport> for UsageReports {
    fn extend<T: IntoIterator<Item = UsageReport>>(&mut self, reports: T) {
        reports.into_iter().for_each(|report| self.add(report));
    }
}

/// [`estimate_tokens`] times a factor that [`UsageReports`] found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CorrectedEstimator {
    factor: f64,
}

impl CorrectedEstimator {
    /// What an estimate is multiplied by.
    #[must_use]
    pub fn factor(&self) -> f64 {
        self.factor
    }
}

impl TokenCounter for CorrectedEstimator {
    fn count(&self, text: &str) -> u64 {
        (estimate_tokens(text) as f64 * self.factor).ceil() as u64
    }

    fn name(&self) -> String {
        format!("estimate × {:.2}", self.factor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_of_the_service_correct_the_estimate() {
        let mut reports = UsageReports::default();
        let text = "one two three four five six seven eight nine ten";
        reports.extend([UsageReport { estimated: 1_000, reported: 1_200 }; 2]);
        assert_eq!(reports.counter().count(text), 10, "two reports say nothing yet");
        // Small requests and answers without a count are no evidence.
        reports.extend([UsageReport { estimated: 10, reported: 90 }, UsageReport { estimated: 500, reported: 0 }]);
        assert_eq!(reports.counter().count(text), 10);
        reports.add(UsageReport { estimated: 1_000, reported: 1_200 });
        assert_eq!(reports.counter().count(text), 12);
        assert_eq!(reports.counter().name(), "estimate × 1.20");
        // Answers that differ make it careful; nonsense stays within bounds.
        reports.add(UsageReport { estimated: 1_000, reported: 2_000 });
        assert!(reports.counter().factor() > 1.4, "{}", reports.counter().factor());
        reports.extend([UsageReport { estimated: 100, reported: u64::from(u32::MAX) }; 80]);
        assert!((reports.counter().factor() - 4.0).abs() < 1e-9);
        assert_eq!(UsageReports::default().counter().count(""), 0);
    }
}

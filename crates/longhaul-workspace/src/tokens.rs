//! Counting tokens for a budget: by the estimator, by the estimator corrected by what a service reported, or by the
//! model's own tokenizer file.
//!
//! Invariant: the same text has the same count from the same counter.

use longhaul_core::estimate_tokens;

/// Counts the tokens of a text.
pub trait TokenCounter: Send + Sync {
    /// How many tokens the text is.
    fn count(&self, text: &str) -> u64;
}

/// Counts with [`estimate_tokens`].
#[derive(Debug, Clone, Copy, Default)]
pub struct Estimator;

impl TokenCounter for Estimator {
    fn count(&self, text: &str) -> u64 {
        estimate_tokens(text)
    }
}

//! The port behind which a model shortens what no longer fits a window.
//!
//! It owns the question and nothing else: what is summarised, and when, is the session's business; a model stands behind
//! it in `longhaul-agent`. Invariant: a summary never replaces a message, it only stands before those that are shown.

use async_trait::async_trait;

use super::StoredMessage;

/// Shortens a stretch of a conversation.
#[async_trait]
pub trait Summarise: Send + Sync {
    /// A summary of `before` (what was summarised earlier, if anything) and of these messages, which follow it, in at
    /// most about `tokens_max` tokens. A longer one is cut.
    ///
    /// # Errors
    /// When it cannot be made. The window then shows the newest messages without one, and says so.
    async fn summarise(
        &self,
        before: Option<&str>,
        messages: &[StoredMessage],
        tokens_max: u64,
    ) -> Result<String, SummariseError>;
}

/// Why there is no summary.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the conversation could not be summarised: {problem}; the newest messages are shown alone")]
pub struct SummariseError {
    /// What went wrong.
    pub problem: String,
}

//! The port through which a conversation's tool calls are carried out and recorded.

use async_trait::async_trait;
use longhaul_core::ToolCall;
use longhaul_durable::{NodeContext, NodeError, StepError};

/// What follows a tool's result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum After {
    /// The model is asked again.
    Continue,
    /// The conversation has reached its purpose; the model is not asked again.
    Done,
    /// The agent handed over to the next session with this note.
    HandOver(String),
}

/// The result of one tool call, as the model will see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolTurn {
    /// The text that the model reads.
    pub text: String,
    /// What follows.
    pub after: After,
}

/// Carries out tool calls. The host records what must not happen twice as steps of `ctx`, in the order of the calls,
/// and returns the same results when they are replayed.
#[async_trait]
pub trait ToolHost: Send + Sync {
    /// Carries out one call. A wrong call (unknown tool, bad arguments) is a text for the model, not an error.
    ///
    /// # Errors
    /// What ends the execution here: cancellation, a store that cannot be written.
    async fn call(&self, ctx: &NodeContext, call: &ToolCall) -> Result<ToolTurn, NodeError>;

    /// What the work's folder is now, in any words that differ when it does; none where nobody knows. Asked after each
    /// call, and the same on replay.
    fn folder(&self) -> Option<String> {
        None
    }

    /// Whether an answer without a tool call is the end: somebody talks with the model, and what it says is what they
    /// wait for. Otherwise it is told to go on, as work ends with a tool. The same on replay.
    fn ends_with_text(&self) -> bool {
        false
    }

    /// Why the conversation has to end before the model is asked again, if it has to: a person wants the folder, for
    /// instance. Asked where [`Self::news`] is, and recorded in the same place.
    ///
    /// # Errors
    /// When it cannot be found out.
    async fn must_end(&self) -> Result<Option<String>, StepError> {
        Ok(None)
    }

    /// What the model should be told before it is asked next, each as a message of its own: a person's intervention, for
    /// instance. Asked within the step that records the answer, whose recording then has it.
    ///
    /// # Errors
    /// When it cannot be found out.
    async fn news(&self) -> Result<Vec<String>, StepError> {
        Ok(Vec::new())
    }
}

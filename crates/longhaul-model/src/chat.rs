//! The chat port: what a model is asked, what it answers, and the trait between the two.
//!
//! These types are stored (a response is the recorded result of a step), so they are ours and not a provider's;
//! each provider translates at its own edge.

use async_trait::async_trait;
use longhaul_core::{ToolCall, ToolSpec};
use serde::{Deserialize, Serialize};

use crate::{ModelError, estimate_tokens};

/// Receives an answer's text as it arrives.
pub type OnDelta<'a> = &'a mut (dyn FnMut(&str) + Send);

/// A model that converses and asks for tools.
#[async_trait]
pub trait ChatModel: Send + Sync {
    /// Which model this is, and how much it can read.
    fn info(&self) -> &ModelInfo;

    /// Asks once, retrying what is worth retrying.
    ///
    /// `on_delta` receives the answer's text as it arrives, for display only: after a retry it starts again from the
    /// beginning, and the returned response is the one truth. Dropping the future cancels the request.
    ///
    /// # Errors
    /// See [`ModelError`]: each says by its [`kind`](ModelError::kind) who can do something about it.
    async fn chat(&self, request: &ChatRequest, on_delta: OnDelta<'_>) -> Result<ChatResponse, ModelError>;
}

/// Facts about a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelInfo {
    /// The name sent to the service: `gpt-5.1`.
    pub name: String,
    /// The protocol spoken: `openai`.
    pub provider: String,
    /// How many tokens prompt and answer may have together.
    pub window_tokens: u64,
}

/// One question to a model: the whole conversation so far.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ChatRequest {
    /// The system prompt; none is sent when empty.
    pub system: String,
    /// The conversation, oldest first.
    pub messages: Vec<Message>,
    /// The tools on offer.
    pub tools: Vec<ToolSpec>,
    /// Most tokens the answer may have; 0 leaves it to the service.
    pub answer_tokens_max: u32,
}

impl ChatRequest {
    /// The request's size as [`estimate_tokens`] sees it, with 4 tokens around each message as in the chat format.
    #[must_use]
    pub fn estimated_tokens(&self) -> u64 {
        let tools = self.tools.iter().map(|tool| {
            8 + estimate_tokens(&tool.name)
                + estimate_tokens(&tool.description)
                + estimate_tokens(&tool.parameters.to_string())
        });
        4 + estimate_tokens(&self.system)
            + self.messages.iter().map(Message::estimated_tokens).sum::<u64>()
            + tools.sum::<u64>()
    }
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    /// From the person, or from the harness in their place.
    User {
        /// The text.
        content: String,
    },
    /// From the model.
    Assistant {
        /// The text; empty when it only asked for tools.
        content: String,
        /// The tools it asked for; each is answered by a following [`Message::Tool`].
        #[serde(default)]
        tool_calls: Vec<ToolCall>,
    },
    /// The result of one tool call.
    Tool {
        /// The id of the call that this answers.
        call_id: String,
        /// The result, as the model reads it.
        content: String,
    },
}

impl Message {
    /// The message's size as [`estimate_tokens`] sees it.
    #[must_use]
    pub fn estimated_tokens(&self) -> u64 {
        4 + match self {
            Self::User { content } | Self::Tool { content, .. } => estimate_tokens(content),
            Self::Assistant { content, tool_calls } => {
                let calls =
                    tool_calls.iter().map(|call| 8 + estimate_tokens(&call.name) + estimate_tokens(&call.arguments));
                estimate_tokens(content) + calls.sum::<u64>()
            }
        }
    }
}

/// A model's answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChatResponse {
    /// The text; empty when the model only asked for tools.
    pub content: String,
    /// The tools asked for, in order. With [`Finish::Length`] the last one's arguments may be cut.
    pub tool_calls: Vec<ToolCall>,
    /// What it cost.
    pub usage: Usage,
    /// Why the model stopped.
    pub finish: Finish,
    /// The model that answered, by the service's word; it may be a dated version of the one asked for.
    pub model: String,
    /// The attempts that failed before this answer, oldest first.
    #[serde(default)]
    pub retries: Vec<Retry>,
}

/// Token counts of one answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens read, cached ones included.
    pub prompt_tokens: u64,
    /// Tokens written, hidden reasoning included.
    pub answer_tokens: u64,
    /// How many of the prompt's tokens came from the service's cache.
    pub cached_tokens: u64,
    /// True when the service gave no counts and these come from [`estimate_tokens`].
    #[serde(default)]
    pub estimated: bool,
}

/// Why a model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// It was done.
    Stop,
    /// It waits for tool results.
    ToolCalls,
    /// It reached the answer's or the window's limit.
    Length,
    /// The service withheld the rest.
    ContentFilter,
}

/// An attempt that failed and was followed by another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    /// The HTTP status, if there was an HTTP answer at all.
    pub status: Option<u16>,
    /// The failure's stable code, as [`ModelError::code`] gives it.
    pub code: String,
    /// How long we then waited, milliseconds.
    pub waited_ms: u64,
}

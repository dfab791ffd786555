//! The chat port: what a model is asked, what it answers, and the trait between the two.
//!
//! These types are stored (a response is the recorded result of a step), so they are ours and not a provider's;
//! each provider translates at its own edge.

use async_trait::async_trait;
use longhaul_core::{ToolCall, ToolSpec};
use serde::{Deserialize, Serialize};
use serde_json::Value;

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
    /// The protocol spoken: `openai`, `openai-responses` or `anthropic`.
    pub provider: String,
    /// How many tokens prompt and answer may have together.
    pub window_tokens: u64,
}

impl ModelInfo {
    /// The model as it is written in settings: `openai:gpt-5.1`, `anthropic:NAME`, `openai-responses:NAME`.
    #[must_use]
    pub fn spec(&self) -> String {
        format!("{}:{}", self.provider, self.name)
    }
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
    /// What the answer's text has to be, when it is for a program; none leaves it free.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_schema: Option<AnswerSchema>,
}

/// A form for the answer's text: JSON of this schema and nothing around it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AnswerSchema {
    /// A short name, `[a-z_]+`, which some services show the model.
    pub name: String,
    /// JSON Schema of an object. Services take a part of the standard only: `type`, `properties`, `required`, `items`,
    /// `enum`, `anyOf`, and `additionalProperties: false` on each object.
    pub schema: Value,
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
        /// What it thought before, as its service gave it out.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        reasoning: Vec<Reasoning>,
    },
    /// The result of one tool call.
    Tool {
        /// The id of the call that this answers.
        call_id: String,
        /// The result, as the model reads it.
        content: String,
    },
}

/// Reasoning that a service wants back unchanged, and that nobody else can read: Anthropic refuses a conversation whose
/// thinking blocks were changed by a letter, OpenAI one whose calls lack their reasoning.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reasoning {
    /// Whose it is, [`ModelInfo::spec`]: another model never gets it.
    pub spec: String,
    /// The block as the service's protocol has it.
    pub block: Value,
}

impl Message {
    /// A message of the model's that only says something.
    #[must_use]
    pub fn said(content: impl Into<String>) -> Self {
        Self::Assistant { content: content.into(), tool_calls: Vec::new(), reasoning: Vec::new() }
    }

    /// The message's size as [`estimate_tokens`] sees it.
    #[must_use]
    pub fn estimated_tokens(&self) -> u64 {
        4 + match self {
            Self::User { content } | Self::Tool { content, .. } => estimate_tokens(content),
            Self::Assistant { content, tool_calls, reasoning } => {
                let calls =
                    tool_calls.iter().map(|call| 8 + estimate_tokens(&call.name) + estimate_tokens(&call.arguments));
                let thought = reasoning.iter().map(|thought| estimate_tokens(&thought.block.to_string()));
                estimate_tokens(content) + calls.sum::<u64>() + thought.sum::<u64>()
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
    /// What the model thought before it answered; it goes back with the answer, see [`Self::message`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasoning: Vec<Reasoning>,
    /// Which of several configured models answered, [`ModelInfo::spec`]; empty in answers recorded by the first release.
    #[serde(default)]
    pub answered_by: String,
    /// The models that were to answer before that one and did not, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passed_over: Vec<PassedOver>,
}

impl ChatResponse {
    /// The answer as a message of the conversation.
    #[must_use]
    pub fn message(&self) -> Message {
        Message::Assistant {
            content: self.content.clone(),
            tool_calls: self.tool_calls.clone(),
            reasoning: self.reasoning.clone(),
        }
    }
}

/// A configured model that did not answer, so that the next one was asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassedOver {
    /// Which one, [`ModelInfo::spec`].
    pub spec: String,
    /// Why, as [`ModelError::code`] gives it; `resting` when it was not asked because it had failed a little before.
    pub code: String,
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
    /// How many of the prompt's tokens were written to that cache, where the service charges for it; no part of
    /// `cached_tokens`.
    #[serde(default)]
    pub written_tokens: u64,
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

//! What the clients for OpenAI's protocols can be told.

use crate::{CallLimits, Secret};

/// How to reach an OpenAI-compatible chat service.
#[derive(Debug, Clone)]
pub struct OpenAiSettings {
    /// The model's name, as the service knows it.
    pub model: String,
    /// Where the service is. A URL without a path gets `/v1`; any other path is kept; slashes at the end, and a
    /// trailing `/chat/completions` or `/embeddings`, are dropped. So `http://127.0.0.1:11434`, `http://127.0.0.1:11434/v1` and
    /// `http://127.0.0.1:11434/v1/` are the same.
    pub base_url: String,
    /// The key, sent as `Authorization: Bearer`; `None` or an empty one for services that want none.
    pub api_key: Option<Secret>,
    /// The setting or variable that supplies the key, for error messages: `OPENAI_API_KEY`.
    pub api_key_source: String,
    /// How many tokens prompt and answer may have together.
    pub window_tokens: u64,
    /// How the answer's limit is written in the request.
    pub answer_limit_field: AnswerLimitField,
    /// Whether to ask for the answer as a stream. A service that answers plain JSON all the same is understood.
    pub stream: bool,
    /// Whether to ask for token counts at the end of a stream (`stream_options`), which a few services refuse with
    /// 400 or 422.
    pub stream_usage: bool,
    /// How much the model is to think before it answers, in a word that the service knows (`low`, `medium`, `high` …):
    /// `reasoning_effort` of Chat Completions, `reasoning.effort` of Responses. `None` leaves it to the service.
    pub effort: Option<String>,
    /// Whether the service is known to promise the form of [`crate::AnswerSchema`]. If not, the schema is told to the
    /// model in the system prompt instead.
    pub promises_schema: bool,
    /// Bounds on time, bytes and attempts.
    pub limits: CallLimits,
}

impl OpenAiSettings {
    /// `https://api.openai.com/v1`.
    pub const DEFAULT_BASE_URL: &str = "https://api.openai.com/v1";
    /// The window assumed when nobody states one.
    pub const DEFAULT_WINDOW_TOKENS: u64 = 128_000;

    /// Everything at its default but the model's name.
    #[must_use]
    pub fn new(model: &str) -> Self {
        Self {
            model: model.to_owned(),
            base_url: Self::DEFAULT_BASE_URL.to_owned(),
            api_key: None,
            api_key_source: "OPENAI_API_KEY".to_owned(),
            window_tokens: Self::DEFAULT_WINDOW_TOKENS,
            answer_limit_field: AnswerLimitField::ByHost,
            stream: true,
            stream_usage: true,
            effort: None,
            promises_schema: true,
            limits: CallLimits::default(),
        }
    }
}

/// How the most tokens of an answer are written in a request. OpenAI's newer models refuse the old name, many
/// compatible servers do not know the new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AnswerLimitField {
    /// `max_completion_tokens` for `api.openai.com`, `max_tokens` elsewhere.
    ByHost,
    /// `max_tokens`.
    MaxTokens,
    /// `max_completion_tokens`.
    MaxCompletionTokens,
}

//! The client for Anthropic's Messages, and for services that speak them.
//!
//! It owns the shapes of requests and answers (`wire`, `assemble`); the order of a call is `service`'s.
//! Invariant: a thinking block goes back as it came, to the model that it came from, or not at all.

pub(crate) mod assemble;
mod wire;

use async_trait::async_trait;
use longhaul_core::Ambient;

use crate::{
    CallLimits, ChatModel, ChatRequest, ChatResponse, ModelError, ModelInfo, OnDelta, Retry, Secret,
    service::{Service, ServiceSettings, limits},
};

/// How to reach a service that speaks Anthropic's Messages.
#[derive(Debug, Clone)]
pub struct AnthropicSettings {
    /// The model's name, as the service knows it.
    pub model: String,
    /// Where the service is. A URL without a path gets `/v1`; a trailing `/messages` is dropped.
    pub base_url: String,
    /// The key, sent as `x-api-key`; `None` or an empty one for services that want none.
    pub api_key: Option<Secret>,
    /// The setting or variable that supplies the key, for error messages: `ANTHROPIC_API_KEY`.
    pub api_key_source: String,
    /// How many tokens prompt and answer may have together.
    pub window_tokens: u64,
    /// Most tokens of an answer when the request leaves it open; the protocol has to be told a number.
    pub answer_tokens_default: u32,
    /// Whether the model thinks before it answers.
    pub thinking: Thinking,
    /// How much the model is to do for its answer, in a word that the service knows (`low`, `medium`, `high` …).
    pub effort: Option<String>,
    /// Whether the parts of a request that stay the same are marked for the service's cache.
    pub cache: bool,
    /// Whether to ask for the answer as a stream.
    pub stream: bool,
    /// Bounds on time, bytes and attempts.
    pub limits: CallLimits,
}

/// Whether a model thinks before it answers, and who sees to how much.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Thinking {
    /// The request says nothing of it.
    #[default]
    Unstated,
    /// As much as the model finds right.
    Adaptive,
    /// At most so many tokens, at least 1,024; they come on top of the answer's.
    Tokens(u32),
}

impl AnthropicSettings {
    /// `https://api.anthropic.com/v1`.
    pub const DEFAULT_BASE_URL: &str = "https://api.anthropic.com/v1";
    /// The window assumed when nobody states one.
    pub const DEFAULT_WINDOW_TOKENS: u64 = 200_000;

    /// Everything at its default but the model's name.
    #[must_use]
    pub fn new(model: &str) -> Self {
        Self {
            model: model.to_owned(),
            base_url: Self::DEFAULT_BASE_URL.to_owned(),
            api_key: None,
            api_key_source: "ANTHROPIC_API_KEY".to_owned(),
            window_tokens: Self::DEFAULT_WINDOW_TOKENS,
            answer_tokens_default: 8_192,
            thinking: Thinking::Unstated,
            effort: None,
            cache: true,
            stream: true,
            limits: CallLimits::default(),
        }
    }
}

/// A model behind Anthropic's Messages. Cheap to clone; clones share the connections.
#[derive(Debug, Clone)]
pub struct AnthropicChat {
    settings: AnthropicSettings,
    service: Service,
}

impl AnthropicChat {
    /// Prepares the client; nothing is sent yet.
    ///
    /// # Errors
    /// As [`crate::OpenAiChat::new`].
    pub fn new(settings: AnthropicSettings, ambient: &Ambient) -> Result<Self, ModelError> {
        if matches!(settings.thinking, Thinking::Tokens(..1_024)) {
            let reason = "a model that thinks has at least 1024 tokens for it".to_owned();
            return Err(ModelError::Settings { field: "thinking", reason });
        }
        let service = ServiceSettings {
            info: ModelInfo {
                name: settings.model.clone(),
                provider: "anthropic".to_owned(),
                window_tokens: settings.window_tokens,
            },
            base_url: limits::parse_base_url(&settings.base_url)?,
            route: "messages",
            api_key: settings.api_key.clone(),
            api_key_source: settings.api_key_source.clone(),
            key_header: Some("x-api-key"),
            headers: &[("anthropic-version", "2023-06-01")],
            limits: settings.limits,
        };
        Ok(Self { settings, service: Service::new(service, ambient)? })
    }

    /// The service's address as it is used.
    #[must_use]
    pub fn base_url(&self) -> &str {
        self.service.base_url()
    }

    /// The same model, which tells `observer` of each retry before it waits.
    #[must_use]
    pub fn on_retry(mut self, observer: impl Fn(&Retry) + Send + Sync + 'static) -> Self {
        self.service.on_retry(observer);
        self
    }

    /// Asks the service once for the names of its models, as [`crate::OpenAiChat::list_models`] does.
    ///
    /// # Errors
    /// [`ModelError::Unreachable`], [`ModelError::Unauthorized`] and the like.
    pub async fn list_models(&self) -> Result<Option<Vec<String>>, ModelError> {
        self.service.list_models().await
    }
}

#[async_trait]
impl ChatModel for AnthropicChat {
    fn info(&self) -> &ModelInfo {
        self.service.info()
    }

    async fn chat(&self, request: &ChatRequest, on_delta: OnDelta<'_>) -> Result<ChatResponse, ModelError> {
        let body = wire::request_body(&self.settings, &self.info().spec(), request).to_string();
        self.service.chat::<assemble::Assembler>(request, &body, on_delta).await
    }
}

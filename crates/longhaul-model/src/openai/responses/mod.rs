//! The client for OpenAI's Responses. Nothing of a conversation is left with the service (`store: false`): what the model
//! thought comes back sealed, and goes back with the next request.

pub(crate) mod assemble;
mod wire;

use async_trait::async_trait;
use longhaul_core::Ambient;

use super::OpenAiSettings;
use crate::{ChatModel, ChatRequest, ChatResponse, ModelError, ModelInfo, OnDelta, Retry, service::Service};

/// A model behind OpenAI's Responses. Cheap to clone; clones share the connections.
#[derive(Debug, Clone)]
pub struct OpenAiResponses {
    settings: OpenAiSettings,
    service: Service,
}

impl OpenAiResponses {
    /// Prepares the client; nothing is sent yet. `answer_limit_field` and `stream_usage` mean nothing here.
    ///
    /// # Errors
    /// As [`super::OpenAiChat::new`].
    pub fn new(settings: OpenAiSettings, ambient: &Ambient) -> Result<Self, ModelError> {
        let service = settings.service("openai-responses", "responses", ambient)?;
        Ok(Self { settings, service })
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

    /// Asks the service once for the names of its models, as [`super::OpenAiChat::list_models`] does.
    ///
    /// # Errors
    /// [`ModelError::Unreachable`], [`ModelError::Unauthorized`] and the like.
    pub async fn list_models(&self) -> Result<Option<Vec<String>>, ModelError> {
        self.service.list_models().await
    }
}

#[async_trait]
impl ChatModel for OpenAiResponses {
    fn info(&self) -> &ModelInfo {
        self.service.info()
    }

    async fn chat(&self, request: &ChatRequest, on_delta: OnDelta<'_>) -> Result<ChatResponse, ModelError> {
        let body = wire::request_body(&self.settings, &self.info().spec(), request).to_string();
        self.service.chat::<assemble::Assembler>(request, &body, on_delta).await
    }
}

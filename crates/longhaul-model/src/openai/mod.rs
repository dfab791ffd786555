//! The clients for OpenAI's protocols: Chat Completions, which most services and local servers speak, Responses in
//! `responses`, and embeddings in `embeddings`.
//!
//! They own the shapes of requests and answers; the order of a call is `service`'s.

pub(crate) mod assemble;
mod embeddings;
pub(crate) mod responses;
mod settings;
mod wire;

use async_trait::async_trait;
use longhaul_core::Ambient;

pub use embeddings::{EmbeddingClient, EmbeddingSettings, Embeddings};
pub use responses::OpenAiResponses;
pub use settings::{AnswerLimitField, OpenAiSettings};
pub(crate) use wire::text_of;

use crate::{
    ChatModel, ChatRequest, ChatResponse, ModelError, ModelInfo, OnDelta, Retry,
    service::{Service, ServiceSettings, limits},
};

/// A model behind a service that speaks OpenAI's Chat Completions. Cheap to clone; clones share the connections.
#[derive(Debug, Clone)]
pub struct OpenAiChat {
    settings: OpenAiSettings,
    service: Service,
}

impl OpenAiSettings {
    /// How the service behind one of its protocols is reached.
    fn service(&self, provider: &str, route: &'static str, ambient: &Ambient) -> Result<Service, ModelError> {
        let settings = ServiceSettings {
            info: ModelInfo {
                name: self.model.clone(),
                provider: provider.to_owned(),
                window_tokens: self.window_tokens,
            },
            base_url: limits::parse_base_url(&self.base_url)?,
            route,
            api_key: self.api_key.clone(),
            api_key_source: self.api_key_source.clone(),
            key_header: None,
            headers: &[],
            limits: self.limits,
        };
        Service::new(settings, ambient)
    }
}

impl OpenAiChat {
    /// Prepares the client; nothing is sent yet.
    ///
    /// A proxy named by the usual variables (`HTTPS_PROXY` …) is used, except for a service on this machine.
    ///
    /// # Errors
    /// [`ModelError::Settings`] for a base URL, key or model name that cannot work, [`ModelError::Tls`] when this
    /// machine has no CA certificates and the service needs them.
    pub fn new(settings: OpenAiSettings, ambient: &Ambient) -> Result<Self, ModelError> {
        let service = settings.service("openai", "chat/completions", ambient)?;
        Ok(Self { settings, service })
    }

    /// The service's address as it is used.
    #[must_use]
    pub fn base_url(&self) -> &str {
        self.service.base_url()
    }

    /// The same model, which tells `observer` of each retry before it waits, so that somebody who watches knows why
    /// nothing happens. The retries are in the response too.
    #[must_use]
    pub fn on_retry(mut self, observer: impl Fn(&Retry) + Send + Sync + 'static) -> Self {
        self.service.on_retry(observer);
        self
    }

    /// Asks the service once, without retries, for the names of its models, to find out whether it can be reached and
    /// takes the key. `None` when it answers but does not list models, as a few services do.
    ///
    /// # Errors
    /// [`ModelError::Unreachable`], [`ModelError::Unauthorized`] and the like.
    pub async fn list_models(&self) -> Result<Option<Vec<String>>, ModelError> {
        self.service.list_models().await
    }
}

#[async_trait]
impl ChatModel for OpenAiChat {
    fn info(&self) -> &ModelInfo {
        self.service.info()
    }

    async fn chat(&self, request: &ChatRequest, on_delta: OnDelta<'_>) -> Result<ChatResponse, ModelError> {
        let body = wire::request_body(&self.settings, self.service.host(), request).to_string();
        self.service.chat::<assemble::Assembler>(request, &body, on_delta).await
    }
}

//! The client for every service that speaks OpenAI's Chat Completions protocol; `embeddings` holds the one for embeddings.
//!
//! This file owns the order of a call: attempt, decide, wait, attempt again. It does not own the decisions
//! (`failure`, `backoff`), the shapes (`wire`), nor the reading of an answer (`answer`).
//! Invariant: one call makes at most `attempts_max` requests, and nothing of the key leaves in any error.

mod answer;
mod assemble;
mod backoff;
mod connection;
mod embeddings;
mod failure;
mod settings;
mod sse;
mod wire;

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use longhaul_core::Ambient;
use reqwest::{RequestBuilder, Response, Url, header};
use tokio::time::{Instant, sleep, timeout};

/// What a chat model is asked below the base URL.
const ROUTE: &str = "chat/completions";

pub use embeddings::{EmbeddingClient, EmbeddingSettings, Embeddings};
pub use settings::{AnswerLimitField, CallLimits, OpenAiSettings};
pub(crate) use wire::text_of;

use self::failure::{Asked, Failure};
use crate::{ChatModel, ChatRequest, ChatResponse, ModelError, ModelInfo, OnDelta, Retry, Secret, Waiting};

/// A model behind an OpenAI-compatible service. Cheap to clone; clones share the connections.
#[derive(Debug, Clone)]
pub struct OpenAiChat {
    settings: OpenAiSettings,
    info: ModelInfo,
    base_url: Url,
    base_url_text: String,
    http: reqwest::Client,
    ambient: Ambient,
    on_retry: Option<RetryObserver>,
}

/// Told of each retry before its wait.
#[derive(Clone)]
struct RetryObserver(Arc<dyn Fn(&Retry) + Send + Sync>);

impl fmt::Debug for RetryObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RetryObserver")
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
        if settings.model.trim().is_empty() {
            let reason = "it is empty; name a model that the service has".to_owned();
            return Err(ModelError::Settings { field: "model", reason });
        }
        if settings.window_tokens == 0 || settings.limits.attempts_max == 0 {
            let reason = "window_tokens and attempts_max must be at least 1".to_owned();
            return Err(ModelError::Settings { field: "limits", reason });
        }
        let base_url = settings::parse_base_url(&settings.base_url)?;
        let http = connection::client(&settings, &base_url)?;
        let info = ModelInfo {
            name: settings.model.clone(),
            provider: "openai".to_owned(),
            window_tokens: settings.window_tokens,
        };
        let base_url_text = base_url.as_str().to_owned();
        Ok(Self { settings, info, base_url, base_url_text, http, ambient: ambient.clone(), on_retry: None })
    }

    /// The service's address as it is used.
    #[must_use]
    pub fn base_url(&self) -> &str {
        &self.base_url_text
    }

    /// The same model, which tells `observer` of each retry before it waits, so that somebody who watches knows why
    /// nothing happens. The retries are in the response too.
    #[must_use]
    pub fn on_retry(mut self, observer: impl Fn(&Retry) + Send + Sync + 'static) -> Self {
        self.on_retry = Some(RetryObserver(Arc::new(observer)));
        self
    }

    /// Asks the service once, without retries, for the names of its models, to find out whether it can be reached and
    /// takes the key. `None` when it answers but does not list models, as a few services do.
    ///
    /// # Errors
    /// [`ModelError::Unreachable`], [`ModelError::Unauthorized`] and the like.
    pub async fn list_models(&self) -> Result<Option<Vec<String>>, ModelError> {
        let limits = &self.settings.limits;
        let asked = async {
            let response = self.send(self.http.get(format!("{}/models", self.base_url_text))).await?;
            let status = response.status().as_u16();
            let body = answer::bounded_body(response, limits.idle_ms_max).await;
            match status {
                200..=299 => Ok(wire::model_names(&body)),
                404 | 405 => Ok(None),
                _ => Err(failure::from_status(self.asked(), status, &body, 1)),
            }
        };
        let limit_ms = limits.answer_ms_max.min(limits.call_ms_max);
        let outcome = timeout(Duration::from_millis(limit_ms), Box::pin(asked)).await;
        outcome
            .unwrap_or_else(|_| Err(self.too_slow(Waiting::WholeAnswer, limit_ms)))
            .map_err(|failure: Failure| failure.error)
    }

    fn asked(&self) -> Asked<'_> {
        Asked {
            base_url: &self.base_url_text,
            route: ROUTE,
            model: &self.settings.model,
            key_source: &self.settings.api_key_source,
            key: self.key(),
        }
    }

    fn key(&self) -> Option<&Secret> {
        self.settings.api_key.as_ref().filter(|key| !key.is_empty())
    }

    async fn attempt(
        &self,
        body: &str,
        request: &ChatRequest,
        attempts: u32,
        on_delta: OnDelta<'_>,
    ) -> Result<ChatResponse, Failure> {
        let post = self.http.post(format!("{}/{ROUTE}", self.base_url_text));
        let post = post.header(header::CONTENT_TYPE, "application/json").body(body.to_owned());
        let response = self.send(post).await?;
        let status = response.status().as_u16();
        if !response.status().is_success() {
            let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
            let now = self.ambient.clock.now();
            let wait = backoff::retry_after_ms(header("retry-after-ms"), header("retry-after"), now);
            let said = answer::bounded_body(response, self.settings.limits.idle_ms_max).await;
            return Err(Failure {
                retry_after_ms: wait,
                ..failure::from_status(self.asked(), status, &said, attempts)
            });
        }
        let assembler = answer::read(self.asked(), &self.settings.limits, response, on_delta).await?;
        let fresh_id = || format!("call_{}", self.ambient.ids.body());
        Ok(assembler.into_response(request, &self.settings.model, fresh_id))
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response, Failure> {
        let limits = &self.settings.limits;
        let request = match self.key() {
            Some(key) => request.bearer_auth(key.expose()),
            None => request,
        };
        let sent = timeout(Duration::from_millis(limits.idle_ms_max), request.send()).await;
        sent.map_err(|_| self.too_slow(Waiting::NextBytes, limits.idle_ms_max))?
            .map_err(|error| failure::from_connection(self.asked(), &error, limits.connect_ms_max))
    }

    fn too_slow(&self, waiting: Waiting, limit_ms: u64) -> Failure {
        Failure::again(ModelError::Timeout { base_url: self.base_url_text.clone(), waiting, limit_ms }, None)
    }
}

#[async_trait]
impl ChatModel for OpenAiChat {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    async fn chat(&self, request: &ChatRequest, on_delta: OnDelta<'_>) -> Result<ChatResponse, ModelError> {
        let limits = &self.settings.limits;
        let body = wire::request_body(&self.settings, self.base_url.host_str(), request).to_string();
        let began = Instant::now();
        let elapsed_ms = || u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let mut retries = Vec::new();
        let mut attempts = 0;
        loop {
            attempts += 1;
            let limit_ms = limits.answer_ms_max.min(limits.call_ms_max.saturating_sub(elapsed_ms()));
            let attempt = Box::pin(self.attempt(&body, request, attempts, on_delta));
            let outcome = timeout(Duration::from_millis(limit_ms), attempt).await;
            let failure = match outcome.unwrap_or_else(|_| Err(self.too_slow(Waiting::WholeAnswer, limit_ms))) {
                Ok(response) => return Ok(ChatResponse { retries, ..response }),
                Err(failure) => failure,
            };
            let random = self.ambient.rng.next_u64();
            let wait = backoff::next_wait_ms(limits, attempts, elapsed_ms(), failure.retry_after_ms, random);
            let Some(wait_ms) = wait.filter(|_| failure.again) else {
                return Err(failure.error);
            };
            let retry = Retry { status: failure.status, code: failure.error.code().to_owned(), waited_ms: wait_ms };
            tracing::info!(code = retry.code, status = retry.status, wait_ms, attempts, "no answer, trying again");
            if let Some(observer) = &self.on_retry {
                (observer.0)(&retry);
            }
            retries.push(retry);
            sleep(Duration::from_millis(wait_ms)).await;
        }
    }
}

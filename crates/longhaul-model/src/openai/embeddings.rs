//! The client for every service that has OpenAI's `POST /embeddings`: vectors for texts.
//!
//! It owns how texts are divided into requests and the check of what comes back; retries, errors and bounds are those of
//! chat. Invariant: an answer that is given out has one vector for each text, in the texts' order, all of one length, of
//! finite values.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use base64::{Engine, prelude::BASE64_STANDARD};
use longhaul_core::Ambient;
use reqwest::{Response, Url, header};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use super::settings::OpenAiSettings;
use crate::{
    CallLimits, ModelError, Secret, Waiting, estimate_tokens,
    service::{
        answer, backoff, connection,
        failure::{self, Asked, Failure},
        limits,
    },
};

const ROUTE: &str = "embeddings";
/// A text that the service finds too long is halved until it has this many characters.
const CHARS_MIN: usize = 64;

/// How to reach a service that embeds.
#[derive(Debug, Clone)]
pub struct EmbeddingSettings {
    /// The model's name, as the service knows it.
    pub model: String,
    /// Where the service is, by the rule of [`OpenAiSettings::base_url`].
    pub base_url: String,
    /// The key, sent as `Authorization: Bearer`; `None` or an empty one for services that want none.
    pub api_key: Option<Secret>,
    /// The setting or variable that supplies the key, for error messages.
    pub api_key_source: String,
    /// Length of the vectors: asked for where the service lets one choose, and required of the answer. `None` takes
    /// whatever comes.
    pub dimensions: Option<usize>,
    /// Whether vectors are asked for as base64, a third of the bytes. A service that sends numbers all the same is
    /// understood.
    pub base64: bool,
    /// Most texts of one request.
    pub texts_max: usize,
    /// Most tokens of one request, as estimated.
    pub tokens_max: u64,
    /// Most tokens of one text, as estimated; the rest of it is cut.
    pub text_tokens_max: u64,
    /// Bounds on time, bytes and attempts of one request.
    pub limits: CallLimits,
}

impl EmbeddingSettings {
    /// Everything at its default but the model's name: OpenAI's service and its limits.
    #[must_use]
    pub fn new(model: &str) -> Self {
        let limits = CallLimits {
            idle_ms_max: 60_000,
            answer_ms_max: 120_000,
            answer_bytes_max: 64 * 1024 * 1024,
            call_ms_max: 600_000,
            ..CallLimits::default()
        };
        Self {
            model: model.to_owned(),
            base_url: OpenAiSettings::DEFAULT_BASE_URL.to_owned(),
            api_key: None,
            api_key_source: "OPENAI_API_KEY".to_owned(),
            dimensions: None,
            base64: true,
            texts_max: 128,
            tokens_max: 100_000,
            text_tokens_max: 8_000,
            limits,
        }
    }
}

/// What a service gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Embeddings {
    /// One vector for each text, in order, as the service sent them: not normalised.
    pub vectors: Vec<Vec<f32>>,
    /// Tokens that the service counted, 0 where it does not say.
    pub tokens: u64,
}

/// An embedding model behind an OpenAI-compatible service.
#[derive(Debug)]
pub struct EmbeddingClient {
    settings: EmbeddingSettings,
    base_url: String,
    http: reqwest::Client,
    ambient: Ambient,
    /// Whether the length of the vectors is stated in requests. A service that refuses the field is not sent it again.
    states_dimensions: AtomicBool,
}

impl EmbeddingClient {
    /// Prepares the client; nothing is sent yet.
    ///
    /// # Errors
    /// [`ModelError::Settings`] for a base URL, key, model name or limit that cannot work, [`ModelError::Tls`] when this
    /// machine has no CA certificates and the service needs them.
    pub fn new(settings: EmbeddingSettings, ambient: &Ambient) -> Result<Self, ModelError> {
        let refuse = |field, reason: &str| Err(ModelError::Settings { field, reason: reason.to_owned() });
        if settings.model.trim().is_empty() {
            return refuse("model", "it is empty; name an embedding model that the service has");
        }
        if settings.dimensions == Some(0) {
            return refuse("dimensions", "a vector has at least one value; give the length of the model's vectors");
        }
        if settings.texts_max == 0 || settings.limits.attempts_max == 0 {
            return refuse("limits", "texts_max and attempts_max must be at least 1");
        }
        let url: Url = limits::parse_base_url(&settings.base_url)?;
        let key = (settings.api_key.as_ref(), settings.api_key_source.as_str());
        let http = connection::client(key, &settings.limits, &url)?;
        let states_dimensions = AtomicBool::new(settings.dimensions.is_some());
        Ok(Self { base_url: url.as_str().to_owned(), http, ambient: ambient.clone(), states_dimensions, settings })
    }

    /// The service's address as it is used.
    #[must_use]
    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    /// One vector for each text, in as many requests as the limits ask for. A text over the model's window is cut.
    ///
    /// # Errors
    /// [`ModelError::BadEmbeddings`] for vectors of another number or length; otherwise as for chat. No partial answer.
    pub async fn embed(&self, texts: &[String]) -> Result<Embeddings, ModelError> {
        let texts: Vec<String> = texts.iter().map(|text| self.fitting(text)).collect();
        let mut all = Embeddings { vectors: Vec::with_capacity(texts.len()), tokens: 0 };
        // Requests still to be made, the next one last.
        let mut waiting: Vec<Vec<String>> = self.requests(texts);
        while let Some(mut request) = waiting.pop() {
            match self.call(&request).await {
                Ok(some) => {
                    all.vectors.extend(some.vectors);
                    all.tokens += some.tokens;
                }
                Err(ModelError::TooLarge { .. }) if request.len() > 1 => {
                    let second = request.split_off(request.len() / 2);
                    waiting.push(second);
                    waiting.push(request);
                }
                // Our estimate of its tokens was too low.
                Err(ModelError::TooLarge { .. }) if request[0].chars().count() > CHARS_MIN => {
                    let half = request[0].chars().count() / 2;
                    waiting.push(vec![request[0].chars().take(half).collect()]);
                }
                Err(ModelError::Refused { said, .. }) if self.stops_stating_dimensions(&said) => waiting.push(request),
                Err(error) => return Err(error),
            }
        }
        self.same_length(&all.vectors)?;
        Ok(all)
    }

    /// Whether a refusal is about the stated length, which is then left out from now on.
    fn stops_stating_dimensions(&self, said: &str) -> bool {
        said.to_lowercase().contains("dimension") && self.states_dimensions.swap(false, Ordering::Relaxed)
    }

    /// The text as it is sent: cut to the model's window, and never empty, which services refuse.
    fn fitting(&self, text: &str) -> String {
        if text.trim().is_empty() {
            return " ".to_owned();
        }
        let mut text = text;
        loop {
            let tokens = estimate_tokens(text);
            if tokens <= self.settings.text_tokens_max {
                return text.to_owned();
            }
            // Tokens are not spread evenly, so it is estimated again; each time at least a character goes.
            let keep = (text.len() as u128 * u128::from(self.settings.text_tokens_max) / u128::from(tokens)) as usize;
            text = &text[..text.floor_char_boundary(keep.min(text.len() - 1))];
            if text.is_empty() {
                return " ".to_owned();
            }
        }
    }

    /// The texts divided by number and tokens, the first request last.
    fn requests(&self, texts: Vec<String>) -> Vec<Vec<String>> {
        let mut requests: Vec<Vec<String>> = Vec::new();
        let mut tokens = 0;
        for text in texts {
            let more = estimate_tokens(&text);
            tokens += more;
            match requests.last_mut() {
                Some(last) if last.len() < self.settings.texts_max && tokens <= self.settings.tokens_max => {
                    last.push(text);
                }
                Some(_) | None => {
                    tokens = more;
                    requests.push(vec![text]);
                }
            }
        }
        requests.reverse();
        requests
    }

    /// One request with its retries.
    async fn call(&self, texts: &[String]) -> Result<Embeddings, ModelError> {
        let limits = &self.settings.limits;
        let mut body = json!({"model": self.settings.model, "input": texts});
        body["encoding_format"] = if self.settings.base64 { "base64" } else { "float" }.into();
        if let Some(dimensions) = self.settings.dimensions.filter(|_| self.states_dimensions.load(Ordering::Relaxed)) {
            body["dimensions"] = dimensions.into();
        }
        let body = body.to_string();
        let began = Instant::now();
        let elapsed_ms = || u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let mut attempts = 0;
        loop {
            attempts += 1;
            let limit_ms = limits.answer_ms_max.min(limits.call_ms_max.saturating_sub(elapsed_ms()));
            let attempt = Box::pin(self.attempt(&body, texts.len(), attempts));
            let outcome = timeout(Duration::from_millis(limit_ms), attempt).await;
            let failure = match outcome.unwrap_or_else(|_| Err(self.too_slow(Waiting::WholeAnswer, limit_ms))) {
                Ok(embeddings) => return Ok(embeddings),
                Err(failure) => failure,
            };
            let random = self.ambient.rng.next_u64();
            let wait = backoff::next_wait_ms(limits, attempts, elapsed_ms(), failure.retry_after_ms, random);
            let Some(wait_ms) = wait.filter(|_| failure.again) else {
                return Err(failure.error);
            };
            tracing::info!(code = failure.error.code(), wait_ms, attempts, "no vectors, trying again");
            sleep(Duration::from_millis(wait_ms)).await;
        }
    }

    async fn attempt(&self, body: &str, texts: usize, attempts: u32) -> Result<Embeddings, Failure> {
        let limits = &self.settings.limits;
        let post = self.http.post(format!("{}/{ROUTE}", self.base_url));
        let post = post.header(header::CONTENT_TYPE, "application/json").body(body.to_owned());
        let post = match self.key() {
            Some(key) => post.bearer_auth(key.expose()),
            None => post,
        };
        let sent = timeout(Duration::from_millis(limits.idle_ms_max), post.send()).await;
        let response = sent
            .map_err(|_| self.too_slow(Waiting::NextBytes, limits.idle_ms_max))?
            .map_err(|error| failure::from_connection(self.asked(), &error, limits.connect_ms_max))?;
        let status = response.status();
        if !status.is_success() {
            let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
            let wait =
                backoff::retry_after_ms(header("retry-after-ms"), header("retry-after"), self.ambient.clock.now());
            let said = answer::bounded_body(response, limits.idle_ms_max).await;
            let failure = failure::from_status(self.asked(), status.as_u16(), &said, attempts);
            return Err(Failure { retry_after_ms: wait, ..failure });
        }
        let bytes = self.body(response).await?;
        self.read(&bytes, texts, status.as_u16())
    }

    async fn body(&self, mut response: Response) -> Result<Vec<u8>, Failure> {
        let (limits, status) = (&self.settings.limits, response.status().as_u16());
        let base_url = || self.base_url.clone();
        let mut bytes = Vec::new();
        loop {
            let chunk = timeout(Duration::from_millis(limits.idle_ms_max), response.chunk()).await;
            match chunk.map_err(|_| self.too_slow(Waiting::NextBytes, limits.idle_ms_max))? {
                Err(_) => {
                    let error = ModelError::Cut { base_url: base_url(), bytes: bytes.len() as u64 };
                    return Err(Failure::again(error, Some(status)));
                }
                Ok(None) => return Ok(bytes),
                Ok(Some(chunk)) => bytes.extend_from_slice(&chunk),
            }
            if bytes.len() as u64 > limits.answer_bytes_max {
                let error = ModelError::AnswerTooLong { base_url: base_url(), bytes_max: limits.answer_bytes_max };
                return Err(Failure::last(error, Some(status)));
            }
        }
    }

    fn read(&self, bytes: &[u8], texts: usize, status: u16) -> Result<Embeddings, Failure> {
        let base_url = || self.base_url.clone();
        let answer: Answer = serde_json::from_slice(bytes).map_err(|error| {
            let excerpt: String = String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).into_owned();
            let (problem, excerpt) = (self.asked().quoted(&error.to_string()), self.asked().quoted(&excerpt));
            Failure::again(ModelError::Malformed { base_url: base_url(), problem, excerpt }, Some(status))
        })?;
        if let Some(error) = answer.error.filter(|error| !error.is_null()) {
            let (service, _) = failure::service_error(&json!({ "error": error }).to_string());
            return Err(failure::from_midway(self.asked(), status, service));
        }
        let vectors = in_order(answer.data.unwrap_or_default(), texts).map_err(|problem| {
            Failure::last(ModelError::BadEmbeddings { base_url: base_url(), problem }, Some(status))
        })?;
        let tokens = answer.usage.and_then(|usage| usage.prompt_tokens.or(usage.total_tokens)).unwrap_or(0);
        Ok(Embeddings { vectors, tokens })
    }

    fn same_length(&self, vectors: &[Vec<f32>]) -> Result<(), ModelError> {
        let Some(first) = vectors.first() else { return Ok(()) };
        let wanted = self.settings.dimensions.unwrap_or(first.len());
        let Some(other) = vectors.iter().find(|vector| vector.len() != wanted) else { return Ok(()) };
        let problem = format!("a vector has {} values instead of {wanted}", other.len());
        Err(ModelError::BadEmbeddings { base_url: self.base_url.clone(), problem })
    }

    fn asked(&self) -> Asked<'_> {
        Asked {
            base_url: &self.base_url,
            route: ROUTE,
            model: &self.settings.model,
            key_source: &self.settings.api_key_source,
            key: self.key(),
        }
    }

    fn key(&self) -> Option<&Secret> {
        self.settings.api_key.as_ref().filter(|key| !key.is_empty())
    }

    fn too_slow(&self, waiting: Waiting, limit_ms: u64) -> Failure {
        Failure::again(ModelError::Timeout { base_url: self.base_url.clone(), waiting, limit_ms }, None)
    }
}

/// An answer as the protocol has it (<https://platform.openai.com/docs/api-reference/embeddings>).
#[derive(Deserialize)]
struct Answer {
    data: Option<Vec<Entry>>,
    usage: Option<Usage>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Entry {
    index: Option<usize>,
    embedding: Value,
}

#[derive(Deserialize)]
struct Usage {
    prompt_tokens: Option<u64>,
    total_tokens: Option<u64>,
}

/// The vectors by their stated index; by their order where no index is stated at all.
fn in_order(entries: Vec<Entry>, texts: usize) -> Result<Vec<Vec<f32>>, String> {
    if entries.len() != texts {
        return Err(format!("{} vectors came back for {texts} texts", entries.len()));
    }
    let stated = entries.iter().any(|entry| entry.index.is_some());
    let mut vectors: Vec<Option<Vec<f32>>> = vec![None; texts];
    for (at, entry) in entries.into_iter().enumerate() {
        let index = if stated { entry.index.ok_or("a vector has no index and others have one")? } else { at };
        let slot = vectors.get_mut(index).ok_or_else(|| format!("a vector has the index {index} of {texts} texts"))?;
        if slot.replace(values(&entry.embedding)?).is_some() {
            return Err(format!("two vectors have the index {index}"));
        }
    }
    // As many vectors as places, and no place filled twice: none is empty.
    Ok(vectors.into_iter().flatten().collect())
}

/// A vector written as numbers, or as base64 of little-endian values of four bytes.
fn values(written: &Value) -> Result<Vec<f32>, String> {
    let values: Vec<f32> = match written {
        Value::String(text) => {
            let bytes = BASE64_STANDARD.decode(text).map_err(|error| format!("a vector is no base64: {error}"))?;
            let (values, rest) = bytes.as_chunks();
            if !rest.is_empty() {
                return Err(format!("a vector has {} bytes, which are no values of four", bytes.len()));
            }
            values.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
        }
        Value::Array(numbers) => {
            let number = |number: &Value| number.as_f64().map(|number| number as f32);
            numbers.iter().map(number).collect::<Option<_>>().ok_or("a vector holds what is no number")?
        }
        _ => return Err("a vector is neither a list of numbers nor base64".to_owned()),
    };
    match values.iter().all(|value| value.is_finite()) {
        true if values.is_empty() => Err("a vector is empty".to_owned()),
        true => Ok(values),
        false => Err("a value is not a finite number".to_owned()),
    }
}

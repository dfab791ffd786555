//! What every client of a model service has in common, whatever its protocol: the order of a call (attempt, decide,
//! wait, attempt again), its bounds, and how an answer that was put together becomes ours.
//!
//! It does not own the decisions (`failure`, `backoff`), the shapes (each protocol's `wire`), nor the reading of an
//! answer (`answer`). Invariant: one call makes at most `attempts_max` requests, and nothing of the key leaves in any
//! error.

pub(crate) mod answer;
pub(crate) mod backoff;
pub(crate) mod connection;
pub(crate) mod failure;
pub(crate) mod limits;
pub(crate) mod schema;
pub(crate) mod sse;

use std::{fmt, sync::Arc, time::Duration};

use longhaul_core::{Ambient, ToolCall};
use reqwest::{RequestBuilder, Response, Url, header};
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};

use self::{
    failure::{Asked, Failure},
    limits::CallLimits,
};
use crate::{
    ChatRequest, ChatResponse, Finish, Message, ModelError, ModelInfo, OnDelta, Reasoning, Retry, Secret, Usage,
    Waiting,
};

/// Where a service is and how it is asked.
#[derive(Debug, Clone)]
pub(crate) struct ServiceSettings {
    pub(crate) info: ModelInfo,
    pub(crate) base_url: Url,
    pub(crate) route: &'static str,
    pub(crate) api_key: Option<Secret>,
    pub(crate) api_key_source: String,
    /// The header that carries the key as it is; a bearer token without.
    pub(crate) key_header: Option<&'static str>,
    /// Headers of every request.
    pub(crate) headers: &'static [(&'static str, &'static str)],
    pub(crate) limits: CallLimits,
}

/// One model of one service. Cheap to clone; clones share the connections.
#[derive(Debug, Clone)]
pub(crate) struct Service {
    settings: ServiceSettings,
    base_url: String,
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

/// Why a piece cannot become part of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PieceError {
    /// Not what the protocol says, in words.
    Malformed(String),
    /// The service reports a failure.
    Service(ServiceError),
}

/// A service's error object in our words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ServiceError {
    pub(crate) message: String,
    pub(crate) code: String,
}

impl ServiceError {
    /// From the value of an `error` field: an object with `message` and `code` or `type`, or a plain string.
    pub(crate) fn from_value(error: &Value) -> Self {
        let text = |name: &str| match error.get(name) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(number)) => number.to_string(),
            _ => String::new(),
        };
        let message = error.as_str().map_or_else(|| text("message"), str::to_owned);
        let code = if text("code").is_empty() { text("type") } else { text("code") };
        Self { message: if message.is_empty() { error.to_string() } else { message }, code }
    }
}

/// Puts an answer together from the pieces of a stream, or from a whole one. No I/O.
///
/// Invariant: an answer is given out only when the service said that it is complete.
pub(crate) trait Assemble: Default + Send {
    /// Takes one JSON text of the stream, or the whole answer, and gives the text it adds to the answer.
    fn take(&mut self, json: &str) -> Result<String, PieceError>;

    /// Whether the service said that this is all.
    fn is_done(&self) -> bool;

    /// Whether the answer can be given out although the stream ended without its closing mark.
    fn is_complete(&self) -> bool;

    /// The answer.
    fn into_answer(self) -> Answer;
}

/// An answer as a protocol's assembler has it.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) content: String,
    pub(crate) calls: Vec<ToolCall>,
    pub(crate) reasoning: Vec<Value>,
    pub(crate) usage: Option<Usage>,
    /// `None` where the calls decide it.
    pub(crate) finish: Option<Finish>,
    pub(crate) model: Option<String>,
}

impl Service {
    /// Prepares the client; nothing is sent yet.
    pub(crate) fn new(settings: ServiceSettings, ambient: &Ambient) -> Result<Self, ModelError> {
        if settings.info.name.trim().is_empty() {
            let reason = "it is empty; name a model that the service has".to_owned();
            return Err(ModelError::Settings { field: "model", reason });
        }
        if settings.info.window_tokens == 0 || settings.limits.attempts_max == 0 {
            let reason = "window_tokens and attempts_max must be at least 1".to_owned();
            return Err(ModelError::Settings { field: "limits", reason });
        }
        let key = (settings.api_key.as_ref(), settings.api_key_source.as_str());
        let http = connection::client(key, &settings.limits, &settings.base_url)?;
        let base_url = settings.base_url.as_str().to_owned();
        Ok(Self { settings, base_url, http, ambient: ambient.clone(), on_retry: None })
    }

    pub(crate) fn info(&self) -> &ModelInfo {
        &self.settings.info
    }

    pub(crate) fn base_url(&self) -> &str {
        &self.base_url
    }

    pub(crate) fn host(&self) -> Option<&str> {
        self.settings.base_url.host_str()
    }

    pub(crate) fn on_retry(&mut self, observer: impl Fn(&Retry) + Send + Sync + 'static) {
        self.on_retry = Some(RetryObserver(Arc::new(observer)));
    }

    /// Asks once, without retries, for the names of the service's models. `None` when it answers but lists none.
    pub(crate) async fn list_models(&self) -> Result<Option<Vec<String>>, ModelError> {
        let limits = &self.settings.limits;
        let asked = async {
            let response = self.send(self.http.get(format!("{}/models", self.base_url))).await?;
            let status = response.status().as_u16();
            let body = answer::bounded_body(response, limits.idle_ms_max).await;
            match status {
                200..=299 => Ok(model_names(&body)),
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

    /// Asks, and tries again what is worth it. `body` is the request as the protocol has it.
    pub(crate) async fn chat<A: Assemble>(
        &self,
        request: &ChatRequest,
        body: &str,
        on_delta: OnDelta<'_>,
    ) -> Result<ChatResponse, ModelError> {
        let limits = &self.settings.limits;
        let began = Instant::now();
        let elapsed_ms = || u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let mut retries = Vec::new();
        let mut attempts = 0;
        loop {
            attempts += 1;
            let limit_ms = limits.answer_ms_max.min(limits.call_ms_max.saturating_sub(elapsed_ms()));
            let attempt = Box::pin(self.attempt::<A>(body, request, attempts, on_delta));
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

    async fn attempt<A: Assemble>(
        &self,
        body: &str,
        request: &ChatRequest,
        attempts: u32,
        on_delta: OnDelta<'_>,
    ) -> Result<ChatResponse, Failure> {
        let post = self.http.post(format!("{}/{}", self.base_url, self.settings.route));
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
        let assembler = answer::read::<A>(self.asked(), &self.settings.limits, response, on_delta).await?;
        let response = self.ours(assembler.into_answer(), request);
        match schema::problem(request, &response) {
            None => Ok(response),
            Some(problem) => Err(Failure::again(
                ModelError::Malformed {
                    base_url: self.base_url.clone(),
                    problem: self.asked().quoted(&problem),
                    excerpt: answer::excerpt(self.asked(), &response.content),
                },
                Some(status),
            )),
        }
    }

    fn ours(&self, answer: Answer, request: &ChatRequest) -> ChatResponse {
        let spec = self.settings.info.spec();
        let tool_calls: Vec<ToolCall> = answer.calls.into_iter().map(|call| self.mended(call)).collect();
        let reasoning = answer.reasoning.into_iter().map(|block| Reasoning { spec: spec.clone(), block }).collect();
        let inferred = if tool_calls.is_empty() { Finish::Stop } else { Finish::ToolCalls };
        let content = schema::bare(request, answer.content);
        let said = Message::Assistant { content, tool_calls, reasoning };
        let usage = answer.usage.unwrap_or_else(|| Usage {
            prompt_tokens: request.estimated_tokens(),
            answer_tokens: said.estimated_tokens(),
            estimated: true,
            ..Usage::default()
        });
        let (content, tool_calls, reasoning) = match said {
            Message::Assistant { content, tool_calls, reasoning } => (content, tool_calls, reasoning),
            Message::User { .. } | Message::Tool { .. } => unreachable!("it was made as an answer above"),
        };
        ChatResponse {
            content,
            tool_calls,
            usage,
            finish: answer.finish.unwrap_or(inferred),
            model: answer.model.unwrap_or_else(|| self.settings.info.name.clone()),
            retries: Vec::new(),
            reasoning,
            answered_by: spec,
            passed_over: Vec::new(),
        }
    }

    /// A call with an id and with arguments, which some services leave out.
    fn mended(&self, mut call: ToolCall) -> ToolCall {
        if call.id.is_empty() {
            call.id = format!("call_{}", self.ambient.ids.body());
        }
        if call.arguments.trim().is_empty() {
            "{}".clone_into(&mut call.arguments);
        }
        call
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response, Failure> {
        let limits = &self.settings.limits;
        let request = match (self.key(), self.settings.key_header) {
            (Some(key), None) => request.bearer_auth(key.expose()),
            (Some(key), Some(header)) => request.header(header, key.expose()),
            (None, _) => request,
        };
        let request =
            self.settings.headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let sent = timeout(Duration::from_millis(limits.idle_ms_max), request.send()).await;
        sent.map_err(|_| self.too_slow(Waiting::NextBytes, limits.idle_ms_max))?
            .map_err(|error| failure::from_connection(self.asked(), &error, limits.connect_ms_max))
    }

    fn asked(&self) -> Asked<'_> {
        Asked {
            base_url: &self.base_url,
            route: self.settings.route,
            model: &self.settings.info.name,
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

/// The ids in a listing of models, if it is one.
fn model_names(body: &str) -> Option<Vec<String>> {
    let listing: Value = serde_json::from_str(body).ok()?;
    let models = listing.get("data")?.as_array()?;
    Some(models.iter().filter_map(|model| Some(model.get("id")?.as_str()?.to_owned())).collect())
}

/// Arguments as they go back to a service. Text that is not a JSON object would make some services refuse the whole
/// conversation for ever (they parse it), so it travels inside one; the model still sees what it wrote.
pub(crate) fn echoed_arguments(arguments: &str) -> serde_json::Map<String, Value> {
    serde_json::from_str(arguments).unwrap_or_else(|_| {
        serde_json::Map::from_iter([("not_a_json_object".to_owned(), Value::String(arguments.to_owned()))])
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_service_error_is_read_in_each_of_its_shapes() {
        let read = |value: Value| {
            let error = ServiceError::from_value(&value);
            (error.message, error.code)
        };
        assert_eq!(read(json!({"message": "no", "code": "c", "type": "t"})), ("no".into(), "c".into()));
        assert_eq!(read(json!({"message": "no", "code": null, "type": "t"})), ("no".into(), "t".into()));
        assert_eq!(read(json!({"message": "no", "code": 502})), ("no".into(), "502".into()));
        assert_eq!(read(json!("plain")), ("plain".into(), String::new()));
    }
}

//! Serves a cassette on loopback as a service of chat models.
//!
//! It owns the HTTP side: who may ask, sizes, status codes, faults, the pace of a stream. Which entry answers is
//! `select`'s to decide. Invariant: it listens on 127.0.0.1 only, and everything it does with a request is in its log
//! before the answer begins.

use std::{
    collections::HashMap,
    io,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes, to_bytes},
    extract::{Path, Request, State},
    http::{HeaderMap, StatusCode, Uri, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use futures::stream;
use longhaul_core::Ambient;
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinHandle, time::sleep};
use tokio_util::sync::CancellationToken;

use super::{
    cache::PromptCache,
    conversation::Conversation,
    file::{Cassette, Entry, Fault},
    log::{Served, ServedLog, ServedOutcome},
    protocol::{Protocol, SHOULD_RETRY},
    reply,
    select::Miss,
};
use crate::Secret;

/// Largest request.
pub(crate) const REQUEST_BYTES_MAX: usize = 32 * 1024 * 1024;

/// How to serve a cassette.
#[derive(Debug, Clone, Default)]
pub struct CassetteServerSettings {
    /// The port on 127.0.0.1; 0 takes a free one.
    pub port: u16,
    /// A file to which a JSON line is appended for each request ([`Served`]).
    pub log: Option<PathBuf>,
    /// The key that requests must carry; `None` lets every process of this machine ask.
    pub api_key: Option<Secret>,
}

/// Why a cassette is not being served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CassetteServerError {
    /// The port cannot be had.
    #[error("cannot listen on 127.0.0.1:{port} for the cassette; choose another port, or 0 for any free one")]
    Listen {
        /// The port asked for.
        port: u16,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The log cannot be written.
    #[error("cannot open the cassette log {}; check that its folder exists and is writable", path.display())]
    Log {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// A cassette being served. Dropping it stops the service.
#[derive(Debug)]
pub struct CassetteServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    service: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    cassette: Cassette,
    api_key: Option<Secret>,
    ambient: Ambient,
    log: ServedLog,
    /// How often each entry's fault has struck: the one thing remembered between requests that changes a reply.
    struck: Mutex<HashMap<String, u32>>,
    /// What a real service would have in its prompt cache: token counts come from here, and nothing else.
    cache: Mutex<PromptCache>,
    /// Ends streams under way when the server stops.
    stopping: CancellationToken,
}

impl CassetteServer {
    /// Starts serving, in a task of the current runtime.
    ///
    /// # Errors
    /// [`CassetteServerError`] when the port or the log cannot be had.
    pub async fn start(
        cassette: Cassette,
        settings: CassetteServerSettings,
        ambient: &Ambient,
    ) -> Result<Self, CassetteServerError> {
        let CassetteServerSettings { port, log, api_key } = settings;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await;
        let address = listener
            .as_ref()
            .map_or_else(|_| Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port))), TcpListener::local_addr);
        let failed = |source| CassetteServerError::Listen { port, source };
        let (listener, address) = (listener.map_err(failed)?, address.map_err(failed)?);
        let opened = ServedLog::open(log.as_deref());
        let log = opened.map_err(|source| CassetteServerError::Log { path: log.unwrap_or_default(), source })?;
        let shared = Arc::new(Shared {
            cassette,
            api_key,
            ambient: ambient.clone(),
            log,
            struck: Mutex::default(),
            cache: Mutex::default(),
            stopping: CancellationToken::new(),
        });
        let router = Router::new()
            .route("/v1/chat/completions", post(chat_completions))
            .route("/v1/responses", post(responses))
            .route("/v1/messages", post(messages))
            .route("/v1/messages/count_tokens", post(count_tokens))
            .route("/v1/models", get(models))
            .route("/v1/models/{model}", get(model))
            .fallback(unknown_route)
            .with_state(shared.clone());
        let stopped = shared.stopping.clone().cancelled_owned();
        let service = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, router).with_graceful_shutdown(stopped).await {
                tracing::error!(%error, "the cassette server stopped");
            }
        });
        Ok(Self { address, shared, service })
    }

    /// The base URL for our clients and for OpenAI's: `http://127.0.0.1:PORT/v1`.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("{}/v1", self.origin())
    }

    /// The base URL for Anthropic's clients (`ANTHROPIC_BASE_URL`), which add `/v1` themselves: `http://127.0.0.1:PORT`.
    #[must_use]
    pub fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What was served, oldest first; at most the last 10,000 requests.
    #[must_use]
    pub fn served(&self) -> Vec<Served> {
        self.shared.log.kept()
    }

    /// Stops, cutting streams under way, and waits until the port is free.
    pub async fn stop(mut self) {
        self.shared.stopping.cancel();
        if let Err(error) = (&mut self.service).await {
            tracing::error!(%error, "the cassette server's task failed");
        }
    }
}

impl Drop for CassetteServer {
    fn drop(&mut self) {
        self.shared.stopping.cancel();
    }
}

async fn models(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    let protocol = Protocol::guessed("", &headers);
    if let Some(refusal) = shared.refused(protocol, &headers) {
        return refusal;
    }
    let name = shared.cassette.model.as_str();
    let data = json!([described(protocol, name)]);
    axum::Json(match protocol {
        Protocol::Messages => json!({"data": data, "has_more": false, "first_id": name, "last_id": name}),
        Protocol::Chat | Protocol::Responses => json!({"object": "list", "data": data}),
    })
    .into_response()
}

async fn model(State(shared): State<Arc<Shared>>, headers: HeaderMap, Path(name): Path<String>) -> Response {
    let protocol = Protocol::guessed("", &headers);
    let refusal = shared.refused(protocol, &headers).or_else(|| shared.unknown(protocol, &name));
    refusal.unwrap_or_else(|| axum::Json(described(protocol, &name)).into_response())
}

fn described(protocol: Protocol, model: &str) -> Value {
    match protocol {
        Protocol::Messages => json!({
            "type": "model", "id": model, "display_name": model, "created_at": "1970-01-01T00:00:00Z",
            "lifecycle": "active",
        }),
        Protocol::Chat | Protocol::Responses => {
            json!({"id": model, "object": "model", "created": 0, "owned_by": "cassette"})
        }
    }
}

async fn unknown_route(uri: Uri, headers: HeaderMap) -> Response {
    let protocol = Protocol::guessed(uri.path(), &headers);
    let message = "a cassette serves /v1/chat/completions, /v1/messages, /v1/messages/count_tokens, /v1/responses and \
        /v1/models only";
    protocol.error(StatusCode::NOT_FOUND, "unknown_url", message)
}

async fn chat_completions(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    Box::pin(shared.ask(Protocol::Chat, request)).await
}

async fn responses(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    Box::pin(shared.ask(Protocol::Responses, request)).await
}

async fn messages(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    Box::pin(shared.ask(Protocol::Messages, request)).await
}

async fn count_tokens(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let protocol = Protocol::Messages;
    if let Some(refusal) = shared.refused(protocol, request.headers()) {
        return refusal;
    }
    let body = match body(protocol, request).await {
        Ok(body) => body,
        Err(refusal) => return refusal,
    };
    match Conversation::read_to_count(&body) {
        Ok(asked) => {
            let unknown = shared.unknown(protocol, &asked.model);
            unknown.unwrap_or_else(|| axum::Json(reply::messages::count(&asked)).into_response())
        }
        Err(reason) => protocol.error(StatusCode::BAD_REQUEST, "invalid_request", &reason),
    }
}

/// The request's body within its bound; one that states a larger size is not read at all.
async fn body(protocol: Protocol, request: Request) -> Result<Bytes, Response> {
    let stated = request.headers().get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    let read = if stated.is_some_and(|bytes: usize| bytes > REQUEST_BYTES_MAX) {
        None
    } else {
        to_bytes(request.into_body(), REQUEST_BYTES_MAX).await.ok()
    };
    read.ok_or_else(|| {
        let message = format!("the request cannot be read, or is larger than {REQUEST_BYTES_MAX} bytes");
        protocol.error(StatusCode::PAYLOAD_TOO_LARGE, "request_too_large", &message)
    })
}

impl Shared {
    async fn ask(&self, protocol: Protocol, request: Request) -> Response {
        if let Some(refusal) = self.refused(protocol, request.headers()) {
            return refusal;
        }
        let body = match body(protocol, request).await {
            Ok(body) => body,
            Err(refusal) => return refusal,
        };
        let mut asked = match protocol.read(&body) {
            Ok(asked) => asked,
            Err(reason) => return protocol.error(StatusCode::BAD_REQUEST, "invalid_request", &reason),
        };
        if let Some(refusal) = self.unknown(protocol, &asked.model) {
            return refusal;
        }
        if let Some(reason) = self.cassette.reasoning_lost(protocol, &asked) {
            return protocol.error(StatusCode::BAD_REQUEST, "invalid_request", &reason);
        }
        let selected = self.cassette.select(&asked);
        let fault = selected.as_ref().ok().and_then(|entry| self.strike(entry));
        let outcome = match (&selected, fault) {
            (Err(_), _) => ServedOutcome::Refused,
            (Ok(_), Some(fault)) if fault.status.is_some() || fault.cut => ServedOutcome::Fault,
            (Ok(_), _) => ServedOutcome::Replied,
        };
        if let Err(cause) = self.record(selected.as_ref().ok().copied(), &asked, outcome) {
            let message = format!("the cassette's log cannot be written: {cause}");
            return protocol.error(StatusCode::INTERNAL_SERVER_ERROR, "cassette_log", &message);
        }
        match selected {
            Ok(entry) => {
                self.count_cached(protocol, &mut asked);
                self.answer(protocol, entry, &asked, fault).await
            }
            Err(Miss::NoEntry(message)) => protocol.error(StatusCode::NOT_FOUND, "cassette_no_entry", &message),
            Err(Miss::Ambiguous(message)) => protocol.error(StatusCode::CONFLICT, "cassette_ambiguous", &message),
            Err(Miss::TooLong(message)) => protocol.error(StatusCode::BAD_REQUEST, "context_length_exceeded", &message),
            Err(Miss::Requirement(message)) => {
                protocol.error(StatusCode::UNPROCESSABLE_ENTITY, "cassette_requirement_unmet", &message)
            }
        }
    }

    fn count_cached(&self, protocol: Protocol, asked: &mut Conversation) {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        match protocol {
            Protocol::Messages => (asked.cached_tokens, asked.written_tokens) = cache.use_marked(&asked.prefix),
            Protocol::Chat | Protocol::Responses => asked.cached_tokens = cache.use_automatic(&asked.prefix),
        }
    }

    fn refused(&self, protocol: Protocol, headers: &HeaderMap) -> Option<Response> {
        if self.api_key.as_ref().is_some_and(|key| !protocol.shows(key, headers)) {
            let message = "incorrect API key provided; a cassette server makes its own key and gives it to its client";
            return Some(protocol.error(StatusCode::UNAUTHORIZED, "invalid_api_key", message));
        }
        if protocol == Protocol::Messages && !headers.contains_key("anthropic-version") {
            let message = "anthropic-version: header is required";
            return Some(protocol.error(StatusCode::BAD_REQUEST, "invalid_request", message));
        }
        None
    }

    fn unknown(&self, protocol: Protocol, model: &str) -> Option<Response> {
        if self.cassette.plays(model) {
            return None;
        }
        let message = format!("the model {model:?} does not exist; this cassette is {:?}", self.cassette.model);
        Some(protocol.error(StatusCode::NOT_FOUND, "model_not_found", &message))
    }

    /// The entry's fault, if it has one that has not yet struck as often as it should; counts it.
    fn strike<'a>(&self, entry: &'a Entry) -> Option<&'a Fault> {
        let fault = entry.fault.as_ref()?;
        let mut struck = self.struck.lock().unwrap_or_else(PoisonError::into_inner);
        let times = struck.entry(entry.id.clone()).or_default();
        if *times >= fault.times() {
            return None;
        }
        *times += 1;
        Some(fault)
    }

    fn record(&self, entry: Option<&Entry>, asked: &Conversation, outcome: ServedOutcome) -> io::Result<()> {
        self.log.add(Served {
            at: self.ambient.clock.now(),
            entry: entry.map(|entry| entry.id.clone()),
            turn: asked.turn as u64,
            request: asked.digest.clone(),
            outcome,
        })
    }

    async fn answer(&self, protocol: Protocol, entry: &Entry, asked: &Conversation, fault: Option<&Fault>) -> Response {
        let created_s = self.ambient.clock.now().0 / 1_000;
        if let Some(fault) = fault {
            let delay = Duration::from_millis(fault.delay_ms);
            if !delay.is_zero() && self.stopping.run_until_cancelled(sleep(delay)).await.is_none() {
                let message = "the cassette server is stopping";
                return protocol.error(StatusCode::SERVICE_UNAVAILABLE, "stopping", message);
            }
            if let Some(refusal) = fault_status(protocol, fault, entry) {
                return refusal;
            }
        }
        let cut = fault.is_some_and(|fault| fault.cut);
        let pause = Duration::from_millis(fault.map_or(0, |fault| fault.chunk_delay_ms));
        let (content_type, mut chunks) = if asked.stream {
            let events = protocol.stream(entry, asked, created_s);
            ("text/event-stream; charset=utf-8", events.into_iter().map(Bytes::from).collect::<Vec<_>>())
        } else {
            let text = Bytes::from(protocol.whole(entry, asked, created_s).to_string());
            let middle = text.len() / 2;
            ("application/json", vec![text.slice(..middle), text.slice(middle..)])
        };
        if cut {
            chunks.truncate(chunks.len() / 2);
        }
        let body = paced(chunks, cut, pause, self.stopping.clone());
        ([(header::CONTENT_TYPE, content_type), (header::CACHE_CONTROL, "no-cache")], body).into_response()
    }
}

/// The chunks one after the other with a pause before each; ended by breaking the connection if it is to be cut, or if
/// the server stops.
fn paced(chunks: Vec<Bytes>, cut: bool, pause: Duration, stopping: CancellationToken) -> Body {
    let broken = || io::Error::from(io::ErrorKind::ConnectionAborted);
    let chunks = stream::unfold((chunks.into_iter(), false), move |(mut chunks, over)| {
        let stopping = stopping.clone();
        async move {
            if over {
                return None;
            }
            if !pause.is_zero() && stopping.run_until_cancelled(sleep(pause)).await.is_none() {
                return Some((Err(broken()), (chunks, true)));
            }
            match chunks.next() {
                Some(chunk) => Some((Ok(chunk), (chunks, false))),
                None if cut => {
                    // Without a pending moment the HTTP library drops what it has not flushed, the status included.
                    tokio::task::yield_now().await;
                    Some((Err(broken()), (chunks, true)))
                }
                None => None,
            }
        }
    });
    Body::from_stream(chunks)
}

fn fault_status(protocol: Protocol, fault: &Fault, entry: &Entry) -> Option<Response> {
    let status = StatusCode::from_u16(fault.status?).ok()?;
    let message = format!("cassette entry {:?} has this fault", entry.id);
    let mut response = protocol.error(status, "cassette_fault", &message);
    response.headers_mut().remove(SHOULD_RETRY);
    if let Some(seconds) = fault.retry_after {
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    Some(response)
}

//! Serves a cassette on loopback as an OpenAI-compatible service.
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
    extract::{Request, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use futures::stream;
use longhaul_core::Ambient;
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinHandle, time::sleep};
use tokio_util::sync::CancellationToken;

use super::{
    conversation::Conversation,
    file::{Cassette, Entry, Fault},
    log::{Served, ServedLog, ServedOutcome},
    reply,
    select::Miss,
};
use crate::Secret;

/// Largest request.
const REQUEST_BYTES_MAX: usize = 32 * 1024 * 1024;

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
    /// How often each entry's fault has struck: the one thing that this server remembers between requests.
    struck: Mutex<HashMap<String, u32>>,
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
            stopping: CancellationToken::new(),
        });
        let router = Router::new()
            .route("/v1/chat/completions", post(chat_completions))
            .route("/v1/models", get(models))
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

    /// The base URL for a client: `http://127.0.0.1:PORT/v1`.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
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
    if let Some(refusal) = shared.refused(&headers) {
        return refusal;
    }
    let model = json!({"id": shared.cassette.model, "object": "model", "created": 0, "owned_by": "cassette"});
    axum::Json(json!({"object": "list", "data": [model]})).into_response()
}

async fn unknown_route() -> Response {
    error(StatusCode::NOT_FOUND, "unknown_url", "a cassette serves /v1/chat/completions and /v1/models only")
}

async fn chat_completions(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    if let Some(refusal) = shared.refused(request.headers()) {
        return refusal;
    }
    let body = match body(request).await {
        Ok(body) => body,
        Err(refusal) => return refusal,
    };
    let asked = match Conversation::read(&body) {
        Ok(asked) => asked,
        Err(reason) => return error(StatusCode::BAD_REQUEST, "invalid_request", &reason),
    };
    if asked.model != shared.cassette.model {
        let message =
            format!("the model {:?} does not exist; this cassette is {:?}", asked.model, shared.cassette.model);
        return error(StatusCode::NOT_FOUND, "model_not_found", &message);
    }
    let selected = shared.cassette.select(&asked);
    let fault = selected.as_ref().ok().and_then(|entry| shared.strike(entry));
    let outcome = match (&selected, fault) {
        (Err(_), _) => ServedOutcome::Refused,
        (Ok(_), Some(fault)) if fault.status.is_some() || fault.cut => ServedOutcome::Fault,
        (Ok(_), _) => ServedOutcome::Replied,
    };
    if let Err(cause) = shared.record(selected.as_ref().ok().copied(), &asked, outcome) {
        let message = format!("the cassette's log cannot be written: {cause}");
        return error(StatusCode::INTERNAL_SERVER_ERROR, "cassette_log", &message);
    }
    match selected {
        Ok(entry) => shared.answer(entry, &asked, fault).await,
        Err(Miss::NoEntry(message)) => error(StatusCode::NOT_FOUND, "cassette_no_entry", &message),
        Err(Miss::Ambiguous(message)) => error(StatusCode::CONFLICT, "cassette_ambiguous", &message),
        Err(Miss::TooLong(message)) => error(StatusCode::BAD_REQUEST, "context_length_exceeded", &message),
        Err(Miss::Requirement(message)) => {
            error(StatusCode::UNPROCESSABLE_ENTITY, "cassette_requirement_unmet", &message)
        }
    }
}

/// The request's body within its bound; one that states a larger size is not read at all.
async fn body(request: Request) -> Result<Bytes, Response> {
    let stated = request.headers().get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    let read = if stated.is_some_and(|bytes: usize| bytes > REQUEST_BYTES_MAX) {
        None
    } else {
        to_bytes(request.into_body(), REQUEST_BYTES_MAX).await.ok()
    };
    read.ok_or_else(|| {
        let message = format!("the request cannot be read, or is larger than {REQUEST_BYTES_MAX} bytes");
        error(StatusCode::PAYLOAD_TOO_LARGE, "request_too_large", &message)
    })
}

impl Shared {
    fn refused(&self, headers: &HeaderMap) -> Option<Response> {
        let key = self.api_key.as_ref()?;
        let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let given = given.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
        if key.matches(given) {
            return None;
        }
        let message = "incorrect API key provided; a cassette server makes its own key and gives it to its client";
        Some(error(StatusCode::UNAUTHORIZED, "invalid_api_key", message))
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

    async fn answer(&self, entry: &Entry, asked: &Conversation, fault: Option<&Fault>) -> Response {
        let created_s = self.ambient.clock.now().0 / 1_000;
        if let Some(fault) = fault {
            let delay = Duration::from_millis(fault.delay_ms);
            if !delay.is_zero() && self.stopping.run_until_cancelled(sleep(delay)).await.is_none() {
                return error(StatusCode::SERVICE_UNAVAILABLE, "stopping", "the cassette server is stopping");
            }
            if let Some(refusal) = fault_status(fault, entry) {
                return refusal;
            }
        }
        let cut = fault.is_some_and(|fault| fault.cut);
        let pause = Duration::from_millis(fault.map_or(0, |fault| fault.chunk_delay_ms));
        let (content_type, mut chunks) = if asked.stream {
            let events = reply::stream(entry, asked, created_s);
            let chunks = events.into_iter().map(|data| Bytes::from(format!("data: {data}\n\n"))).collect::<Vec<_>>();
            ("text/event-stream; charset=utf-8", chunks)
        } else {
            let text = Bytes::from(reply::completion(entry, asked, created_s).to_string());
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

fn fault_status(fault: &Fault, entry: &Entry) -> Option<Response> {
    let status = StatusCode::from_u16(fault.status?).ok()?;
    let mut response = error(status, "cassette_fault", &format!("cassette entry {:?} has this fault", entry.id));
    if let Some(seconds) = fault.retry_after {
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    Some(response)
}

/// An error in the shape that the real service gives it.
fn error(status: StatusCode, code: &str, message: &str) -> Response {
    let kind = if status.is_server_error() { "server_error" } else { "invalid_request_error" };
    let body: Value = json!({"error": {"message": message, "type": kind, "param": null, "code": code}});
    (status, axum::Json(body)).into_response()
}

//! Records what a real service answers as a cassette: a proxy on loopback between any client and the service.
//!
//! It owns the forwarding and what is heard of it; what becomes of it in the file is `tape`'s. Invariants: the service's
//! key is in no file and no log, and whoever asks must show the key made for this run, since the proxy spends the real
//! one; the file is whole after every answer.

mod tape;

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Request, State},
    http::{HeaderMap, Method, StatusCode, header},
    response::{IntoResponse, Response},
};
use futures::stream;
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use self::tape::Tape;
use super::{
    conversation::Conversation,
    protocol::Protocol,
    server::{CassetteServerError, REQUEST_BYTES_MAX},
};
use crate::{
    CallLimits, ModelError, Secret,
    anthropic::assemble as messages,
    openai::{assemble as chat, responses::assemble as responses},
    service::{Answer, Assemble, connection, limits, sse::SseDecoder},
};

/// Headers of a request that are passed on; everything else is between two neighbours.
const PASSED_ON: &[&str] = &["content-type", "accept", "anthropic-version", "anthropic-beta", "openai-beta"];
/// Headers of an answer that are passed back.
const PASSED_BACK: &[&str] =
    &["content-type", "retry-after", "retry-after-ms", "request-id", "x-request-id", "x-should-retry"];

/// How to record.
#[derive(Debug, Clone)]
pub struct RecorderSettings {
    /// The port on 127.0.0.1; 0 takes a free one.
    pub port: u16,
    /// The service: `https://api.openai.com/v1`, `https://api.anthropic.com`.
    pub service: String,
    /// Its key, which never leaves this process but to the service.
    pub service_key: Option<Secret>,
    /// What requests must show instead of it; `None` lets every process of this machine ask.
    pub own_key: Option<Secret>,
    /// The cassette to be written; what is there already is replaced by the first answer.
    pub file: PathBuf,
    /// The story's title.
    pub title: String,
}

/// Why nothing is recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecorderError {
    /// The port cannot be had.
    #[error(transparent)]
    Server(#[from] CassetteServerError),
    /// The service's address or key cannot work.
    #[error(transparent)]
    Service(#[from] ModelError),
    /// The file cannot be written.
    #[error("cannot write the cassette {}; check that its folder exists and is writable", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// A recorder at work. Dropping it ends it.
#[derive(Debug)]
pub struct CassetteRecorder {
    address: SocketAddr,
    shared: Arc<Shared>,
    stopping: CancellationToken,
    service: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    settings: RecorderSettings,
    base_url: String,
    http: reqwest::Client,
    tape: Mutex<Tape>,
}

impl CassetteRecorder {
    /// Starts recording, in a task of the current runtime.
    ///
    /// # Errors
    /// [`RecorderError`] when the port, the service's address or the file cannot be had.
    pub async fn start(settings: RecorderSettings) -> Result<Self, RecorderError> {
        let url = limits::parse_base_url(&settings.service)?;
        let key = (settings.service_key.as_ref(), "the service's key");
        let http = connection::client(key, &CallLimits::default(), &url)?;
        let port = settings.port;
        let failed = |source| CassetteServerError::Listen { port, source };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let tape = Mutex::new(Tape::new(&settings.title));
        let shared = Arc::new(Shared { base_url: url.as_str().to_owned(), http, tape, settings });
        let router = Router::new().fallback(forward).with_state(shared.clone());
        let stopping = CancellationToken::new();
        let stopped = stopping.clone().cancelled_owned();
        let service = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, router).with_graceful_shutdown(stopped).await {
                tracing::error!(%error, "the recorder stopped");
            }
        });
        Ok(Self { address, shared, stopping, service })
    }

    /// The base URL for our clients and for OpenAI's: `http://127.0.0.1:PORT/v1`.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("{}/v1", self.origin())
    }

    /// The base URL for Anthropic's clients: `http://127.0.0.1:PORT`.
    #[must_use]
    pub fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    /// How many answers the file has.
    #[must_use]
    pub fn recorded(&self) -> usize {
        self.shared.tape.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Ends, and waits until the port is free. Answers under way are finished.
    pub async fn stop(mut self) {
        self.stopping.cancel();
        if let Err(error) = (&mut self.service).await {
            tracing::error!(%error, "the recorder's task failed");
        }
    }
}

impl Drop for CassetteRecorder {
    fn drop(&mut self) {
        self.stopping.cancel();
    }
}

/// The protocol of a request whose answer becomes an entry.
fn recorded_as(method: &Method, path: &str) -> Option<Protocol> {
    match path.trim_end_matches('/') {
        _ if method != Method::POST => None,
        "/v1/chat/completions" => Some(Protocol::Chat),
        "/v1/responses" => Some(Protocol::Responses),
        "/v1/messages" => Some(Protocol::Messages),
        _ => None,
    }
}

async fn forward(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let protocol = Protocol::guessed(parts.uri.path(), &parts.headers);
    if shared.settings.own_key.as_ref().is_some_and(|key| !protocol.shows(key, &parts.headers)) {
        let message = "this recorder answers to the key that it printed when it started";
        return protocol.error(StatusCode::UNAUTHORIZED, "invalid_api_key", message);
    }
    let Ok(body) = axum::body::to_bytes(body, REQUEST_BYTES_MAX).await else {
        let message = format!("the request cannot be read, or is larger than {REQUEST_BYTES_MAX} bytes");
        return protocol.error(StatusCode::PAYLOAD_TOO_LARGE, "request_too_large", &message);
    };
    let asked = recorded_as(&parts.method, parts.uri.path()).map(|protocol| (protocol, protocol.read(&body)));
    let path = parts.uri.path_and_query().map_or(parts.uri.path(), |path| path.as_str());
    let url = format!("{}{}", shared.base_url, path.strip_prefix("/v1").unwrap_or(path));
    let mut sent = shared.http.request(parts.method, url).body(body);
    for name in PASSED_ON {
        if let Some(value) = parts.headers.get(*name) {
            sent = sent.header(*name, value);
        }
    }
    match shared.with_key(protocol, sent, &parts.headers).send().await {
        Ok(response) => shared.pass_back(response, asked),
        Err(error) => {
            let message = format!("the service cannot be reached: {}", error.without_url());
            protocol.error(StatusCode::BAD_GATEWAY, "unreachable", &message)
        }
    }
}

impl Shared {
    /// The request with the service's key; with the client's own where none was given to the recorder.
    fn with_key(
        &self,
        protocol: Protocol,
        request: reqwest::RequestBuilder,
        headers: &HeaderMap,
    ) -> reqwest::RequestBuilder {
        match (&self.settings.service_key, protocol) {
            (Some(key), Protocol::Messages) => request.header("x-api-key", key.expose()),
            (Some(key), Protocol::Chat | Protocol::Responses) => request.bearer_auth(key.expose()),
            (None, _) => ["x-api-key", "authorization"].iter().fold(request, |request, name| {
                match headers.get(*name).filter(|_| self.settings.own_key.is_none()) {
                    Some(value) => request.header(*name, value),
                    None => request,
                }
            }),
        }
    }

    /// The answer as it comes, and an entry when it is over and was one.
    fn pass_back(
        self: Arc<Self>,
        response: reqwest::Response,
        asked: Option<(Protocol, Result<Conversation, String>)>,
    ) -> Response {
        let status = response.status();
        let mut headers = HeaderMap::new();
        for (name, value) in response.headers() {
            if PASSED_BACK.contains(&name.as_str()) {
                headers.insert(name.clone(), value.clone());
            }
        }
        let is_stream =
            headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/event"));
        let heard = asked.filter(|_| status.is_success()).and_then(|(protocol, asked)| Some((protocol, asked.ok()?)));
        let heard =
            heard.map(|(protocol, asked)| Heard { shared: self, protocol, asked, is_stream, bytes: Vec::new() });
        let body = stream::unfold((response, heard), |(mut response, mut heard)| async move {
            match response.chunk().await {
                Ok(Some(bytes)) => {
                    if let Some(heard) = &mut heard {
                        heard.take(&bytes);
                    }
                    Some((Ok::<Bytes, io::Error>(bytes), (response, heard)))
                }
                Ok(None) => {
                    heard.map(Heard::end);
                    None
                }
                Err(_) => Some((Err(io::Error::from(io::ErrorKind::ConnectionAborted)), (response, None))),
            }
        });
        (status, headers, Body::from_stream(body)).into_response()
    }
}

/// An answer that is being passed on.
struct Heard {
    shared: Arc<Shared>,
    protocol: Protocol,
    asked: Conversation,
    is_stream: bool,
    bytes: Vec<u8>,
}

impl Heard {
    fn take(&mut self, bytes: &[u8]) {
        let most = usize::try_from(CallLimits::default().answer_bytes_max).unwrap_or(usize::MAX);
        if self.bytes.len() + bytes.len() <= most {
            self.bytes.extend_from_slice(bytes);
        }
    }

    fn end(self) {
        let answer = match self.protocol {
            Protocol::Chat => put_together::<chat::Assembler>(&self.bytes, self.is_stream),
            Protocol::Responses => put_together::<responses::Assembler>(&self.bytes, self.is_stream),
            Protocol::Messages => put_together::<messages::Assembler>(&self.bytes, self.is_stream),
        };
        let Some(answer) = answer else {
            tracing::warn!("an answer was not understood and is not recorded");
            return;
        };
        let mut tape = self.shared.tape.lock().unwrap_or_else(PoisonError::into_inner);
        tape.add(&self.asked, answer);
        if let Err(error) = write(&self.shared.settings.file, &tape.text()) {
            tracing::error!(%error, "the cassette was not written");
        }
    }
}

fn put_together<A: Assemble>(bytes: &[u8], is_stream: bool) -> Option<Answer> {
    let mut assembler = A::default();
    if is_stream {
        let mut decoder = SseDecoder::default();
        let mut events = decoder.push(bytes);
        events.extend(decoder.finish());
        for event in events.iter().filter(|event| !event.trim().is_empty()) {
            assembler.take(event).ok()?;
        }
    } else {
        assembler.take(&String::from_utf8_lossy(bytes)).ok()?;
    }
    assembler.is_complete().then(|| assembler.into_answer())
}

/// Beside its place and then moved there, so that the file is whole at any moment.
fn write(file: &Path, text: &str) -> Result<(), RecorderError> {
    let failed = |source| RecorderError::File { path: file.to_owned(), source };
    let beside = file.with_extension("part");
    std::fs::write(&beside, text).map_err(failed)?;
    std::fs::rename(&beside, file).map_err(failed)
}

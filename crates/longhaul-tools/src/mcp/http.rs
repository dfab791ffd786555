//! Serving clients over streamable HTTP, on loopback only.
//!
//! Invariant (12): nothing is answered without the token, nothing listens where another machine could reach it, and a
//! page in a browser cannot use a name of its own for this address: `Host` and `Origin` have to be ours.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    Router,
    extract::{Request, State},
    http::{StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
};
use longhaul_core::Rng;
use rmcp::transport::streamable_http_server::{
    StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{BearerToken, McpError, McpServer, mounted::begins_session};

/// Where the protocol is spoken.
const PATH: &str = "/mcp";
/// How long open streams may take to end at shutdown.
const SHUTDOWN_MAX: Duration = Duration::from_secs(2);
/// A session without a message for so long ends; its client is told so by 404 and begins another.
const SESSION_IDLE_MAX: Duration = Duration::from_secs(30 * 60);

/// Where and for whom to serve.
#[derive(Debug, Clone)]
pub struct HttpSettings {
    /// The address; port 0 for any that is free.
    pub address: SocketAddr,
    /// The token clients have to send; none to have one made.
    pub token: Option<BearerToken>,
    /// Sessions at once.
    pub sessions_max: usize,
}

impl HttpSettings {
    /// A token that is made, and 64 sessions.
    #[must_use]
    pub fn new(address: SocketAddr) -> Self {
        Self { address, token: None, sessions_max: 64 }
    }
}

/// A server that listens.
pub struct HttpServer {
    listener: TcpListener,
    address: SocketAddr,
    token: BearerToken,
    router: Router,
    streams: CancellationToken,
}

struct Door {
    token: BearerToken,
    sessions: Arc<LocalSessionManager>,
    sessions_max: usize,
}

impl HttpServer {
    /// Begins to listen.
    ///
    /// # Errors
    /// When the address is not a loopback address, or cannot be had.
    pub async fn bind(server: McpServer, settings: HttpSettings, rng: &dyn Rng) -> Result<Self, McpError> {
        let HttpSettings { address, token, sessions_max } = settings;
        if !address.ip().is_loopback() {
            return Err(McpError::NotLoopback { address });
        }
        let failed = |source| McpError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let token = token.unwrap_or_else(|| BearerToken::random(rng));
        let streams = CancellationToken::new();
        let sessions = Arc::new(sessions());
        let config = config(&server, address.port(), streams.clone());
        let service = StreamableHttpService::new(move || Ok(server.clone()), sessions.clone(), config);
        let door = Arc::new(Door { token: token.clone(), sessions, sessions_max });
        let router = Router::new().route_service(PATH, service).layer(middleware::from_fn_with_state(door, admit));
        Ok(Self { listener, address, token, router, streams })
    }

    /// Where clients reach it: `http://127.0.0.1:PORT/mcp`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}{PATH}", self.address)
    }

    /// The token clients have to send.
    #[must_use]
    pub fn token(&self) -> &BearerToken {
        &self.token
    }

    /// Serves until `shutdown` is cancelled.
    ///
    /// # Errors
    /// When the listener fails.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), McpError> {
        let Self { listener, router, streams, .. } = self;
        let ended = {
            let shutdown = shutdown.clone();
            async move {
                shutdown.cancelled().await;
                // Open event streams would keep a graceful end waiting for ever.
                streams.cancel();
            }
        };
        let serving = axum::serve(listener, router).with_graceful_shutdown(ended).into_future();
        let overdue = async {
            shutdown.cancelled().await;
            let _ = tokio::time::timeout(SHUTDOWN_MAX, std::future::pending::<()>()).await;
        };
        tokio::select! {
            served = serving => served.map_err(|error| McpError::Down { problem: error.to_string() }),
            () = overdue => Ok(()),
        }
    }
}

pub(super) fn sessions() -> LocalSessionManager {
    let mut sessions = LocalSessionManager::default();
    sessions.session_config.keep_alive = Some(SESSION_IDLE_MAX);
    sessions
}

fn config(server: &McpServer, port: u16, streams: CancellationToken) -> StreamableHttpServerConfig {
    let hosts = ["127.0.0.1", "localhost", "[::1]"].map(|host| format!("{host}:{port}"));
    let origins = hosts.clone().map(|host| format!("http://{host}"));
    StreamableHttpServerConfig::default()
        .with_allowed_hosts(hosts)
        .with_allowed_origins(origins)
        .enforce_origin_validation()
        .with_max_request_body_bytes(server.settings().message_bytes_max)
        .with_cancellation_token(streams)
}

/// Lets in who has the token, as long as there is room.
async fn admit(State(door): State<Arc<Door>>, request: Request, next: Next) -> Response {
    let given = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    if !given.is_some_and(|given| door.token.opens(given)) {
        let realm = [(header::WWW_AUTHENTICATE, r#"Bearer realm="longhaul""#)];
        return (StatusCode::UNAUTHORIZED, realm, "send the token as `Authorization: Bearer TOKEN`\n").into_response();
    }
    if begins_session(request.method(), request.headers())
        && door.sessions.sessions.read().await.len() >= door.sessions_max
    {
        let again = [(header::RETRY_AFTER, "30")];
        let text = format!("{} sessions are open, which is the limit; end one, or try later\n", door.sessions_max);
        return (StatusCode::SERVICE_UNAVAILABLE, again, text).into_response();
    }
    next.run(request).await
}

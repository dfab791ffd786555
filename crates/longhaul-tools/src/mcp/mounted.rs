//! The protocol over HTTP within somebody else's server, which listens, admits and knows who asks.
//!
//! Invariant: a session belongs to the server it was begun with; who mounts one server for each caller keeps callers'
//! sessions apart.

use std::sync::Arc;

use axum::{
    extract::Request,
    http::{HeaderMap, Method, StatusCode, header},
    response::{IntoResponse, Response},
};
use rmcp::transport::streamable_http_server::{
    StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
};
use tokio_util::sync::CancellationToken;

use super::{McpServer, http::sessions};

/// A server that answers requests of the protocol.
pub struct MountedServer {
    service: StreamableHttpService<McpServer, LocalSessionManager>,
    sessions: Arc<LocalSessionManager>,
    sessions_max: usize,
}

impl MountedServer {
    /// Streams end when `closing` is cancelled. Whoever mounts it has checked `Host`, `Origin` and the caller.
    #[must_use]
    pub fn new(server: McpServer, sessions_max: usize, closing: CancellationToken) -> Self {
        let sessions = Arc::new(sessions());
        let config = StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .with_max_request_body_bytes(server.settings().message_bytes_max)
            .with_cancellation_token(closing);
        let service = StreamableHttpService::new(move || Ok(server.clone()), sessions.clone(), config);
        Self { service, sessions, sessions_max }
    }

    /// Answers a request.
    pub async fn answer(&self, request: Request) -> Response {
        if begins_session(request.method(), request.headers()) && self.sessions().await >= self.sessions_max {
            let text = format!("{} sessions are open, which is the limit; end one, or try later\n", self.sessions_max);
            return (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "30")], text).into_response();
        }
        self.service.handle(request).await.map(axum::body::Body::new)
    }

    /// Sessions that are open.
    pub async fn sessions(&self) -> usize {
        self.sessions.sessions.read().await.len()
    }
}

/// Whether a request may open a session: only those of revisions before 2026-07-28 do.
pub(super) fn begins_session(method: &Method, headers: &HeaderMap) -> bool {
    let stateless = headers.get("mcp-protocol-version").is_some_and(|version| version.as_bytes() >= &b"2026-07-28"[..]);
    method == Method::POST && !headers.contains_key("mcp-session-id") && !stateless
}

//! Serving one client on standard input and output, one JSON-RPC message a line.
//!
//! Invariant: a line above the limit is refused without being kept, and the conversation goes on.

use rmcp::{
    ServiceExt,
    service::ServerInitializeError,
    transport::{async_rw::AsyncRwTransport, io::stdio_pipes},
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use super::{McpError, McpServer};

impl McpServer {
    /// Serves the client at standard input and output until it closes its end, or `shutdown` is cancelled.
    ///
    /// # Errors
    /// When whoever is there does not speak the protocol.
    pub async fn serve_stdio(self, shutdown: CancellationToken) -> Result<(), McpError> {
        let (input, output) = stdio_pipes();
        self.serve(input, output, shutdown).await
    }

    /// Serves one client on a pair of streams.
    ///
    /// # Errors
    /// When whoever is there does not speak the protocol.
    pub async fn serve(
        self,
        input: impl AsyncRead + Send + Unpin + 'static,
        output: impl AsyncWrite + Send + Unpin + 'static,
        shutdown: CancellationToken,
    ) -> Result<(), McpError> {
        let limit = self.settings().message_bytes_max;
        let transport = AsyncRwTransport::new_server(input, output).with_max_line_length(limit);
        let running = match self.serve_with_ct(transport, shutdown).await {
            Ok(running) => running,
            // A client that goes before it says anything, and a shutdown, are ordinary ends.
            Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => return Ok(()),
            Err(error) => return Err(McpError::Handshake { problem: shortened(&error.to_string()) }),
        };
        running.waiting().await.map_err(|error| McpError::Down { problem: error.to_string() })?;
        Ok(())
    }
}

/// An error of the handshake quotes the whole message.
fn shortened(text: &str) -> String {
    if text.chars().count() <= 200 { text.to_owned() } else { text.chars().take(200).chain(['…']).collect() }
}

//! Why an MCP server cannot be started or went down.

use std::{io, net::SocketAddr};

/// Why an MCP server cannot be started or went down.
#[derive(Debug, thiserror::Error)]
pub enum McpError {
    /// The address can be reached from other machines, and this server speaks no TLS.
    #[error(
        "refusing to listen on {address}: other machines could reach it, and this server has no TLS; listen on 127.0.0.1:{port} and let a reverse proxy with TLS, or `ssh -L`, lead there",
        port = address.port()
    )]
    NotLoopback {
        /// The address that was asked for.
        address: SocketAddr,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {address} ({source}); name another port, or port 0 for any that is free")]
    Listen {
        /// The address that was asked for.
        address: SocketAddr,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// A token that could be guessed.
    #[error(
        "the token has {chars} characters; use at least {chars_min} visible ASCII characters without spaces, or none to have one made"
    )]
    WeakToken {
        /// How many it has.
        chars: usize,
        /// How many it needs.
        chars_min: usize,
    },
    /// The client's first message was not the beginning of a conversation.
    #[error("the client did not begin a conversation ({problem}); an MCP client has to be at the other end")]
    Handshake {
        /// What came instead.
        problem: String,
    },
    /// A server of tools, named in the settings, cannot be used.
    #[error("the MCP server {name} cannot be used: {problem}; see [mcp.servers.{name}] in your longhaul.toml")]
    Server {
        /// Its name.
        name: String,
        /// What is wrong.
        problem: String,
    },
    /// Serving ended by a failure.
    #[error("the MCP server went down: {problem}")]
    Down {
        /// What happened.
        problem: String,
    },
}

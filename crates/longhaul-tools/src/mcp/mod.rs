//! An MCP server over any [`ToolRegistry`](crate::ToolRegistry): on standard input and output, or on HTTP. And servers of
//! others as tools of ours ([`McpClient`]), in the sandbox.
//!
//! It owns how tools are shown to a client of the Model Context Protocol and how a call reaches them. What the tools do
//! is theirs; checking arguments is the registry's. The protocol itself (revisions 2024-11-05 to 2026-07-28, with and
//! without sessions) is `rmcp`'s, whose types stay within this folder.
//! Invariant: whatever a client sends, it is answered within the limits of [`McpSettings`], and nothing but the
//! protocol is written to standard output.

mod client;
mod error;
mod http;
mod mounted;
mod seal;
mod server;
mod shelf;
mod stdio;
mod token;

use std::time::Duration;

pub use client::{McpClient, McpClients, McpServerSpec};
pub use error::McpError;
pub use http::{HttpServer, HttpSettings};
pub use mounted::MountedServer;
pub use server::McpServer;
pub use shelf::{Listed, Offers, Question, Shelf, Stop, Talk};
pub use token::BearerToken;

/// What a server says of itself, and the bounds within which it works.
#[derive(Debug, Clone)]
pub struct McpSettings {
    /// Name of the program, for clients' lists.
    pub name: String,
    /// Its version.
    pub version: String,
    /// What a model should know before it uses the tools; clients put it into their prompt.
    pub instructions: String,
    /// Longest time of one call; then it is given up and the client is told.
    pub call_max: Duration,
    /// Calls carried out at once; more wait for their turn within their time.
    pub calls_at_once_max: usize,
    /// Largest message of a client.
    pub message_bytes_max: usize,
}

impl McpSettings {
    /// One minute a call, 16 calls at once, messages of 2 MiB.
    #[must_use]
    pub fn new(name: &str, version: &str, instructions: &str) -> Self {
        Self {
            name: name.to_owned(),
            version: version.to_owned(),
            instructions: instructions.to_owned(),
            call_max: Duration::from_secs(60),
            calls_at_once_max: 16,
            message_bytes_max: 2 * 1024 * 1024,
        }
    }
}

//! `longhaul mcp`: memory and knowledge as tools for any MCP client. Standard output belongs to the protocol; what a
//! person should know goes to standard error.

use std::{
    io::{Write, stderr},
    net::{Ipv4Addr, SocketAddr},
};

use clap::Args;
use longhaul::{CancellationToken, McpHttp, ToolOptions, memory::Namespace, serve_mcp};

use super::{
    memory::place::{Model, PlaceFlags},
    work,
};
use crate::{args::Global, exit::Exit};

/// Give any MCP client this machine's memory and knowledge
///
/// Serves the Model Context Protocol on standard input and output, as clients start it, or with --http for many clients
/// at once. Tools: memory_search, memory_add, memory_get, memory_edit, memory_forget, user_memory_get,
/// memory_user_edits, conversation_search, knowledge_search, knowledge_list, build_context.
/// Works with an empty home, and without the embedding model by words alone.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  claude mcp add longhaul -- longhaul mcp         in Claude Code; other clients: docs/mcp.md
  longhaul mcp --namespace research --read-only
  longhaul mcp --http 127.0.0.1:8701              prints a token for Authorization: Bearer …

Environment:
  LONGHAUL_MCP_TOKEN   the token of --http, at least 16 characters; without it one is made and printed once")]
pub(crate) struct Mcp {
    /// Serve streamable HTTP on this loopback address instead; port 0 for any that is free
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    http: Option<SocketAddr>,
    /// The namespace that is meant where a call names none
    #[arg(long, short, value_name = "NAME", default_value = "main")]
    namespace: Namespace,
    /// Only tools that change nothing
    #[arg(long)]
    read_only: bool,
    #[command(flatten)]
    place: PlaceFlags,
}

/// Runs the command.
pub(crate) fn run(global: &Global, command: &Mcp) -> anyhow::Result<Exit> {
    let runtime = work::runtime()?;
    let served = runtime.block_on(serve(global, command));
    // A thread may still be waiting for input that never comes.
    runtime.shutdown_background();
    served
}

async fn serve(global: &Global, command: &Mcp) -> anyhow::Result<Exit> {
    let memories = command.place.open(global, Model::Wanted, true).await?;
    if let Some(reason) = memories.no_model() {
        say(&format!("searching by words only: {reason}"));
    }
    let shutdown = CancellationToken::new();
    let mut signals = work::Signals::listen()?;
    let stop = shutdown.clone();
    let watching = tokio::spawn(async move {
        signals.next().await;
        stop.cancel();
    });
    let token = std::env::var("LONGHAUL_MCP_TOKEN").ok().filter(|token| !token.trim().is_empty());
    let http = command.http.map(|address| McpHttp { address, token });
    let options = ToolOptions { namespace: command.namespace.clone(), read_only: command.read_only };
    let told = |url: &str, token: Option<&str>| {
        say(&format!("serving MCP at {url}; Ctrl-C ends it"));
        if let Some(token) = token {
            say(&format!("clients send: Authorization: Bearer {token}"));
        }
    };
    let served = serve_mcp(memories, options, http, shutdown, told).await;
    watching.abort();
    served?;
    Ok(Exit::Done)
}

fn say(text: &str) {
    let _ = writeln!(stderr(), "longhaul: {text}"); // a closed standard error changes nothing
}

/// `127.0.0.1:8701`, `localhost:8701`, `8701`.
pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    let loopback = |port: &str| port.parse().ok().map(|port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let found = match text.rsplit_once(':') {
        None => loopback(text),
        Some(("localhost" | "", port)) => loopback(port),
        Some(_) => text.parse().ok(),
    };
    found.ok_or_else(|| "write an address and a port, as in 127.0.0.1:8701".to_owned())
}

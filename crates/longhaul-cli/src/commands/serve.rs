//! `longhaul serve`: the gateway. Standard output gets the address and, once in a store's life, its first key; logs go
//! to standard error and hold no key.

use std::{
    io::{Write, stderr},
    net::SocketAddr,
    path::PathBuf,
};

use clap::Args;
use longhaul::{
    CancellationToken, Serving,
    server::{
        DoorSettings, Limits, ServerSettings, TlsFiles,
        hooks::{Network, WebhookSettings},
        keys::MadeKey,
    },
};
use serde_json::json;

use super::{mcp::address, work};
use crate::{
    args::Global,
    exit::{Exit, Refusal},
    progress::print_line,
};

/// Serve tasks, executions, waits, records, sessions and memory over HTTP
///
/// Every request shows a key, which says whose data it reaches and what it may do; the first key is made and printed
/// once, when a store has none. The API describes itself at /v1/openapi.json. Beyond loopback it serves TLS only.
/// Ctrl-C ends it once open requests have been answered.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  longhaul serve                                  on 127.0.0.1:8700
  longhaul serve --graph order --graph refund     callers may start these, workers run them
  longhaul serve --listen 0.0.0.0:8700 --tls-cert site.pem --tls-key site.key --host longhaul.example.org
  curl -H \"Authorization: Bearer $KEY\" http://127.0.0.1:8700/v1/tasks")]
pub(crate) struct Serve {
    /// Where to listen; port 0 for any that is free
    #[arg(long, value_name = "ADDRESS", value_parser = address, default_value = "127.0.0.1:8700")]
    listen: SocketAddr,
    /// A name under which clients reach it, beside those of loopback; may be given several times
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
    /// The certificate chain, in PEM; needed beyond loopback
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Its private key, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// A graph that callers may start, because workers serve it; may be given several times
    #[arg(long, value_name = "GRAPH")]
    graph: Vec<String>,
    /// A network that webhooks may be sent to although it is not public: 10.1.0.0/16; may be given several times
    #[arg(long, value_name = "NETWORK")]
    webhook_allow: Vec<Network>,
    /// Requests a second that one key may make for long; twice as many at once after a pause
    #[arg(long, value_name = "N", default_value_t = 200)]
    rate: u32,
    /// The store: its folder, or postgres://USER:PASSWORD@HOST/DATABASE [default: the home's]
    #[arg(long, value_name = "DIR|URL", env = "LONGHAUL_STORE", hide_env_values = true)]
    store: Option<String>,
}

/// Runs the command.
pub(crate) fn run(global: &Global, command: &Serve) -> anyhow::Result<Exit> {
    work::runtime()?.block_on(serve(global, command))
}

async fn serve(global: &Global, command: &Serve) -> anyhow::Result<Exit> {
    if command.rate == 0 {
        return Err(Refusal::because(Exit::Usage, "--rate 0 would answer nobody: write at least 1"));
    }
    let webhooks = WebhookSettings { allow: command.webhook_allow.clone(), ..WebhookSettings::default() };
    let limits = Limits {
        doors: DoorSettings { webhooks, ..DoorSettings::default() },
        requests_per_second: command.rate,
        requests_burst: command.rate.saturating_mul(2),
        ..Limits::default()
    };
    let settings = global.settings(None, &[])?;
    let store = command.store.clone().filter(|store| !store.is_empty());
    let graphs = command.graph.iter().cloned().collect();
    let serving = Serving::open(&settings, store, graphs, limits).await?;
    if let Some(reason) = serving.no_model() {
        say(&format!("memories are searched by words only: {reason}"));
    }
    let tls = command.tls_cert.clone().zip(command.tls_key.clone());
    let tls = tls.map(|(certificates, key)| TlsFiles { certificates, key });
    let place = ServerSettings { address: command.listen, tls, hosts: command.host.clone() };
    let (listening, first) = serving.bind(place).await?;
    tell(global, &listening.url(), first.as_ref())?;
    let shutdown = CancellationToken::new();
    let mut signals = work::Signals::listen()?;
    let stop = shutdown.clone();
    let watching = tokio::spawn(async move {
        signals.next().await;
        stop.cancel();
        // Asked twice: what is committed is safe.
        signals.next().await;
        std::process::exit(i32::from(Exit::Interrupted.number()));
    });
    listening.run(shutdown).await;
    watching.abort();
    Ok(Exit::Done)
}

/// The address, and the first key.
fn tell(global: &Global, url: &str, first: Option<&MadeKey>) -> anyhow::Result<()> {
    let secret = first.map(|made| made.secret.expose());
    if global.json {
        return Ok(print_line(&json!({ "url": url, "first_key": secret }).to_string())?);
    }
    if let Some(secret) = secret {
        print_line(&format!("the first key, an owner's; it is shown this once:\n\n  {secret}\n"))?;
    }
    print_line(&format!("serving {url}; Ctrl-C ends it"))?;
    Ok(())
}

fn say(text: &str) {
    let _ = writeln!(stderr(), "longhaul: {text}"); // a closed standard error changes nothing
}

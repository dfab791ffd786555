//! Making a network's folder, and serving it.

use std::io::{IsTerminal, Read, stdin};

use anyhow::Context;
use clap::Args;
use longhaul::{
    Ambient, Network,
    network::{StartOptions, of_password},
};
use serde_json::json;

use super::{super::work, Folder};
use crate::{
    args::Global,
    exit::{Exit, Refusal},
    progress::{Ink, print_line},
};

/// Make a network in a folder: a network.yaml that can be started as it is
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  longhaul network init research
  longhaul network init research --name \"Research group\"")]
pub(super) struct Init {
    #[command(flatten)]
    folder: Folder,
    /// Its name for people [default: the folder's]
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
}

/// Serve a network until Ctrl-C
///
/// What of the file was changed or not understood is said on standard error. Loopback only, unless a transport has TLS.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  longhaul network start research
  longhaul network start research --port 8800
  longhaul network start research --any-ports --json    prints the addresses it took")]
pub(super) struct Start {
    #[command(flatten)]
    folder: Folder,
    /// The port of HTTP, in place of the file's
    #[arg(short, long, value_name = "PORT", conflicts_with = "any_ports")]
    port: Option<u16>,
    /// Take free ports, whatever the file says
    #[arg(long)]
    any_ports: bool,
}

/// Read a password from standard input and print the password_hash for network.yaml
///
/// A derived hash: whoever reads the file cannot come in with it, as with the plain SHA-256 of other programs.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  longhaul network password < password.txt")]
pub(super) struct Password {}

pub(super) fn init(global: &Global, command: &Init) -> anyhow::Result<Exit> {
    let made = longhaul::network::init(&command.folder.dir, command.name.as_deref())?;
    let dir = command.folder.dir.display();
    if global.json {
        let said = json!({"file": made.file, "network": made.id, "admin_password": made.password});
        print_line(&said.to_string())?;
        return Ok(Exit::Done);
    }
    let style = global.style();
    print_line(&format!("{} is the network {}", made.file.display(), style.paint(Ink::Strong, &made.id)))?;
    print_line(&format!("the password of its group admin, shown this once: {}", made.password))?;
    print_line(&format!("serve it: longhaul network start {dir}"))?;
    Ok(Exit::Done)
}

pub(super) fn password(_global: &Global, _command: &Password) -> anyhow::Result<Exit> {
    if stdin().is_terminal() {
        eprintln!("longhaul: type the password, Enter, then Ctrl-D");
    }
    let mut typed = String::new();
    stdin().take(4096).read_to_string(&mut typed).context("cannot read the password")?;
    let password = typed.trim_end_matches(['\r', '\n']);
    if password.chars().count() < 8 {
        return Err(Refusal::because(Exit::Usage, "a password has 8 characters or more"));
    }
    print_line(&of_password(password, &Ambient::system()).0)?;
    Ok(Exit::Done)
}

pub(super) async fn start(global: &Global, command: &Start) -> anyhow::Result<Exit> {
    let mut signals = work::Signals::listen()?;
    let settings = global.settings(None, &[])?;
    let options = StartOptions {
        settings: Some(settings),
        http_port: command.port,
        any_ports: command.any_ports,
        ..StartOptions::default()
    };
    let network = Network::start_with(&command.folder.dir, options).await?;
    for notice in network.notices() {
        eprintln!("longhaul: note: {notice}");
    }
    let libp2p: Vec<String> =
        network.libp2p().map(|node| node.addresses().iter().map(ToString::to_string).collect()).unwrap_or_default();
    let (view, grpc) = (network.engine().view(), network.serving().grpc().map(|address| address.to_string()));
    if global.json {
        let said = json!({"network": view.id, "url": network.url(), "grpc": grpc, "libp2p": libp2p});
        print_line(&said.to_string())?;
    } else {
        let style = global.style();
        print_line(&format!("{} is served", style.paint(Ink::Strong, &view.name)))?;
        if let Some(url) = network.url() {
            print_line(&format!("  http    {url}   (WebSocket {url}/ws, MCP {url}/mcp, A2A {url}/a2a)"))?;
        }
        if let Some(address) = grpc {
            print_line(&format!("  grpc    {address}"))?;
        }
        for address in libp2p {
            print_line(&format!("  libp2p  {address}"))?;
        }
        let dir = command.folder.dir.display();
        print_line(&format!("look at it: longhaul network status {dir}; Ctrl-C ends it"))?;
    }
    signals.next().await;
    network.stop().await;
    Ok(Exit::Done)
}

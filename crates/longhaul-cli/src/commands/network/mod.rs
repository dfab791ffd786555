//! `longhaul network`: a network of agents from its folder: made, served, looked at, governed.

mod chat;
mod govern;
mod look;
mod serve;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::work;
use crate::{args::Global, exit::Exit};

/// A network of agents: make one, serve it, look at it, govern it
///
/// A network is a folder with a network.yaml. Served, it is reached over HTTP, WebSocket, gRPC, MCP and A2A, and over
/// libp2p where the file says so; agents of the OpenAgents SDK join it unchanged.
#[derive(Debug, Args)]
pub(crate) struct NetworkArgs {
    #[command(subcommand)]
    command: NetworkCommand,
}

#[derive(Debug, Subcommand)]
enum NetworkCommand {
    Init(serve::Init),
    Start(serve::Start),
    Status(look::Status),
    Agents(look::Agents),
    Events(look::Events),
    Top(look::Top),
    Chat(chat::ChatArgs),
    Kick(govern::Kick),
    Invite(govern::Invite),
    Password(serve::Password),
}

/// The folder of a network.
#[derive(Debug, Args)]
struct Folder {
    /// The network's folder
    #[arg(value_name = "DIR", default_value = ".")]
    dir: PathBuf,
}

/// The folder, for commands whose own argument comes first.
#[derive(Debug, Args)]
struct FolderFlag {
    /// The network's folder
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
}

/// Runs the command.
pub(crate) fn run(global: &Global, args: &NetworkArgs) -> anyhow::Result<Exit> {
    match &args.command {
        NetworkCommand::Init(command) => serve::init(global, command),
        NetworkCommand::Password(command) => serve::password(global, command),
        NetworkCommand::Start(command) => work::runtime()?.block_on(serve::start(global, command)),
        NetworkCommand::Status(command) => work::runtime()?.block_on(look::status(global, command)),
        NetworkCommand::Agents(command) => work::runtime()?.block_on(look::agents(global, command)),
        NetworkCommand::Events(command) => work::runtime()?.block_on(look::events(global, command)),
        NetworkCommand::Top(command) => work::runtime()?.block_on(look::top(global, command)),
        NetworkCommand::Chat(command) => chat::run(global, command),
        NetworkCommand::Kick(command) => work::runtime()?.block_on(govern::kick(global, command)),
        NetworkCommand::Invite(command) => work::runtime()?.block_on(govern::invite(global, command)),
    }
}

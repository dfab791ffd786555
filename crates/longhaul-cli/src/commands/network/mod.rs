//! `longhaul network …`: networks of agents.

mod chat;

use clap::{Args, Subcommand};

use crate::{args::Global, exit::Exit};

/// Networks of agents
#[derive(Debug, Args)]
pub(crate) struct NetworkArgs {
    #[command(subcommand)]
    command: NetworkCommand,
}

#[derive(Debug, Subcommand)]
enum NetworkCommand {
    Chat(chat::ChatArgs),
}

/// Runs the command.
pub(crate) fn run(global: &Global, command: &NetworkArgs) -> anyhow::Result<Exit> {
    match &command.command {
        NetworkCommand::Chat(command) => chat::run(global, command),
    }
}

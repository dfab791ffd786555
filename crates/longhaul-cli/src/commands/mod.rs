//! One file per command. Each reads its settings, does its work and says how it ended.

mod doctor;

use clap::Subcommand;

use crate::{args::Cli, exit::Exit};

/// What can be asked for.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Doctor(doctor::Doctor),
}

/// Runs the command.
pub(crate) fn run(cli: Cli) -> anyhow::Result<Exit> {
    let Cli { global, command } = cli;
    match command {
        Command::Doctor(command) => doctor::run(&global, &command),
    }
}

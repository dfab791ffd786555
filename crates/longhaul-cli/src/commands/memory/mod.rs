//! `longhaul memory`: long-term memory from the terminal. One file per command; what they share is in `place` (which
//! store, as whom), `filters` (which memories) and `show` (how a memory is written on a page).

mod add;
mod edit;
mod eval;
mod filters;
mod forget;
mod get;
mod grants;
mod index;
mod list;
mod migrate;
mod pin;
pub(super) mod place;
mod search;
mod show;
mod stats;
mod tiers;
mod transfer;
mod user;

use clap::{Args, Subcommand};

use crate::{args::Global, exit::Exit};

/// Remember, find again, correct and forget
///
/// Long-term memory of agents and people, on this machine: every memory is one row in the home's store, found by its
/// words and by its meaning as soon as it is written. It needs no project, no service and no model of language; without
/// the embedding model (`longhaul setup`) it is searched by words alone. Agents use the same memory over MCP:
/// `longhaul mcp --help`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  longhaul memory add \"Ada prefers tea\" --kind preference --tag ada
  git log -1 --format=%B | longhaul memory add --kind commit
  longhaul memory search \"what does Ada drink\" --explain
  longhaul memory search \"login bugs\" --when \"last week\" --where severity>=3
  longhaul memory forget --subject ada            what would go; add --yes to do it
  longhaul memory export all.jsonl && longhaul memory import all.jsonl --home /elsewhere

Times:
  7d, 2 weeks ago, yesterday, last week, monday, october, 2026-11, 2026-11-01, 2026-11-01T09:30,
  2026-11-01T09:30:00Z; ranges 2026-10..2026-11, 2026-10.., ..yesterday; also 昨天, 上周, 先週, 지난주.
  Days begin and end in this machine's time zone; TZ=UTC longhaul … reads and shows UTC.

Everything about it: docs/memory.md")]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct MemoryArgs {
    #[command(subcommand)]
    command: MemoryCommand,
}

#[derive(Debug, Subcommand)]
enum MemoryCommand {
    Add(Box<add::Add>),
    Search(Box<search::Search>),
    Get(get::Get),
    List(Box<list::List>),
    Edit(Box<edit::Edit>),
    Forget(Box<forget::Forget>),
    Pin(pin::Pin),
    Unpin(pin::Unpin),
    Tiers(tiers::TiersArgs),
    Compact(tiers::Compact),
    Stats(stats::Stats),
    Export(transfer::Export),
    Import(Box<transfer::Import>),
    Migrate(migrate::Migrate),
    Index(index::Index),
    Eval(eval::Eval),
    Grants(grants::GrantsArgs),
    User(Box<user::UserArgs>),
}

/// Runs the command.
pub(crate) fn run(global: &Global, args: &MemoryArgs) -> anyhow::Result<Exit> {
    let work = async {
        match &args.command {
            MemoryCommand::Add(command) => add::run(global, command).await,
            MemoryCommand::Search(command) => search::run(global, command).await,
            MemoryCommand::Get(command) => get::run(global, command).await,
            MemoryCommand::List(command) => list::run(global, command).await,
            MemoryCommand::Edit(command) => edit::run(global, command).await,
            MemoryCommand::Forget(command) => forget::run(global, command).await,
            MemoryCommand::Pin(command) => pin::pin(global, command).await,
            MemoryCommand::Unpin(command) => pin::unpin(global, command).await,
            MemoryCommand::Tiers(command) => tiers::run(global, command).await,
            MemoryCommand::Compact(command) => tiers::compact(global, command).await,
            MemoryCommand::Stats(command) => stats::run(global, command).await,
            MemoryCommand::Export(command) => transfer::export(global, command).await,
            MemoryCommand::Import(command) => transfer::import(global, command).await,
            MemoryCommand::Migrate(command) => migrate::run(global, command).await,
            MemoryCommand::Index(command) => index::run(global, command).await,
            MemoryCommand::Eval(command) => eval::run(global, command).await,
            MemoryCommand::Grants(command) => grants::run(global, command).await,
            MemoryCommand::User(command) => user::run(global, command).await,
        }
    };
    super::work::runtime()?.block_on(work)
}

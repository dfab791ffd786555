//! `longhaul knowledge`: corpora of documents from the terminal. One file per command.

mod add;
mod look;
mod remove;
mod search;

use clap::{Args, Subcommand};

use super::{memory::place, work};
use crate::{args::Global, exit::Exit};

/// Give agents documents to look things up in
///
/// A corpus is a set of documents that was read at one moment: text, Markdown, HTML, PDF, source code. Adding the same
/// path again makes a new version, in which only what changed is read and embedded again; old versions stay until they
/// are removed. Nobody writes into a version, agents least of all. Agents ask corpora over MCP (`longhaul mcp`).
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  longhaul knowledge add docs/ --corpus guide
  longhaul knowledge add paper.pdf --corpus papers
  longhaul knowledge search \"how are retries bounded?\"
  longhaul knowledge search retries --corpus guide@1       an older version
  longhaul knowledge versions guide --diff 1 2
  longhaul knowledge remove guide@1

Everything about it: docs/knowledge.md")]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct KnowledgeArgs {
    #[command(subcommand)]
    command: KnowledgeCommand,
}

#[derive(Debug, Subcommand)]
enum KnowledgeCommand {
    Add(Box<add::Add>),
    List(look::List),
    Search(search::Search),
    Versions(look::Versions),
    Share(remove::Share),
    Remove(remove::Remove),
}

/// Runs the command.
pub(crate) fn run(global: &Global, args: &KnowledgeArgs) -> anyhow::Result<Exit> {
    let runtime = work::runtime()?;
    let done = runtime.block_on(async {
        match &args.command {
            KnowledgeCommand::Add(command) => add::run(global, command).await,
            KnowledgeCommand::List(command) => look::list(global, command).await,
            KnowledgeCommand::Search(command) => search::run(global, command).await,
            KnowledgeCommand::Versions(command) => look::versions(global, command).await,
            KnowledgeCommand::Share(command) => remove::share(global, command).await,
            KnowledgeCommand::Remove(command) => remove::run(global, command).await,
        }
    });
    // A file that takes long to read holds nobody up.
    runtime.shutdown_background();
    done
}

//! `longhaul run`: coding sessions until everything passes, a limit is reached or somebody stops it.

use std::path::PathBuf;

use clap::Args;
use longhaul::{Ambient, CancellationToken, Money, RunLimits, TaskId, Until};

use super::{init::ModelFlags, work};
use crate::{
    args::Global,
    exit::{Exit, Refusal},
};

/// Build the project, session by session, until every feature is verified
///
/// Goes on exactly where the last run stopped, however it stopped. Ctrl-C stops at the next boundary; again, at once.
/// Only one run works on a project at a time.
#[derive(Debug, Args)]
pub(crate) struct Run {
    /// The project
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Stop after so many sessions (exit code 3 if features are left)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    sessions: Option<u32>,
    /// Go on until `done` or a moment (8h, 2026-12-31, 2026-11-01T09:30); failures of the model's service are waited out
    #[arg(long, value_name = "done|WHEN")]
    until: Option<String>,
    /// Spend at most so many tokens in this run, sent and received
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_tokens: Option<u64>,
    /// Spend at most so much in this run; needs `[prices."MODEL"]` in longhaul.toml
    #[arg(long, value_name = "AMOUNT")]
    max_cost: Option<Money>,
    /// A project of the shared store that another machine began with `--remote`: goes on with it here, in the folder DIR
    #[arg(long, value_name = "TASK")]
    task: Option<TaskId>,
    #[command(flatten)]
    model: ModelFlags,
}

/// Runs the command.
pub(crate) fn run(global: &Global, command: &Run) -> anyhow::Result<Exit> {
    let until = match &command.until {
        Some(text) => {
            let until = Until::parse(text, Ambient::system().clock.now());
            Some(until.map_err(|error| Refusal::because(Exit::Usage, format!("--until: {error}, or `done`")))?)
        }
        None => None,
    };
    let settings = global.settings(Some(&command.dir), &command.model.assignments())?;
    work::runtime()?.block_on(async {
        let longhaul = work::open(settings).await?;
        let cancel = CancellationToken::new();
        let mut progress = global.progress();
        let limits =
            RunLimits { sessions: command.sessions, tokens: command.max_tokens, money: command.max_cost, until };
        if let Some(task) = &command.task {
            longhaul.take_here(task, &command.dir).await?;
        }
        let running = longhaul.run(&command.dir, limits, cancel.clone());
        let outcome = work::watch(&longhaul, &mut progress, &cancel, running).await;
        progress.finish();
        work::conclude(global, &outcome?)
    })
}

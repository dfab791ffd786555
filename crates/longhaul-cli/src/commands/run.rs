//! `longhaul run`: coding sessions until everything passes, a limit is reached or somebody stops it.

use std::path::PathBuf;

use clap::Args;
use longhaul::{CancellationToken, RunLimits};

use super::{init::ModelFlags, work};
use crate::{args::Global, exit::Exit};

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
    #[command(flatten)]
    model: ModelFlags,
}

/// Runs the command.
pub(crate) fn run(global: &Global, command: &Run) -> anyhow::Result<Exit> {
    let settings = global.settings(Some(&command.dir), &command.model.assignments())?;
    work::runtime()?.block_on(async {
        let longhaul = work::open(settings).await?;
        let cancel = CancellationToken::new();
        let mut progress = global.progress();
        let limits = RunLimits { sessions: command.sessions };
        let running = longhaul.run(&command.dir, limits, cancel.clone());
        let outcome = work::watch(&longhaul, &mut progress, &cancel, running).await;
        progress.finish();
        work::conclude(global, &outcome?)
    })
}

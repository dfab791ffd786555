//! `longhaul log`: what happened in a project, as it was shown when it happened.

use std::path::PathBuf;

use clap::Args;

use super::work;
use crate::{args::Global, exit::Exit};

/// Show what happened, as it was shown while it happened
///
/// With --json, every event as it is stored, one per line.
#[derive(Debug, Args)]
pub(crate) struct Log {
    /// The project
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// The newest so many events
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    limit: usize,
}

/// Runs the command.
pub(crate) fn run(global: &Global, command: &Log) -> anyhow::Result<Exit> {
    let settings = global.settings(Some(&command.dir), &[])?;
    let events =
        work::runtime()?.block_on(async { work::open(settings).await?.log(&command.dir, command.limit).await })?;
    let mut progress = global.quiet_progress();
    for event in &events {
        progress.event(event)?;
    }
    Ok(Exit::Done)
}

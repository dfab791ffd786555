//! `longhaul report`: everything that happened in a project, on one page.

use std::path::{Path, PathBuf};

use clap::Args;

use super::work;
use crate::{
    args::Global,
    exit::Exit,
    progress::{Glyph, print_line},
};

/// Write one HTML page: features, sessions, verdicts, screenshots, refusals, commits
///
/// The page is one file that needs nothing else: it can be opened, sent and printed anywhere.
#[derive(Debug, Args)]
pub(crate) struct Report {
    /// The project
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// The page to write [default: DIR-report.html, beside the project]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(global: &Global, command: &Report) -> anyhow::Result<Exit> {
    let settings = global.settings(Some(&command.dir), &[])?;
    let out = command.out.clone().unwrap_or_else(|| beside(&command.dir));
    let written = work::runtime()?.block_on(async { work::open(settings).await?.report(&command.dir, &out).await })?;
    if global.json {
        print_line(&serde_json::to_string(&written)?)?;
    } else {
        let size_kb = written.bytes / 1_000;
        let pass = global.style().glyph(Glyph::Pass);
        print_line(&format!("{pass} {} ({size_kb} kB)", written.path.display()))?;
    }
    Ok(Exit::Done)
}

/// `app` → `app-report.html`: inside the project it would be one more file for the agent.
pub(super) fn beside(dir: &Path) -> PathBuf {
    let whole = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    let name = whole.file_name().map_or_else(|| "project".into(), |name| name.to_string_lossy().into_owned());
    whole.with_file_name(format!("{name}-report.html"))
}

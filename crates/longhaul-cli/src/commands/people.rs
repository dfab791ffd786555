//! `longhaul steer`, `pause`, `take-over` and `resume`: a person works along with a run.

use std::path::PathBuf;

use clap::Args;
use longhaul::{CancellationToken, Ending, VerifyRequest};
use serde_json::json;

use super::work;
use crate::{
    args::Global,
    exit::{Exit, Refusal},
    progress::{Glyph, print_line},
};

/// Who asks, about which project.
#[derive(Debug, Args)]
struct Asking {
    /// The project
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Who says so [default: the user's name]
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
}

impl Asking {
    fn by(&self) -> String {
        let user = || std::env::var("USER").ok().filter(|name| !name.is_empty());
        self.by.clone().or_else(user).unwrap_or_else(|| "a person".to_owned())
    }
}

/// Say something to the agent at work: it hears it before its next answer
///
/// A word is advice. It approves no tool call, changes no check and makes no feature pass.
#[derive(Debug, Args)]
pub(crate) struct Steer {
    /// What to say
    text: String,
    #[command(flatten)]
    asking: Asking,
}

/// Stop the run at its next step, and keep others from beginning, until `longhaul resume`
#[derive(Debug, Args)]
pub(crate) struct Pause {
    /// Why
    #[arg(long, default_value = "")]
    reason: String,
    #[command(flatten)]
    asking: Asking,
}

/// Take the project's folder over: the session ends in order, and nothing touches the folder until `longhaul resume`
#[derive(Debug, Args)]
pub(crate) struct TakeOver {
    /// Why; the message of the commit with your changes
    #[arg(long, default_value = "")]
    reason: String,
    #[command(flatten)]
    asking: Asking,
}

/// Lift a pause or give the folder back: your changes become a commit of yours, and what passed is verified again
#[derive(Debug, Args)]
pub(crate) struct Resume {
    /// Leave the verification to the next run
    #[arg(long)]
    no_verify: bool,
    #[command(flatten)]
    asking: Asking,
}

/// Runs `longhaul steer`.
pub(crate) fn steer(global: &Global, command: &Steer) -> anyhow::Result<Exit> {
    if command.text.trim().is_empty() {
        return Err(Refusal::because(Exit::Usage, "there is nothing to say; write it in quotes").into());
    }
    let dir = &command.asking.dir;
    let settings = global.settings(Some(dir), &[])?;
    work::runtime()?.block_on(async {
        let longhaul = work::open(settings).await?;
        let Some(number) = longhaul.steer(dir, &command.asking.by(), &command.text).await? else {
            let why = "too many words wait for the agent already; longhaul run lets it hear them";
            return Err(Refusal::because(Exit::Usage, why).into());
        };
        said(global, &json!({ "steered": number }), &format!("word {number} waits for the agent's next answer"))
    })
}

/// Runs `longhaul pause`.
pub(crate) fn pause(global: &Global, command: &Pause) -> anyhow::Result<Exit> {
    let dir = &command.asking.dir;
    let settings = global.settings(Some(dir), &[])?;
    work::runtime()?.block_on(async {
        let longhaul = work::open(settings).await?;
        longhaul.pause(dir, &command.asking.by(), &command.reason).await?;
        let next = format!("paused; a run stops at its next step. longhaul resume --dir {}", dir.display());
        said(global, &json!({ "paused": true }), &next)
    })
}

/// Runs `longhaul take-over`.
pub(crate) fn take_over(global: &Global, command: &TakeOver) -> anyhow::Result<Exit> {
    let dir = &command.asking.dir;
    let settings = global.settings(Some(dir), &[])?;
    work::runtime()?.block_on(async {
        let longhaul = work::open(settings).await?;
        let cancel = CancellationToken::new();
        let mut progress = global.progress();
        let by = command.asking.by();
        let taking = longhaul.take_folder(dir, &by, &command.reason, cancel.clone());
        let outcome = work::watch(&longhaul, &mut progress, &cancel, taking).await;
        progress.finish();
        let ending = outcome?;
        if ending == Ending::Interrupted {
            let line = "not yet: the order stands, and the run that has the folder will end; ask again to wait for it";
            said(global, &json!({ "taken_over": false }), line)?;
            return Ok(Exit::Interrupted);
        }
        let line = format!("the folder is yours; longhaul resume --dir {} gives it back", dir.display());
        said(global, &json!({ "taken_over": true, "ending": ending }), &line)
    })
}

/// Runs `longhaul resume`.
pub(crate) fn resume(global: &Global, command: &Resume) -> anyhow::Result<Exit> {
    let dir = &command.asking.dir;
    let settings = global.settings(Some(dir), &[])?;
    work::runtime()?.block_on(async {
        let longhaul = work::open(settings).await?;
        let resumed = longhaul.resume(dir, &command.asking.by()).await?;
        let mut verdicts = Vec::new();
        if resumed.was_taken_over() && !command.no_verify {
            let request = VerifyRequest { only_passing: true, ..VerifyRequest::of(dir) };
            verdicts = longhaul.verify(&request, |_| {}).await?;
        }
        let broken: Vec<&str> = verdicts.iter().filter(|v| !v.passed).map(|v| v.feature.as_str()).collect();
        let mut line = match (resumed.lifted.is_empty(), &resumed.commit) {
            (true, _) => "nothing stopped this project".to_owned(),
            (false, Some(commit)) => format!("your changes are commit {commit}"),
            (false, None) => "it goes on as it was".to_owned(),
        };
        if !verdicts.is_empty() {
            line = format!("{line}; {} verified again, {} broken", verdicts.len(), broken.len());
        }
        let object = json!({ "resumed": resumed, "verified": verdicts.len(), "broken": broken });
        said(global, &object, &format!("{line}\n  next: longhaul run --dir {}", dir.display()))
    })
}

fn said(global: &Global, object: &serde_json::Value, line: &str) -> anyhow::Result<Exit> {
    if global.json {
        print_line(&object.to_string())?;
    } else {
        print_line(&format!("{} {line}", global.style().glyph(Glyph::Pass)))?;
    }
    Ok(Exit::Done)
}

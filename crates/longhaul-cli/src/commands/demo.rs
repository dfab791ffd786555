//! `longhaul demo`: the main job from end to end with replies from a cassette, so that it needs no model and no key.

use std::{
    fs::DirBuilder,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

use anyhow::Context;
use clap::{Args, Subcommand};
use longhaul::{
    CancellationToken, Cassette, DEMO_CASSETTE, DEMO_OF_DOCUMENTS, DEMO_OF_RESEARCH, Ending, InitRequest, Longhaul,
    LonghaulError, Profile, RunLimits, RunReport,
};

use super::{demo_network, work};
use crate::{
    args::Global,
    exit::{Exit, Refusal},
    progress::{Ink, Progress, print_line},
};

/// Watch an application being built and verified, without a model or a key
///
/// Plans and builds a chat application in a new folder. The model's replies come from a cassette; everything else is
/// real: the files, the sandboxed commands, the browser, the verdicts, the commits, the memories. Interrupted, it goes
/// on when asked again.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Demo {
    #[command(subcommand)]
    other: Option<OtherDemo>,
    /// The folder to build it in [default: longhaul-demo, or the next free longhaul-demo-N]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Play another story; docs/cassettes.md tells how to write one
    #[arg(long, value_name = "FILE", conflicts_with = "profile")]
    cassette: Option<PathBuf>,
    /// Who works in coding sessions: own, or acp:COMMAND for an agent served by the same cassette
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
    /// Play the story of another kind of work: research (a review that cites its sources) or documents (a financial model)
    #[arg(long, value_name = "NAME", default_value = "software")]
    profile: Profile,
}

/// Another demonstration than that of the main job.
#[derive(Debug, Subcommand)]
enum OtherDemo {
    Network(demo_network::DemoNetwork),
}

/// What is said before and after, always.
const HONESTY: &str = "replies come from a cassette, everything else is real";

/// Runs the command.
pub(crate) fn run(global: &Global, command: &Demo) -> anyhow::Result<Exit> {
    if let Some(OtherDemo::Network(network)) = &command.other {
        return demo_network::run(global, network);
    }
    let told = told_by_profile(global, command)?;
    let (spec, request) = story(command.cassette.as_deref().or(told.as_deref()))?;
    let flags =
        [("model.spec", Some(spec.as_str()), "--cassette"), ("harness.agent", command.agent.as_deref(), "--agent")];
    let settings = global.settings(command.dir.as_deref(), &flags)?;
    work::runtime()?.block_on(async {
        let longhaul = work::open(settings).await?;
        let dir = match &command.dir {
            Some(dir) => dir.clone(),
            None => next_folder(&longhaul).await?,
        };
        let cancel = CancellationToken::new();
        let mut progress = global.progress();
        let style = global.style();
        progress.say(&format!("{}  {request}", style.paint(Ink::Strong, "longhaul demo")))?;
        progress.say(&style.paint(Ink::Faint, &format!("in {}; {HONESTY}", dir.display())))?;
        let outcome = build(&longhaul, &mut progress, &cancel, &dir, (&request, command.profile)).await;
        progress.finish();
        let report = outcome?;
        let exit = work::conclude(global, &report)?;
        if report.ending == Ending::Done {
            let page = longhaul.report(&dir, &super::report::beside(&dir)).await?;
            if !global.json {
                print_line(&format!("        {}", page.path.display()))?;
            }
        }
        if !global.json && report.ending == Ending::Done {
            if command.profile == Profile::Software {
                print_line(&format!("        {}/init.sh, then open http://127.0.0.1:8000", report.dir.display()))?;
            }
            print_line(&style.paint(Ink::Strong, HONESTY))?;
        }
        Ok(exit)
    })
}

/// The story of another profile as a file in the home, where a project begun with it finds it again.
fn told_by_profile(global: &Global, command: &Demo) -> anyhow::Result<Option<PathBuf>> {
    let text = match command.profile {
        Profile::Software => return Ok(None),
        Profile::Research => DEMO_OF_RESEARCH,
        Profile::Documents => DEMO_OF_DOCUMENTS,
    };
    let home = global.settings(command.dir.as_deref(), &[])?.home;
    let file = home.join(format!("demo-{}.cassette.toml", command.profile));
    // As the store makes it: for nobody else.
    let mut folder = DirBuilder::new();
    folder.recursive(true).mode(0o700);
    folder.create(&home).with_context(|| format!("cannot make {}", home.display()))?;
    std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(Some(file))
}

/// The model to use, and the request which the story answers.
fn story(cassette: Option<&Path>) -> anyhow::Result<(String, String)> {
    let (spec, cassette) = match cassette {
        None => ("cassette:demo".to_owned(), Cassette::parse(DEMO_CASSETTE, "the demo's cassette")?),
        Some(file) => {
            let name = file.to_str().ok_or_else(|| {
                Refusal::because(Exit::Usage, "--cassette: the path is not UTF-8; give the file another name")
            })?;
            (format!("cassette:{name}"), Cassette::load(file).map_err(LonghaulError::from)?)
        }
    };
    let request = cassette.request().map(str::to_owned).ok_or_else(|| {
        Refusal::because(
            Exit::Usage,
            "the cassette has no `request` line, which is what the demo asks for; add one at its top",
        )
    })?;
    Ok((spec, request))
}

/// Plans unless that is done already, then builds to the end.
async fn build(
    longhaul: &Longhaul,
    progress: &mut Progress,
    cancel: &CancellationToken,
    dir: &Path,
    (request, profile): (&str, Profile),
) -> anyhow::Result<RunReport> {
    let asked = InitRequest { profile, ..InitRequest::new(request, dir) };
    match work::watch(longhaul, progress, cancel, longhaul.init(asked, cancel.clone())).await {
        Ok(planned) if planned.ending == Ending::Planned => {}
        Ok(stopped) => return Ok(stopped),
        Err(error) if matches!(error.downcast_ref(), Some(LonghaulError::AlreadyPlanned { .. })) => {}
        Err(error) => return Err(error),
    }
    work::watch(longhaul, progress, cancel, longhaul.run(dir, RunLimits::default(), cancel.clone())).await
}

/// The first of `longhaul-demo`, `longhaul-demo-2`, … that is free or was interrupted.
async fn next_folder(longhaul: &Longhaul) -> anyhow::Result<PathBuf> {
    for number in 1_u32.. {
        let name = if number == 1 { "longhaul-demo".to_owned() } else { format!("longhaul-demo-{number}") };
        let dir = PathBuf::from(name);
        if !dir.exists() {
            return Ok(dir);
        }
        match longhaul.status(&dir).await {
            Ok(status) if status.phase != "done" => return Ok(dir),
            Ok(_)
            | Err(
                LonghaulError::NotAProject { .. }
                | LonghaulError::FolderIsCopy { .. }
                | LonghaulError::OtherHome { .. },
            ) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Refusal::because(Exit::Usage, "every longhaul-demo-N is taken; name a folder with --dir"))
}

//! `longhaul doctor`: tries everything the work needs, on this machine, and says how to get what is missing. It changes
//! nothing but a probe file in the home folder, which it removes.

mod probes;

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use crate::{
    args::Global,
    exit::Exit,
    progress::{Glyph, Ink, Style, print_line},
};

/// Check that this machine has everything, and say how to get what is missing
///
/// Everything is really tried: a command runs in the sandbox, the browser opens a page. Exits with 4 if something
/// required is missing.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// The project whose longhaul.toml counts
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
}

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    /// It is there and works.
    Ok,
    /// It is not there, and the work can be done without it, or only some of it needs it.
    Optional,
    /// It is not there, and nothing can be built without it.
    Missing,
}

/// One thing that was checked.
#[derive(Debug, Serialize)]
pub(crate) struct Check {
    /// What: `git`.
    pub(crate) name: &'static str,
    /// How it ended.
    pub(crate) state: State,
    /// What was found, or what went wrong.
    pub(crate) found: String,
    /// What to type to get it; absent when it is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) remedy: Option<String>,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    ok: bool,
    checks: &'a [Check],
}

/// Runs the command.
pub(crate) fn run(global: &Global, command: &Doctor) -> anyhow::Result<Exit> {
    let settings = global.settings(Some(&command.dir), &[])?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let checks = runtime.block_on(probes::all(&settings));
    let ok = checks.iter().all(|check| check.state != State::Missing);
    if global.json {
        print_line(&serde_json::to_string_pretty(&Report { ok, checks: &checks })?)?;
    } else {
        print(global.style(), &checks)?;
    }
    Ok(if ok { Exit::Done } else { Exit::Environment })
}

fn print(style: Style, checks: &[Check]) -> std::io::Result<()> {
    for check in checks {
        let (glyph, ink) = match check.state {
            State::Ok => (Glyph::Pass, None),
            State::Optional => (Glyph::Notice, Some(Ink::Notice)),
            State::Missing => (Glyph::Fail, Some(Ink::Bad)),
        };
        let found = ink.map_or_else(|| check.found.clone(), |ink| style.paint(ink, &check.found));
        print_line(&format!("{} {:<16} {found}", style.glyph(glyph), check.name))?;
        if let Some(remedy) = &check.remedy {
            print_line(&format!("  {:<16} {}", "", style.paint(Ink::Strong, remedy)))?;
        }
    }
    let missing = checks.iter().filter(|check| check.state == State::Missing).count();
    print_line("")?;
    print_line(&match missing {
        0 => "everything required is here".to_owned(),
        1 => "1 thing is missing; after getting it, run `longhaul doctor` again".to_owned(),
        _ => format!("{missing} things are missing; after getting them, run `longhaul doctor` again"),
    })
}

//! `longhaul skills`: which skills an agent would find, and whether a folder is one.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use longhaul::tools::skills::{self, SkillOrigin, Skills};
use serde_json::json;

use super::at_store::below;
use crate::{
    args::Global,
    exit::Exit,
    progress::{Ink, print_line},
};

/// List and check Agent Skills: folders with a SKILL.md
#[derive(Debug, Args)]
pub(crate) struct SkillsArgs {
    #[command(subcommand)]
    command: SkillsCommand,
}

#[derive(Debug, Subcommand)]
enum SkillsCommand {
    List(List),
    Validate(Validate),
}

/// List the skills that the agent of a project finds: the user's and the project's own
///
/// Yours are in ~/.config/longhaul/skills and ~/.claude/skills, a project's in .longhaul/skills and .claude/skills.
#[derive(Debug, Args)]
struct List {
    /// The project
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
}

/// Say whether folders are skills, and why not (exit code 1)
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  longhaul skills validate ~/.config/longhaul/skills/house-style")]
struct Validate {
    /// Folders with a SKILL.md
    #[arg(value_name = "FOLDER", required = true)]
    folders: Vec<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(global: &Global, args: &SkillsArgs) -> anyhow::Result<Exit> {
    match &args.command {
        SkillsCommand::List(command) => list(global, command),
        SkillsCommand::Validate(command) => validate(global, command),
    }
}

fn list(global: &Global, command: &List) -> anyhow::Result<Exit> {
    let settings = global.settings(Some(&command.dir), &[])?;
    let mut folders: Vec<_> = settings.skills.into_iter().map(|folder| (folder, SkillOrigin::User)).collect();
    folders.extend(Skills::of_project(&command.dir));
    let found = Skills::read(&folders);
    if global.json {
        for skill in found.all() {
            let line = json!({
                "name": skill.name, "description": skill.description, "origin": skill.origin, "folder": skill.folder,
            });
            print_line(&line.to_string())?;
        }
        for broken in found.broken() {
            print_line(&json!({ "folder": broken.folder, "problems": broken.problems }).to_string())?;
        }
        return Ok(Exit::Done);
    }
    let style = global.style();
    for skill in found.all() {
        let whose = if skill.origin == SkillOrigin::Project { " (project)" } else { "" };
        print_line(&style.paint(Ink::Strong, &format!("{}{whose}", skill.name)))?;
        print_line(&below(style, None, &skill.description))?;
        print_line(&below(style, Some(Ink::Faint), &skill.folder.display().to_string()))?;
    }
    for broken in found.broken() {
        print_line(&format!("not used: {}", broken.folder.display()))?;
        for problem in &broken.problems {
            print_line(&below(style, None, problem))?;
        }
    }
    if found.all().is_empty() && found.broken().is_empty() {
        print_line("no skills; put a folder with a SKILL.md into one of:")?;
        for (folder, _) in &folders {
            print_line(&below(style, None, &folder.display().to_string()))?;
        }
    }
    Ok(Exit::Done)
}

fn validate(global: &Global, command: &Validate) -> anyhow::Result<Exit> {
    let style = global.style();
    let mut exit = Exit::Done;
    for folder in &command.folders {
        let judged = match folder.canonicalize() {
            Ok(folder) => skills::check(&folder),
            Err(error) => Err(vec![format!("the folder cannot be opened: {error}")]),
        };
        let problems = judged.err().unwrap_or_default();
        if !problems.is_empty() {
            exit = Exit::Failed;
        }
        if global.json {
            let line = json!({ "folder": folder, "valid": problems.is_empty(), "problems": problems });
            print_line(&line.to_string())?;
            continue;
        }
        let word = if problems.is_empty() { "a skill" } else { "not a skill" };
        print_line(&format!("{}: {word}", folder.display()))?;
        for problem in &problems {
            print_line(&below(style, None, problem))?;
        }
    }
    Ok(exit)
}

//! `longhaul knowledge list` and `versions`: which corpora there are, and what changed between their versions.

use std::collections::BTreeMap;

use clap::Args;
use longhaul::{
    Memories,
    knowledge::{CorpusName, CorpusRef, State, Version},
};
use serde_json::json;

use super::place::{Model, PlaceFlags};
use crate::{
    args::Global,
    exit::Exit,
    progress::{Glyph, Ink, count, print_line},
};

/// List the corpora, with their newest version
#[derive(Debug, Args)]
pub(super) struct List {
    #[command(flatten)]
    place: PlaceFlags,
}

/// List a corpus's versions, its files, or what changed between two versions
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  longhaul knowledge versions guide
  longhaul knowledge versions guide --files           the newest version's files, and those left out
  longhaul knowledge versions guide@1 --files
  longhaul knowledge versions guide --diff 1 2")]
pub(super) struct Versions {
    /// The corpus, or a version of it
    #[arg(value_name = "NAME[@VERSION]")]
    corpus: String,
    /// Its files instead
    #[arg(long)]
    files: bool,
    /// What was added, changed and removed from one version to another
    #[arg(long, num_args = 2, value_names = ["OLDER", "NEWER"], conflicts_with = "files")]
    diff: Option<Vec<u32>>,
    #[command(flatten)]
    place: PlaceFlags,
}

/// Runs `list`.
pub(super) async fn list(global: &Global, command: &List) -> anyhow::Result<Exit> {
    let memories = command.place.open(global, Model::Unused, true).await?;
    let versions = memories.knowledge().versions(memories.scope()).await?;
    if global.json {
        print_line(&serde_json::to_string(&versions)?)?;
        return Ok(Exit::Done);
    }
    let mut corpora: BTreeMap<CorpusName, Vec<Version>> = BTreeMap::new();
    for version in versions {
        corpora.entry(version.corpus.clone()).or_default().push(version);
    }
    if corpora.is_empty() {
        print_line("no corpora yet; `longhaul knowledge add PATH --corpus NAME` makes one")?;
    }
    for versions in corpora.values() {
        let newest = versions.iter().rev().find(|version| version.state == State::Ready).or(versions.last());
        if let Some(newest) = newest {
            print_line(&line(global, &memories, newest))?;
        }
        let older = versions.len() - 1;
        if older > 0 {
            let others = format!("     and {}", count(older as u64, "other version"));
            print_line(&global.style().paint(Ink::Faint, &others))?;
        }
    }
    Ok(Exit::Done)
}

/// Runs `versions`.
pub(super) async fn versions(global: &Global, command: &Versions) -> anyhow::Result<Exit> {
    let meant: CorpusRef = command.corpus.parse()?;
    let memories = command.place.open(global, Model::Unused, true).await?;
    if let Some(numbers) = &command.diff {
        return difference(global, &memories, &meant.name, numbers[0], numbers[1]).await;
    }
    if command.files {
        return files(global, &memories, &meant).await;
    }
    let newest = memories.knowledge().resolve(memories.scope(), &meant).await;
    let all = memories.knowledge().versions(memories.scope()).await?;
    let of_name: Vec<&Version> = all.iter().filter(|version| version.corpus == meant.name).collect();
    if of_name.is_empty() {
        newest?;
    }
    if global.json {
        print_line(&serde_json::to_string(&of_name)?)?;
        return Ok(Exit::Done);
    }
    for version in of_name {
        print_line(&line(global, &memories, version))?;
    }
    Ok(Exit::Done)
}

fn line(global: &Global, memories: &Memories, version: &Version) -> String {
    let style = global.style();
    let dot = style.dot();
    let mut facts = vec![count(version.files, "file"), count(version.chunks, "passage")];
    if version.refused > 0 {
        facts.push(format!("{} left out", version.refused));
    }
    facts.push(memories.zone().minute(version.completed_at.unwrap_or(version.created_at)));
    let mark = match version.state {
        State::Ready => style.glyph(Glyph::Pass),
        State::Building | State::Removed => {
            facts.push("not complete: add the same path again to go on".to_owned());
            style.glyph(Glyph::Notice)
        }
    };
    facts.push(version.source.clone());
    let name = format!("{}@{}", version.corpus, version.version);
    format!("{mark} {} {}", style.paint(Ink::Strong, &name), style.fit_after(name.len() + 3, &facts.join(dot)))
}

async fn files(global: &Global, memories: &Memories, meant: &CorpusRef) -> anyhow::Result<Exit> {
    let files = memories.knowledge().files(memories.scope(), meant).await?;
    if global.json {
        print_line(&serde_json::to_string(&files)?)?;
        return Ok(Exit::Done);
    }
    let style = global.style();
    for file in &files {
        let line = match &file.problem {
            None => format!("{:>5} {}  {}", file.chunks, file.name, style.paint(Ink::Faint, &file.format)),
            Some(problem) => format!("    {} {}: {problem}", style.glyph(Glyph::Notice), file.name),
        };
        print_line(&line)?;
    }
    Ok(Exit::Done)
}

async fn difference(
    global: &Global,
    memories: &Memories,
    name: &CorpusName,
    older: u32,
    newer: u32,
) -> anyhow::Result<Exit> {
    let found = memories.knowledge().difference(memories.scope(), name, older, newer).await?;
    if global.json {
        print_line(&json!(found).to_string())?;
        return Ok(Exit::Done);
    }
    for (mark, names) in [("+", &found.added), ("~", &found.changed), ("-", &found.removed)] {
        for file in names {
            print_line(&format!("{mark} {file}"))?;
        }
    }
    let unchanged = count(found.unchanged, "unchanged file");
    print_line(&global.style().paint(Ink::Faint, &unchanged))?;
    Ok(Exit::Done)
}

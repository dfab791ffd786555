//! `longhaul memory forget`: shows what would go, asks, erases, and gives the receipt.

use std::io::{IsTerminal, Write, stderr, stdin};

use clap::Args;
use longhaul::{Forgetting, Memories, MemoryId, memory::Item};
use serde_json::json;

use super::{
    filters::FilterFlags,
    place::{Model, PlaceFlags},
    show::{self, thousands},
};
use crate::{
    args::Global,
    exit::{Exit, Refusal},
    progress::{Glyph, Ink, print_line},
};

/// Erase memories for good, and get a receipt
///
/// Shows what would go, then asks; without a terminal it needs --yes. Erased are the rows and everything derived from
/// them: keywords, vectors, cold segments, remote indexes. The receipt says what was erased where, what is still to be
/// done elsewhere, and what it does not cover: backups, and the log of executions. What is to be kept as history should
/// not be forgotten but superseded: `longhaul memory add --subject … --attribute …`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  longhaul memory forget mem_0192…
  longhaul memory forget --subject ada --dry-run
  longhaul memory forget --thread incident-7 --until 2026-01 --yes
  longhaul memory forget --query \"Ada's address\" -k 3
  longhaul memory forget --collection imported --yes --json > receipt.json")]
pub(super) struct Forget {
    /// Ids of memories
    #[arg(value_name = "ID")]
    ids: Vec<MemoryId>,
    /// Those that answer this best; see -k, and look at what is shown
    #[arg(long, value_name = "QUESTION", conflicts_with = "ids")]
    query: Option<String>,
    /// With --query: the best so many
    #[arg(short, long, value_name = "N", default_value_t = 10)]
    k: usize,
    /// Show what would go, and erase nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not ask
    #[arg(long, short, conflicts_with = "dry_run")]
    yes: bool,
    #[command(flatten)]
    filters: FilterFlags,
    #[command(flatten)]
    place: PlaceFlags,
}

/// Memories shown before it is asked.
const SHOWN: usize = 20;

/// Runs the command.
pub(super) async fn run(global: &Global, command: &Forget) -> anyhow::Result<Exit> {
    let forgetting = match (&command.query, command.ids.is_empty()) {
        (Some(question), _) => {
            Forgetting::Answers { question: question.clone(), k: command.k, filters: command.filters.given() }
        }
        (None, false) => Forgetting::Ids(command.ids.clone()),
        (None, true) if command.filters.narrows() => Forgetting::Matching(command.filters.given()),
        (None, true) => return Err(longhaul::MemoriesError::NothingToForget.into()),
    };
    let model = if command.query.is_some() { Model::Wanted } else { Model::Unused };
    let memories = command.place.open(global, model, false).await?;
    let doomed = memories.doomed(&forgetting).await?;
    if doomed.is_empty() {
        return nothing(global);
    }
    if command.dry_run {
        return tell_dry(global, &memories, &doomed);
    }
    if !command.yes {
        ask(global, &memories, &doomed)?;
    }
    let ids: Vec<MemoryId> = doomed.into_iter().map(|item| item.id).collect();
    let receipt = memories.forget(&ids).await?;
    if global.json {
        print_line(&serde_json::to_string(&receipt)?)?;
        return Ok(Exit::Done);
    }
    let style = global.style();
    for line in longhaul::receipt_lines(&receipt, memories.zone()) {
        print_line(&format!("{} {}", style.glyph(Glyph::Pass), style.fit_after(2, &line)))?;
    }
    Ok(Exit::Done)
}

fn nothing(global: &Global) -> anyhow::Result<Exit> {
    if global.json {
        print_line(&json!({ "erased": 0 }).to_string())?;
    } else {
        print_line("no memories like that; nothing was forgotten")?;
    }
    Ok(Exit::Done)
}

fn tell_dry(global: &Global, memories: &Memories, doomed: &[Item]) -> anyhow::Result<Exit> {
    if global.json {
        let ids: Vec<&MemoryId> = doomed.iter().map(|item| &item.id).collect();
        print_line(&json!({ "dry_run": true, "would_erase": ids }).to_string())?;
        return Ok(Exit::Done);
    }
    for line in listed(global, memories, doomed, doomed.len()) {
        print_line(&line)?;
    }
    let many = thousands(doomed.len() as u64);
    print_line(&format!("{many} would be erased; nothing was. Without --dry-run it is asked, with --yes it is done"))?;
    Ok(Exit::Done)
}

fn listed(global: &Global, memories: &Memories, doomed: &[Item], most: usize) -> Vec<String> {
    let style = global.style();
    let lead = style.glyph(Glyph::Fail);
    let mut lines: Vec<String> =
        doomed.iter().take(most).flat_map(|item| show::lines(style, memories, &lead, item, false)).collect();
    if doomed.len() > most {
        let rest = thousands((doomed.len() - most) as u64);
        lines.push(style.paint(Ink::Faint, &format!("  and {rest} more: --dry-run shows all")));
    }
    lines
}

/// Shows what would go on standard error and waits for a yes.
fn ask(global: &Global, memories: &Memories, doomed: &[Item]) -> anyhow::Result<()> {
    let many = match doomed.len() {
        1 => "1 memory".to_owned(),
        many => format!("{} memories", thousands(many as u64)),
    };
    if !stdin().is_terminal() || global.json {
        let said =
            format!("{many} would be erased for good, and nobody is there to ask; look with --dry-run, then add --yes");
        return Err(Refusal::because(Exit::Usage, said));
    }
    let mut err = stderr().lock();
    for line in listed(global, memories, doomed, SHOWN) {
        writeln!(err, "{line}")?;
    }
    write!(err, "erase {many} for good? [y/N] ")?;
    err.flush()?;
    let mut answer = String::new();
    stdin().read_line(&mut answer)?;
    if matches!(answer.trim().to_lowercase().as_str(), "y" | "yes") {
        return Ok(());
    }
    Err(Refusal::because(Exit::Interrupted, "nothing was forgotten"))
}

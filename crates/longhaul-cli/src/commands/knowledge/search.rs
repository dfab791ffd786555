//! `longhaul knowledge search`: passages with the place they stand in.

use clap::Args;
use longhaul::knowledge::{CorpusRef, KnowledgeQuery};

use super::place::{Model, PlaceFlags};
use crate::{
    args::Global,
    exit::Exit,
    progress::{Ink, print_line},
};

/// Find passages, with what to cite
///
/// Searches the newest version of each corpus, or those that are named, by words and by meaning. Prints the best first:
/// score, corpus@version path:lines (or page), the headings above, and the passage.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  longhaul knowledge search \"how are retries bounded?\" -k 3
  longhaul knowledge search retries --corpus guide@1 --corpus papers --json")]
pub(super) struct Search {
    /// What to find out, in any words
    #[arg(value_name = "QUESTION")]
    text: String,
    /// The best so many, at most 200
    #[arg(short, long, value_name = "N", default_value_t = 5)]
    k: usize,
    /// Only this corpus, NAME or NAME@VERSION; may be given several times
    #[arg(long, value_name = "NAME[@VERSION]")]
    corpus: Vec<String>,
    /// Show how each score came about
    #[arg(long)]
    explain: bool,
    #[command(flatten)]
    place: PlaceFlags,
}

/// Runs the command.
pub(super) async fn run(global: &Global, command: &Search) -> anyhow::Result<Exit> {
    let corpora = command.corpus.iter().map(|name| name.parse::<CorpusRef>()).collect::<Result<Vec<_>, _>>()?;
    let memories = command.place.open(global, Model::Wanted, false).await?;
    let query = KnowledgeQuery { text: command.text.clone(), k: command.k, corpora };
    let answer = memories.knowledge().search(memories.scope(), &query).await?;
    if global.json {
        print_line(&serde_json::to_string(&answer)?)?;
        return Ok(Exit::Done);
    }
    let style = global.style();
    for passage in &answer.passages {
        let lead = format!("{:.2}", passage.score);
        let heading = if passage.heading.is_empty() { String::new() } else { format!("  {}", passage.heading) };
        let about = style.fit_after(lead.len() + 1, &format!("{}{heading}", passage.citation));
        print_line(&format!("{} {}", style.paint(Ink::Strong, &lead), style.paint(Ink::Faint, &about)))?;
        for line in passage.text.lines() {
            let printable: String = line.chars().map(|char| if char.is_control() { ' ' } else { char }).collect();
            print_line(&format!("     {printable}"))?;
        }
        if command.explain {
            print_line(&style.paint(Ink::Faint, &format!("     {}", serde_json::to_string(&passage.explain)?)))?;
        }
    }
    if answer.passages.is_empty() {
        print_line(&format!("nothing in {} answers that", answer.searched.join(", ")))?;
    }
    if let longhaul::memory::Mode::Keyword { reason } = &answer.mode {
        print_line(&style.paint(Ink::Faint, &format!("searched by words only: {reason}")))?;
    }
    for note in &answer.notes {
        print_line(&style.paint(Ink::Faint, note))?;
    }
    Ok(Exit::Done)
}

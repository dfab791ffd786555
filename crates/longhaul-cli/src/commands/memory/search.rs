//! `longhaul memory search`: the memories that answer a question best, and why.

use clap::Args;
use longhaul::memory::{Mode, Recall};

use super::{
    filters::FilterFlags,
    place::{Model, PlaceFlags},
    show,
};
use crate::{
    args::Global,
    exit::Exit,
    progress::{Glyph, Ink, Style, print_line},
};

/// Find memories by words, by meaning, and by what is known about them
///
/// One search does all of it: the words of the question with their stems (in Chinese, Japanese and Korean by
/// characters), its meaning where the embedding model is installed, neighbours of the same conversation, importance and
/// age. Filters are applied before anything is scored. Prints the best first: score, day, whose words, kind, id, and
/// the beginning of the text. Searching changes nothing.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  longhaul memory search \"what does Ada drink\"
  longhaul memory search \"authentication problems\" --when \"last week\" --kind lesson --kind episode
  longhaul memory search 会话 --where session>=3 -k 3 --explain
  longhaul memory search \"where does Ada live\" --as-of 2024-01-01
  longhaul memory search \"where does Ada live\" --known-at \"last month\" --history
  longhaul memory search \"deploy\" --json | jq -r '.hits[].item.content'")]
pub(super) struct Search {
    /// What to look for, in any words and any language
    #[arg(value_name = "QUESTION")]
    text: String,
    /// The best so many, at most 200
    #[arg(short, long, value_name = "N", default_value_t = 10)]
    k: usize,
    /// Show how each score came about
    #[arg(long)]
    explain: bool,
    /// Show texts whole, not the first line's worth
    #[arg(long)]
    full: bool,
    /// Every memory by itself: neighbours in its conversation do not weigh in
    #[arg(long)]
    no_context: bool,
    #[command(flatten)]
    filters: FilterFlags,
    #[command(flatten)]
    place: PlaceFlags,
}

/// Runs the command.
pub(super) async fn run(global: &Global, command: &Search) -> anyhow::Result<Exit> {
    let memories = command.place.open(global, Model::Wanted, false).await?;
    let mut query = memories.query(&command.text, command.k, &command.filters.given())?;
    query.context = !command.no_context;
    let recall = memories.search(&query).await?;
    if global.json {
        print_line(&serde_json::to_string(&recall)?)?;
        return Ok(Exit::Done);
    }
    let style = global.style();
    for hit in &recall.hits {
        let lead = format!("{:.2}", hit.score);
        for line in show::lines(style, &memories, &lead, &hit.item, command.full) {
            print_line(&line)?;
        }
        if command.explain {
            for line in show::explanation(hit) {
                print_line(&style.paint(Ink::Faint, &line))?;
            }
        }
    }
    for line in summary(style, &recall) {
        print_line(&line)?;
    }
    Ok(Exit::Done)
}

fn summary(style: Style, recall: &Recall) -> Vec<String> {
    let considered = show::thousands(recall.considered as u64);
    let found = match recall.hits.len() {
        0 if recall.considered == 0 => "no memory passes these filters".to_owned(),
        0 => format!("none of {considered} memories answers that"),
        many => format!("{many} of {considered} {}", if recall.considered == 1 { "memory" } else { "memories" }),
    };
    let took = |us: u64| format!("{}.{} ms", us / 1_000, us % 1_000 / 100);
    let how = match &recall.mode {
        Mode::Hybrid => format!(
            "by words and meaning, {} and {} to embed the question",
            took(recall.elapsed_us),
            took(recall.embedded_us)
        ),
        Mode::Keyword { .. } => format!("by words, {}", took(recall.elapsed_us)),
    };
    let mut lines = vec![style.paint(Ink::Faint, &style.fit_after(0, &format!("{found}{}{how}", style.dot())))];
    let note = |text: &str| format!("{} {}", style.glyph(Glyph::Notice), style.fit_after(2, text));
    if let Mode::Keyword { reason } = &recall.mode {
        lines.push(note(&format!("not by meaning: {reason}")));
    } else if recall.unembedded > 0 {
        let many = show::thousands(recall.unembedded as u64);
        lines.push(note(&format!("{many} not embedded yet, found by words alone: longhaul memory index")));
    }
    lines.extend(recall.notes.iter().map(|text| note(text)));
    lines
}

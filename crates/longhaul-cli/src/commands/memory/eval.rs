//! `longhaul memory eval`: how well memories of one's own are found.

use std::path::PathBuf;

use clap::Args;
use longhaul::{Evaluation, Missed, questions};

use super::{
    filters::FilterFlags,
    place::{Model, PlaceFlags},
    show,
};
use crate::{
    args::Global,
    exit::Exit,
    progress::{Glyph, Ink, print_line},
};

/// Measure how well your memories are found, with questions of your own
///
/// Asks every question and looks at which place what was expected stands: recall at 1, 5, 10, 20 and 50, the mean
/// reciprocal rank, and how long a search took. Run it before and after changing a model or a setting. Changes nothing.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  longhaul memory eval questions.jsonl
  longhaul memory eval questions.jsonl -n research --json | jq .recall

A line of the file:
  {\"question\": \"what does Ada drink\", \"expect\": [\"Ada prefers tea\"]}
  What is expected is a part of a memory's text, a memory's id, or the id it was imported with.")]
pub(super) struct Eval {
    /// Questions, one JSON object a line
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    filters: FilterFlags,
    #[command(flatten)]
    place: PlaceFlags,
}

/// Missed questions shown on a page.
const MISSED_SHOWN: usize = 10;

/// Runs the command.
pub(super) async fn run(global: &Global, command: &Eval) -> anyhow::Result<Exit> {
    let asked = questions(&command.file)?;
    let memories = command.place.open(global, Model::Wanted, false).await?;
    let bar = global.spinner("asking");
    let (shown, all) = (bar.clone(), asked.len());
    let done =
        memories.evaluate(&asked, &command.filters.given(), |done| shown.set_message(format!("{done} of {all}"))).await;
    bar.finish_and_clear();
    let done = done?;
    if global.json {
        print_line(&serde_json::to_string(&done)?)?;
        return Ok(Exit::Done);
    }
    tell(global, &done)
}

fn tell(global: &Global, done: &Evaluation) -> anyhow::Result<Exit> {
    let style = global.style();
    let percent = |share: f64| format!("{:.1}", share * 100.0);
    let recall: Vec<String> = done.recall.iter().map(|(k, share)| format!("R@{k} {}", percent(*share))).collect();
    let many = if done.questions == 1 {
        "1 question".to_owned()
    } else {
        format!("{} questions", show::thousands(done.questions as u64))
    };
    print_line(&format!("{} {many}", style.glyph(Glyph::Pass)))?;
    print_line(&format!("  {}", recall.join("  ")))?;
    print_line(&format!("  mean reciprocal rank {}", percent(done.mean_reciprocal_rank)))?;
    let ms = |us: u64| format!("{}.{} ms", us / 1_000, us % 1_000 / 100);
    print_line(&format!("  p50 {}, p99 {}", ms(done.p50_us), ms(done.p99_us)))?;
    if let Some(reason) = &done.words_only {
        print_line(&format!(
            "{} {}",
            style.glyph(Glyph::Notice),
            style.fit_after(2, &format!("by words alone: {reason}"))
        ))?;
    }
    for Missed { line, question, expected } in done.missed.iter().take(MISSED_SHOWN) {
        print_line(&format!(
            "{} {}",
            style.glyph(Glyph::Fail),
            style.fit_after(2, &format!("line {line}: {question}"))
        ))?;
        for (wanted, place) in expected {
            let place = place.map_or_else(|| "not found".to_owned(), |place| format!("at {place}"));
            print_line(
                &style.paint(Ink::Faint, &format!("    {}", style.fit_after(4, &format!("{place}: {wanted}")))),
            )?;
        }
    }
    if done.missed.len() > MISSED_SHOWN {
        print_line(&format!("  and {} more: --json", done.missed.len() - MISSED_SHOWN))?;
    }
    Ok(Exit::Done)
}

//! `longhaul memory list`: what is there, without asking for anything.

use clap::Args;
use serde_json::json;

use super::{
    filters::FilterFlags,
    place::{Model, PlaceFlags},
    show,
};
use crate::{
    args::Global,
    exit::Exit,
    progress::{Ink, print_line},
};

/// List memories in the order in which they were written
///
/// With --json, one object a line; the last line holds `next` if there are more.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  longhaul memory list --since yesterday
  longhaul memory list --tag ada --kind fact --history
  longhaul memory list --where !reviewed --limit 200 --json | jq -r .id")]
pub(super) struct List {
    /// At most so many, 1 to 200
    #[arg(long, value_name = "N", default_value_t = 30)]
    limit: usize,
    /// Go on after a page: what the page before said
    #[arg(long, value_name = "PLACE")]
    after: Option<String>,
    /// Show texts whole
    #[arg(long)]
    full: bool,
    #[command(flatten)]
    filters: FilterFlags,
    #[command(flatten)]
    place: PlaceFlags,
}

/// Runs the command.
pub(super) async fn run(global: &Global, command: &List) -> anyhow::Result<Exit> {
    let memories = command.place.open(global, Model::Unused, false).await?;
    let page = memories.list(&command.filters.given(), command.limit, command.after.as_deref()).await?;
    let style = global.style();
    for item in &page.items {
        if global.json {
            print_line(&serde_json::to_string(item)?)?;
            continue;
        }
        for line in show::lines(style, &memories, style.dot().trim(), item, command.full) {
            print_line(&line)?;
        }
    }
    match (&page.next, global.json) {
        (Some(next), true) => print_line(&json!({ "next": next }).to_string())?,
        (Some(next), false) => print_line(&style.paint(Ink::Faint, &format!("there are more: --after {next}")))?,
        (None, false) if page.items.is_empty() => {
            let hint = if command.filters.narrows() { "" } else { "; longhaul memory add TEXT writes one" };
            print_line(&format!("no memories like that{hint}"))?;
        }
        (None, _) => {}
    }
    Ok(Exit::Done)
}

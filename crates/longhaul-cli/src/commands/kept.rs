//! `longhaul records`, `links` and `show`: what was kept of a task, how it is connected, what is in it.

use std::path::PathBuf;

use clap::Args;
use longhaul::{KeptFilter, harmless, moment};

use super::{
    at_store::{StoreFlags, below, named},
    work,
};
use crate::{
    args::Global,
    exit::Exit,
    progress::{Ink, Style, count, print_line},
};

/// List what was kept of a task: observations, artifacts, decisions, evidence, notes
///
/// In the order in which it was kept. With --json, one object per line.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  longhaul records order-17
  longhaul records ~/recipes --kind evidence
  longhaul records task_0192… --after 100 --limit 100     the next page
  longhaul show rec_0192…                                 what is in one")]
pub(crate) struct Records {
    /// The task
    task: String,
    /// Only those of this kind: observation, artifact, decision, evidence, note, checkpoint or one's own
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// Only those of this collection
    #[arg(long, value_name = "NAME")]
    collection: Option<String>,
    /// Older versions too
    #[arg(long)]
    all: bool,
    /// Those kept after this number
    #[arg(long, value_name = "N", default_value_t = 0)]
    after: i64,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: u32,
    #[command(flatten)]
    store: StoreFlags,
}

/// Show what an id is linked with: what supports it, what became of it
///
/// Takes a record, a step, an execution, a wait, a memory or a verdict. With --mermaid, a chart to be pasted wherever
/// Mermaid is drawn.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  longhaul links rec_0192…
  longhaul links rec_0192… --depth 5 --mermaid > evidence.mmd")]
pub(crate) struct Links {
    /// The id
    id: String,
    /// How far to go from link to link
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=32))]
    depth: u32,
    /// As a Mermaid flowchart
    #[arg(long)]
    mermaid: bool,
    #[command(flatten)]
    store: StoreFlags,
}

/// Show what a reference refers to: the content of a record, a memory, a step's result
///
/// Takes a record (rec_…, rec_…@sha256:…, or the reference as JSON), a content (sha256:…), a memory (mem_…), a step
/// ('exec_…/node/1/name#1') or a wait. The content is compared with its digest first. What a terminal would obey is
/// written out; what is no text is saved with --out.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  longhaul show rec_0192…
  longhaul show rec_0192… --out page.png
  longhaul show 'exec_0192…/draft/1/write#1'")]
pub(crate) struct Show {
    /// The reference
    reference: String,
    /// Save the content to this file, which must not be there yet
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    store: StoreFlags,
}

/// Runs `records`.
pub(crate) fn records(global: &Global, command: &Records) -> anyhow::Result<Exit> {
    let Records { kind, collection, all, after, limit, .. } = command;
    let (kind, collection) = (kind.clone(), collection.clone());
    let filter = KeptFilter { kind, collection, superseded: *all, after: *after, limit: *limit };
    let found = work::runtime()?
        .block_on(async { anyhow::Ok(command.store.open(global).await?.kept(&command.task, filter).await?) })?;
    let style = global.style();
    for record in &found {
        if global.json {
            print_line(&serde_json::to_string(record)?)?;
            continue;
        }
        let name = record.name.as_ref().map_or_else(String::new, |name| format!(" {name} v{}", record.version));
        let number = style.paint(Ink::Faint, &format!("{:>5}", record.seq));
        let kind = style.paint(Ink::Strong, &format!("{:<12}", record.kind));
        print_line(&format!("{number} {kind}{name} {}", style.fit_after(22 + name.len(), &line_of(&record.summary))))?;
        let about = format!("{}, {} bytes, {}, {} UTC", record.id, record.size, record.media_type, moment(record.at));
        print_line(&below(style, Some(Ink::Faint), &format!("      {about}")))?;
    }
    if found.is_empty() && !global.json {
        print_line("nothing was kept")?;
    } else if found.len() == *limit as usize && !global.json {
        let last = found.last().map_or(0, |record| record.seq);
        print_line(&format!("more with --after {last}"))?;
    }
    Ok(Exit::Done)
}

/// Runs `links`.
pub(crate) fn links(global: &Global, command: &Links) -> anyhow::Result<Exit> {
    let found = work::runtime()?
        .block_on(async { anyhow::Ok(command.store.open(global).await?.linked(&command.id, command.depth).await?) })?;
    if global.json {
        print_line(&serde_json::to_string_pretty(&found)?)?;
        return Ok(Exit::Done);
    }
    if command.mermaid {
        print_line(&found.mermaid())?;
        return Ok(Exit::Done);
    }
    let style = global.style();
    for link in &found.links {
        let relation = style.paint(Ink::Strong, link.relation.as_str());
        print_line(&format!("{} {relation} {}", link.source, link.target))?;
        for end in [&link.source, &link.target] {
            if let Some(summary) = found.summaries.get(end) {
                print_line(&below(style, Some(Ink::Faint), &format!("{end}: {}", line_of(summary))))?;
            }
        }
    }
    let many = count(found.links.len() as u64, "link");
    let more = if found.cut { ", and more that were not walked" } else { "" };
    print_line(&format!("{many}{more}"))?;
    Ok(Exit::Done)
}

/// Runs `show`.
pub(crate) fn show(global: &Global, command: &Show) -> anyhow::Result<Exit> {
    let shown = work::runtime()?.block_on(async {
        let store = command.store.open(global).await?;
        anyhow::Ok(store.show(&command.reference, command.out.as_deref()).await?)
    })?;
    if global.json {
        print_line(&serde_json::to_string_pretty(&shown)?)?;
        return Ok(Exit::Done);
    }
    let style = global.style();
    print_line(&format!("{} {}", style.paint(Ink::Strong, shown.kind), shown.id))?;
    for fact in &shown.facts {
        print_line(&named(style, &fact.name, &line_of(&fact.value)))?;
    }
    if let Some(content) = &shown.content {
        print_line("")?;
        print_line(content)?;
    }
    if let Some(path) = &shown.saved {
        print_line(&below(Style { columns: None, ..style }, None, &format!("saved to {}", path.display())))?;
    }
    Ok(Exit::Done)
}

/// Somebody's words on one line, without what a terminal would obey.
fn line_of(text: &str) -> String {
    harmless(text).replace(['\n', '\t'], " ")
}

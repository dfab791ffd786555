//! `longhaul memory export` and `import`.

use std::path::PathBuf;

use clap::Args;
use longhaul::memory::{ExportOptions, Exported, ImportOptions, Imported, Kind, Namespace, Source};
use serde_json::json;

use super::{
    place::{Model, PlaceFlags},
    show::thousands,
};
use crate::{
    args::Global,
    exit::Exit,
    progress::{Glyph, Ink, count, print_line},
};

/// Write memories out, one JSON object a line, so that they come back exactly
///
/// Everything about them: texts, ids, users, times, metadata, tags, threads, facts with what replaced them, pins.
/// Memory stays small however much there is, and others may go on writing meanwhile. Expired memories are not in it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  longhaul memory export memories.jsonl
  longhaul memory export -n research - | gzip > research.jsonl.gz
  longhaul memory export - | jq -r 'select(.kind == \"decision\") | .content'")]
pub(super) struct Export {
    /// A new file, or - for standard output
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
    /// Of this namespace; may be given several times [default: all that you may read]
    #[arg(long, short, value_name = "NAME")]
    namespace: Vec<Namespace>,
    /// The vectors too: some 2 KB each, of use where the same embedding model is
    #[arg(long)]
    with_vectors: bool,
    #[command(flatten)]
    place: PlaceFlags,
}

/// Take memories in: an export, lines of {\"text\": …}, or what mem0 exports
///
/// What is there already, by id, is left alone, so an import that was interrupted is simply repeated, and doing it twice
/// changes nothing. A line that cannot be taken is told with its number and holds up no other; the command then exits
/// with 3. Afterwards new texts are embedded, which can be interrupted too.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  longhaul memory import memories.jsonl
  longhaul memory import memories.jsonl --into copy --new-ids      a copy beside the original
  gunzip -c research.jsonl.gz | longhaul memory import -
  longhaul memory import mem0.json --kind fact --into mem0

Entries of others:
  text, memory, content or data   the text
  id                              a name by which importing again recognises it
  created_at, happened_at, expires_at, expiration_date    times
  kind, collection, source, tags, categories, importance, pinned, thread, run_id
  subject, attribute, valid_from, valid_to                a fact
  metadata                        metadata; every other member goes there too")]
pub(super) struct Import {
    /// The file, or - for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Into this namespace, wherever the file says it was
    #[arg(long, value_name = "NAME")]
    into: Option<Namespace>,
    /// New ids, which follow from the old: for a copy beside the original
    #[arg(long)]
    new_ids: bool,
    /// Stop at the first line that cannot be taken; what stands before it is imported
    #[arg(long)]
    strict: bool,
    /// Collection of entries that name none
    #[arg(long, value_name = "NAME", default_value = "imported")]
    collection: String,
    /// Kind of entries that name none
    #[arg(long, value_name = "KIND", default_value = "note")]
    kind: Kind,
    /// Source of entries that name none
    #[arg(long, value_name = "SOURCE", default_value = "outside")]
    source: Source,
    /// Do not embed now; `longhaul memory index` does it later
    #[arg(long)]
    no_index: bool,
    #[command(flatten)]
    place: PlaceFlags,
}

/// Problems shown on a page; machines get all that are kept.
const PROBLEMS_SHOWN: usize = 20;

/// Runs `export`.
pub(super) async fn export(global: &Global, command: &Export) -> anyhow::Result<Exit> {
    let memories = command.place.open(global, Model::Unused, false).await?;
    let options = ExportOptions { namespaces: command.namespace.clone(), with_vectors: command.with_vectors };
    let file = (command.file.as_os_str() != "-").then_some(command.file.as_path());
    let bar = global.spinner("exporting");
    let shown = bar.clone();
    let told = move |done: Exported| shown.set_message(format!("{} memories", thousands(done.memories)));
    let done = memories.export(file, &options, told).await;
    bar.finish_and_clear();
    let Exported { memories, vectors, namespaces, bytes } = done?;
    let Some(file) = file else { return Ok(Exit::Done) };
    if global.json {
        let object =
            json!({ "file": file, "memories": memories, "vectors": vectors, "namespaces": namespaces, "bytes": bytes });
        print_line(&object.to_string())?;
        return Ok(Exit::Done);
    }
    let style = global.style();
    let facts = format!("{} of {}", of(memories), count(namespaces, "namespace"));
    print_line(&format!("{} {facts} in {}", style.glyph(Glyph::Pass), file.display()))?;
    Ok(Exit::Done)
}

/// Runs `import`.
pub(super) async fn import(global: &Global, command: &Import) -> anyhow::Result<Exit> {
    let model = if command.no_index { Model::Unused } else { Model::Wanted };
    let memories = command.place.open(global, model, true).await?;
    let options = ImportOptions {
        into: command.into.clone(),
        new_ids: command.new_ids,
        strict: command.strict,
        collection: command.collection.clone(),
        kind: command.kind,
        source: command.source,
    };
    let file = (command.file.as_os_str() != "-").then_some(command.file.as_path());
    let bar = global.spinner("importing");
    let shown = bar.clone();
    let told = move |done: &Imported| {
        shown.set_message(format!("{} read, {} written", thousands(done.read), thousands(done.written)))
    };
    let done = memories.import(file, &options, told).await;
    bar.set_message("embedding");
    let embedded = if command.no_index || done.is_err() { Ok(()) } else { memories.embed_new().await };
    bar.finish_and_clear();
    let done = done?;
    let exit = if done.refused == 0 { Exit::Done } else { Exit::Unfinished };
    if global.json {
        print_line(&object(&done, embedded.as_ref().err()).to_string())?;
        return Ok(exit);
    }
    tell(global, &done)?;
    if let Err(reason) = embedded {
        let style = global.style();
        let said = format!("found by words alone until they are embedded: {reason}");
        print_line(&format!("{} {}", style.glyph(Glyph::Notice), style.fit_after(2, &said)))?;
    }
    Ok(exit)
}

fn object(done: &Imported, not_embedded: Option<&String>) -> serde_json::Value {
    let problems: Vec<String> = done.problems.iter().map(ToString::to_string).collect();
    json!({ "read": done.read, "written": done.written, "already": done.already, "differing": done.differing,
        "refused": done.refused, "problems": problems, "not_embedded": not_embedded })
}

fn tell(global: &Global, done: &Imported) -> anyhow::Result<()> {
    let style = global.style();
    print_line(&format!("{} {} written", style.glyph(Glyph::Pass), of(done.written)))?;
    if done.already > 0 {
        print_line(&format!("{} {} there already", style.glyph(Glyph::Detail), thousands(done.already)))?;
    }
    if done.differing > 0 {
        let said = format!("{} of these have another text here; it was left as it is here", thousands(done.differing));
        print_line(&format!("{} {}", style.glyph(Glyph::Notice), style.fit_after(2, &said)))?;
    }
    if done.refused > 0 {
        print_line(&format!("{} {} not taken:", style.glyph(Glyph::Fail), thousands(done.refused)))?;
    }
    for problem in done.problems.iter().take(PROBLEMS_SHOWN) {
        print_line(&format!("  {}", style.paint(Ink::Bad, &style.fit_after(2, &problem.to_string()))))?;
    }
    if done.refused > PROBLEMS_SHOWN as u64 {
        print_line("  … more with --json")?;
    }
    Ok(())
}

fn of(memories: u64) -> String {
    format!("{} {}", thousands(memories), if memories == 1 { "memory" } else { "memories" })
}

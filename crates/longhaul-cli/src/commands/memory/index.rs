//! `longhaul memory index`: what can be derived is derived now.

use clap::Args;
use serde_json::json;

use super::{
    place::{Model, PlaceFlags},
    show,
};
use crate::{
    args::Global,
    exit::Exit,
    progress::{Glyph, print_line},
};

/// Embed what has no vector yet, and rebuild indexes that do not fit their rows
///
/// Programs that write memories do this in the background; after an import, a change of the model or a crash it may be
/// worth doing at once. It can be interrupted at any moment and goes on where it was.
#[derive(Debug, Args)]
pub(super) struct Index {
    #[command(flatten)]
    place: PlaceFlags,
}

/// Runs the command.
pub(super) async fn run(global: &Global, command: &Index) -> anyhow::Result<Exit> {
    let memories = command.place.open(global, Model::Wanted, false).await?;
    let bar = global.spinner("embedding");
    let done = memories.index().await;
    bar.finish_and_clear();
    let done = done?;
    if global.json {
        let object = json!({ "embedded": done.embedded, "failed": done.failed, "rebuilt": done.rebuilt });
        print_line(&object.to_string())?;
        return Ok(Exit::Done);
    }
    let style = global.style();
    let count = show::thousands;
    let facts = format!("{} embedded, {} indexed by words anew", count(done.embedded), count(done.rebuilt));
    print_line(&format!("{} {facts}", style.glyph(Glyph::Pass)))?;
    if done.failed > 0 {
        let failed = format!("{} could not be embedded and are found by words alone", count(done.failed));
        print_line(&format!("{} {failed}", style.glyph(Glyph::Notice)))?;
    }
    Ok(Exit::Done)
}

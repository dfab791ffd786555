//! `longhaul memory edit`: a memory is corrected, at once.

use clap::Args;
use longhaul::{Correcting, MemoryId};

use super::{
    add,
    place::{Model, PlaceFlags},
    show,
};
use crate::{
    args::Global,
    exit::Exit,
    progress::{Glyph, print_line},
};

/// Correct a memory: its text, metadata, tags, importance or expiry
///
/// The next search finds it as it is now; nothing of the old text stays in the store or its indexes. To keep the history
/// of something that changes, write it as a fact instead: `longhaul memory add --subject … --attribute …`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  longhaul memory edit mem_0192… \"The staging server is called fern\"
  longhaul memory edit mem_0192… --meta severity=2 --unset draft --tag urgent --untag later
  longhaul memory edit mem_0192… --importance 0.9 --expires never
  fmt notes.txt | longhaul memory edit mem_0192… -")]
pub(super) struct Edit {
    /// The memory's id
    #[arg(value_name = "ID")]
    id: MemoryId,
    /// The new text; - for standard input
    #[arg(value_name = "TEXT")]
    text: Option<String>,
    /// Metadata to set; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    meta: Vec<String>,
    /// Metadata to take away; may be given several times
    #[arg(long, value_name = "KEY")]
    unset: Vec<String>,
    /// A tag to add; may be given several times
    #[arg(long, value_name = "TAG")]
    tag: Vec<String>,
    /// A tag to take away; may be given several times
    #[arg(long, value_name = "TAG")]
    untag: Vec<String>,
    /// From 0 to 1; 0.5 is ordinary
    #[arg(long, value_name = "NUMBER")]
    importance: Option<f32>,
    /// When it is to be gone: 30d, 2026-12-31, never
    #[arg(long, value_name = "TIME")]
    expires: Option<String>,
    #[command(flatten)]
    place: PlaceFlags,
}

/// Runs the command.
pub(super) async fn run(global: &Global, command: &Edit) -> anyhow::Result<Exit> {
    let text = match command.text.as_deref() {
        Some("-") => Some(add::from_stdin()?),
        given => given.map(str::to_owned),
    };
    let model = if text.is_some() { Model::Wanted } else { Model::Unused };
    let correcting = Correcting {
        text,
        meta: command.meta.clone(),
        unset: command.unset.clone(),
        tags: command.tag.clone(),
        untags: command.untag.clone(),
        importance: command.importance,
        expires: command.expires.clone(),
    };
    let memories = command.place.open(global, model, false).await?;
    let item = memories.correct(&command.id, &correcting).await?;
    if model == Model::Wanted {
        // Found by its words at once; without the model that is all.
        let _ = memories.embed_new().await;
    }
    if global.json {
        print_line(&serde_json::to_string(&item)?)?;
        return Ok(Exit::Done);
    }
    let style = global.style();
    for line in show::lines(style, &memories, &style.glyph(Glyph::Pass), &item, false) {
        print_line(&line)?;
    }
    Ok(Exit::Done)
}

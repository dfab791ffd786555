//! `longhaul memory pin` and `unpin`.

use clap::Args;
use longhaul::MemoryId;
use serde_json::json;

use super::place::{Model, PlaceFlags};
use crate::{
    args::Global,
    exit::Exit,
    progress::{Glyph, print_line},
};

/// Keep memories hot and important, whatever their age
///
/// A pinned memory stays in the store's tables and is not moved to the cold tier by any rule; in a search it does not
/// weigh less for its age. One that was cold comes back at once.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  longhaul memory pin mem_0192…
  longhaul memory list --tag contract --json | jq -r .id | xargs longhaul memory pin")]
pub(super) struct Pin {
    /// Ids of memories
    #[arg(value_name = "ID", required = true)]
    ids: Vec<MemoryId>,
    #[command(flatten)]
    place: PlaceFlags,
}

/// Let memories age again
#[derive(Debug, Args)]
pub(super) struct Unpin {
    /// Ids of memories
    #[arg(value_name = "ID", required = true)]
    ids: Vec<MemoryId>,
    #[command(flatten)]
    place: PlaceFlags,
}

/// Runs `pin`.
pub(super) async fn pin(global: &Global, command: &Pin) -> anyhow::Result<Exit> {
    set(global, &command.place, &command.ids, true).await
}

/// Runs `unpin`.
pub(super) async fn unpin(global: &Global, command: &Unpin) -> anyhow::Result<Exit> {
    set(global, &command.place, &command.ids, false).await
}

async fn set(global: &Global, place: &PlaceFlags, ids: &[MemoryId], pinned: bool) -> anyhow::Result<Exit> {
    let memories = place.open(global, Model::Unused, false).await?;
    let style = global.style();
    for id in ids {
        memories.pin(id, pinned).await?;
        if global.json {
            print_line(&json!({ "id": id, "pinned": pinned }).to_string())?;
        } else {
            let done = if pinned { "is pinned" } else { "is not pinned" };
            print_line(&format!("{} {id} {done}", style.glyph(Glyph::Pass)))?;
        }
    }
    Ok(Exit::Done)
}

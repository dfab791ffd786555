//! `longhaul memory migrate`: moves the vectors to a server, or back.

use clap::Args;
use longhaul::MigrateTo;
use serde_json::json;

use super::{
    place::{Model, PlaceFlags},
    show::thousands,
};
use crate::{
    args::Global,
    exit::Exit,
    progress::{Glyph, Ink, print_line},
};

/// Move the index of vectors to a Milvus server, or back into the embedded engine
///
/// Memories themselves stay in the store. What is missing on the other side is written there and verified, by count and
/// by sample; started again it goes on where it was. Settings are not touched: afterwards it says which line to write.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  longhaul memory migrate --to http://127.0.0.1:19530
  longhaul memory migrate --to embedded
  longhaul memory migrate --to embedded --drop     and remove the copy in the server")]
pub(super) struct Migrate {
    /// The server's address, or `embedded`
    #[arg(long, value_name = "URI")]
    to: String,
    /// With `--to embedded`: remove the copy in the server afterwards
    #[arg(long)]
    drop: bool,
    #[command(flatten)]
    place: PlaceFlags,
}

/// Runs the command.
pub(super) async fn run(global: &Global, command: &Migrate) -> anyhow::Result<Exit> {
    let to = match command.to.as_str() {
        "embedded" => MigrateTo::Embedded { drop: command.drop },
        uri => MigrateTo::Server(uri.to_owned()),
    };
    let memories = command.place.open(global, Model::Wanted, false).await?;
    let bar = global.spinner("moving");
    let shown = bar.clone();
    let moved = memories
        .migrate(&to, &mut |step| {
            shown.set_message(format!("{}: {} of {}", step.partition, step.vectors.0, step.vectors.1))
        })
        .await;
    bar.finish_and_clear();
    let moved = moved?;
    let done = moved.migrated;
    if global.json {
        let object = json!({ "namespaces": done.partitions, "vectors": done.vectors, "compared": done.sampled,
            "dropped": done.dropped, "setting": moved.setting });
        print_line(&object.to_string())?;
        return Ok(Exit::Done);
    }
    let style = global.style();
    let facts = format!(
        "{} vectors of {} namespaces are on both sides, {} of them compared value by value",
        thousands(done.vectors),
        done.partitions,
        thousands(done.sampled)
    );
    print_line(&format!("{} {facts}", style.glyph(Glyph::Pass)))?;
    if done.dropped > 0 {
        print_line(&format!(
            "{} {} namespaces were taken out of the server",
            style.glyph(Glyph::Detail),
            done.dropped
        ))?;
    }
    if let Some(line) = &moved.setting {
        print_line(&style.paint(Ink::Strong, &format!("in longhaul.toml, section memory: {line}")))?;
    }
    Ok(Exit::Done)
}

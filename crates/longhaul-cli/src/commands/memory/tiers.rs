//! `longhaul memory tiers` and `compact`: what is hot and what is cold, and moving it by hand.

use clap::{Args, Subcommand};
use longhaul::memory::{ColdPlace, Moved, Tended};
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

/// See where cold memories are kept, and move them by the rules
///
/// Hot memories are in the store's tables, cold ones in segments in a folder or a bucket (`memory.cold`). Both are found by
/// the same search. By which rules memories become cold is set with `memory.cold_unused_days` and its neighbours; a program
/// that runs applies them by itself, `tiers move` at once. What is used comes back; what is pinned never leaves.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  longhaul memory tiers
  longhaul memory tiers move                       by the rules that are set
  longhaul memory tiers move --unused-days 90      by this one
  longhaul memory tiers tend                       rewrite and delete what is due in the cold place")]
pub(super) struct TiersArgs {
    #[command(subcommand)]
    command: Option<TiersCommand>,
    #[command(flatten)]
    place: PlaceFlags,
}

#[derive(Debug, Subcommand)]
enum TiersCommand {
    /// Move what has become cold, now
    Move {
        /// What nobody used for so many days, instead of the rules that are set
        #[arg(long, value_name = "DAYS")]
        unused_days: Option<u32>,
    },
    /// Rewrite segments that hold what left them, and delete what nobody needs
    Tend,
}

/// Give the room of what was erased back to the disk, and leave no byte of it
///
/// After forgetting, free pages of the database may still hold what was in them. This writes the database anew; it takes
/// as long as copying it, and others wait meanwhile.
#[derive(Debug, Args)]
pub(super) struct Compact {
    #[command(flatten)]
    place: PlaceFlags,
}

/// Runs `tiers`.
pub(super) async fn run(global: &Global, args: &TiersArgs) -> anyhow::Result<Exit> {
    let memories = args.place.open(global, Model::Unused, false).await?;
    match &args.command {
        None => {
            let place = memories.memory().cold_place().map(|place| shown(&place));
            let rules = memories.tier_rules();
            if global.json {
                print_line(&json!({ "cold": place, "rules": rules }).to_string())?;
                return Ok(Exit::Done);
            }
            let style = global.style();
            let place = place.unwrap_or_else(|| "nowhere: set memory.cold".to_owned());
            print_line(&format!("{} {}", style.paint(Ink::Faint, "cold memories are kept in"), place))?;
            let said = match rules {
                None => "nothing becomes cold by itself: set memory.cold_unused_days".to_owned(),
                Some(rules) => {
                    let days = |days: Option<u32>, what: &str| days.map(|days| format!("{what} for {days} days"));
                    let parts = [days(rules.unused_days, "not used"), days(rules.unseen_days, "in no result")];
                    let parts: Vec<String> = parts.into_iter().flatten().collect();
                    format!(
                        "cold becomes what was {}; the newest {} stay",
                        parts.join(" or "),
                        thousands(rules.keep_newest.into())
                    )
                }
            };
            print_line(&said)?;
            Ok(Exit::Done)
        }
        Some(TiersCommand::Move { unused_days }) => {
            let bar = global.spinner("moving");
            let moved = memories.move_cold(*unused_days).await;
            bar.finish_and_clear();
            tell_moved(global, &moved?)
        }
        Some(TiersCommand::Tend) => tell_tended(global, &memories.tend_cold().await?),
    }
}

fn shown(place: &ColdPlace) -> String {
    match place {
        ColdPlace::Folder(dir) => dir.display().to_string(),
        ColdPlace::S3(bucket) => format!("s3://{}/{}", bucket.bucket, bucket.prefix),
    }
}

fn tell_moved(global: &Global, moved: &Moved) -> anyhow::Result<Exit> {
    let exit = if moved.stopped.is_some() { Exit::Unfinished } else { Exit::Done };
    if global.json {
        print_line(&serde_json::to_string(moved)?)?;
        return Ok(exit);
    }
    let style = global.style();
    let facts = format!(
        "{} memories became cold, in {} segments of {} bytes",
        thousands(moved.memories),
        moved.segments,
        thousands(moved.bytes)
    );
    print_line(&format!("{} {facts}", style.glyph(Glyph::Pass)))?;
    if let Some(why) = &moved.stopped {
        print_line(&format!("{} {}", style.glyph(Glyph::Fail), style.fit_after(2, &format!("stopped: {why}"))))?;
    }
    Ok(exit)
}

fn tell_tended(global: &Global, tended: &Tended) -> anyhow::Result<Exit> {
    let exit = if tended.stopped.is_some() { Exit::Unfinished } else { Exit::Done };
    if global.json {
        print_line(&serde_json::to_string(tended)?)?;
        return Ok(exit);
    }
    let style = global.style();
    let facts = format!(
        "{} segments rewritten, {} objects deleted, {} to be done",
        tended.rewritten, tended.deleted, tended.pending
    );
    print_line(&format!("{} {facts}", style.glyph(Glyph::Pass)))?;
    if let Some(why) = &tended.stopped {
        print_line(&format!("{} {}", style.glyph(Glyph::Fail), style.fit_after(2, why)))?;
    }
    Ok(exit)
}

/// Runs `compact`.
pub(super) async fn compact(global: &Global, command: &Compact) -> anyhow::Result<Exit> {
    let memories = command.place.open(global, Model::Unused, false).await?;
    let bar = global.spinner("compacting");
    let done = memories.compact().await;
    bar.finish_and_clear();
    let done = done?;
    let exit = if done.is_complete { Exit::Done } else { Exit::Unfinished };
    if global.json {
        print_line(&serde_json::to_string(&done)?)?;
        return Ok(exit);
    }
    let style = global.style();
    let glyph = style.glyph(if done.is_complete { Glyph::Pass } else { Glyph::Notice });
    print_line(&format!(
        "{glyph} {} bytes before, {} after",
        thousands(done.bytes_before),
        thousands(done.bytes_after)
    ))?;
    for pending in &done.pending {
        print_line(&format!("  {}", style.fit_after(2, pending)))?;
    }
    Ok(exit)
}

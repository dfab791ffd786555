//! `longhaul knowledge remove` and `share`: what only the owner of a corpus may do.

use clap::Args;
use longhaul::{
    UserId,
    knowledge::{CorpusName, CorpusRef, Grantee},
};
use serde_json::json;

use super::place::{Model, PlaceFlags};
use crate::{
    args::Global,
    exit::{Exit, Refusal},
    progress::{Glyph, print_line},
};

/// Take a version of a corpus away, or all of it
///
/// Its passages are erased with their indexes. The number of a removed version is never given again, so an old citation
/// cannot come to mean something else.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  longhaul knowledge remove guide@1
  longhaul knowledge remove guide --all")]
pub(super) struct Remove {
    /// The version
    #[arg(value_name = "NAME@VERSION")]
    corpus: String,
    /// All versions, where none is named
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    place: PlaceFlags,
}

/// Let others of the tenant search a corpus, with its versions to come
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  longhaul knowledge share guide user_grace
  longhaul knowledge share guide everyone
  longhaul knowledge share guide user_grace --take-back")]
pub(super) struct Share {
    /// The corpus; you must have made it
    #[arg(value_name = "NAME")]
    corpus: String,
    /// A user's id, or `everyone` for all of the tenant
    #[arg(value_name = "USER")]
    with: String,
    /// Take the right back, from the next search on
    #[arg(long)]
    take_back: bool,
    #[command(flatten)]
    place: PlaceFlags,
}

/// Runs `remove`.
pub(super) async fn run(global: &Global, command: &Remove) -> anyhow::Result<Exit> {
    let meant: CorpusRef = command.corpus.parse()?;
    if meant.version.is_none() && !command.all {
        let why = format!("name a version, {0}@1, or all of them: `longhaul knowledge remove {0} --all`", meant.name);
        return Err(Refusal::because(Exit::Usage, why));
    }
    let memories = command.place.open(global, Model::Unused, false).await?;
    let removed = memories.knowledge().remove(memories.scope(), &meant).await?;
    if global.json {
        print_line(&json!({ "corpus": meant.name, "removed": removed }).to_string())?;
        return Ok(Exit::Done);
    }
    let numbers: Vec<String> = removed.iter().map(|number| format!("{}@{number}", meant.name)).collect();
    print_line(&format!("{} removed {}", global.style().glyph(Glyph::Pass), numbers.join(", ")))?;
    Ok(Exit::Done)
}

/// Runs `share`.
pub(super) async fn share(global: &Global, command: &Share) -> anyhow::Result<Exit> {
    let name: CorpusName = command.corpus.parse()?;
    let with = match command.with.as_str() {
        "everyone" => Grantee::Everyone,
        user => {
            let parsed: Result<UserId, _> = user.parse();
            Grantee::User(parsed.map_err(|error| Refusal::because(Exit::Usage, error.to_string()))?)
        }
    };
    let memories = command.place.open(global, Model::Unused, false).await?;
    let (knowledge, scope) = (memories.knowledge(), memories.scope());
    if command.take_back {
        knowledge.unshare(scope, &name, &with).await?;
    } else {
        knowledge.share(scope, &name, &with).await?;
    }
    if global.json {
        print_line(&json!({ "corpus": name, "with": command.with, "shared": !command.take_back }).to_string())?;
        return Ok(Exit::Done);
    }
    let now = if command.take_back { "no longer searches" } else { "may search" };
    print_line(&format!("{} {} {now} {name}", global.style().glyph(Glyph::Pass), command.with))?;
    Ok(Exit::Done)
}

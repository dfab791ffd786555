//! `longhaul memory grants`: who else may read or write a namespace.

use clap::{Args, Subcommand};
use longhaul::{
    Memories, UserId,
    memory::{Grantee, Namespace},
};
use serde_json::json;

use super::{
    place::{Model, PlaceFlags},
    show,
};
use crate::{
    args::Global,
    exit::Exit,
    progress::{Glyph, Ink, print_line},
};

/// See the namespaces that you may read, and let others of the tenant in
///
/// Whoever first writes to a namespace owns it. Nobody else of the tenant reads or writes it without a grant; no grant
/// reaches beyond the tenant. Rights are checked with every read and write, in the same transaction.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  longhaul memory grants                              the namespaces that you may read
  longhaul memory grants give research user_grace     Grace may read it
  longhaul memory grants give research everyone --write
  longhaul memory grants take research user_grace")]
pub(super) struct GrantsArgs {
    #[command(subcommand)]
    command: Option<GrantsCommand>,
    #[command(flatten)]
    place: PlaceFlags,
}

#[derive(Debug, Subcommand)]
enum GrantsCommand {
    Give(Give),
    Take(Take),
}

/// Let a user read a namespace, or also write to it
#[derive(Debug, Args)]
struct Give {
    /// The namespace; you must own it
    #[arg(value_name = "NAMESPACE")]
    namespace: Namespace,
    /// A user's id, or `everyone` for all of the tenant
    #[arg(value_name = "USER")]
    grantee: String,
    /// Writing too
    #[arg(long)]
    write: bool,
}

/// Take a right back, from the next read on
#[derive(Debug, Args)]
struct Take {
    /// The namespace; you must own it
    #[arg(value_name = "NAMESPACE")]
    namespace: Namespace,
    /// A user's id, or `everyone`
    #[arg(value_name = "USER")]
    grantee: String,
}

/// Runs the command.
pub(super) async fn run(global: &Global, args: &GrantsArgs) -> anyhow::Result<Exit> {
    let memories = args.place.open(global, Model::Unused, false).await?;
    match &args.command {
        None => list(global, &memories).await,
        Some(GrantsCommand::Give(give)) => {
            let to = grantee(&give.grantee)?;
            memories.grant(&give.namespace, &to, give.write).await?;
            let right = if give.write { "read and write" } else { "read" };
            done(global, &format!("{} may {right} {}", give.grantee, give.namespace), true)
        }
        Some(GrantsCommand::Take(take)) => {
            let from = grantee(&take.grantee)?;
            let was = memories.revoke(&take.namespace, &from).await?;
            let said = if was { "may not use" } else { "had no grant for" };
            done(global, &format!("{} {said} {}", take.grantee, take.namespace), was)
        }
    }
}

fn grantee(word: &str) -> anyhow::Result<Grantee> {
    if matches!(word, "everyone" | "*") {
        return Ok(Grantee::Everyone);
    }
    let user: UserId = word.parse().map_err(|error| crate::exit::Refusal::because(Exit::Usage, format!("{error}")))?;
    Ok(Grantee::User(user))
}

fn done(global: &Global, said: &str, changed: bool) -> anyhow::Result<Exit> {
    if global.json {
        print_line(&json!({ "changed": changed, "said": said }).to_string())?;
    } else {
        let glyph = if changed { Glyph::Pass } else { Glyph::Detail };
        print_line(&format!("{} {said}", global.style().glyph(glyph)))?;
    }
    Ok(Exit::Done)
}

async fn list(global: &Global, memories: &Memories) -> anyhow::Result<Exit> {
    let style = global.style();
    let partitions = memories.partitions().await?;
    for partition in &partitions {
        if global.json {
            print_line(&serde_json::to_string(partition)?)?;
            continue;
        }
        let right = match (partition.may_write, partition.frozen) {
            (_, true) => "read-only for everybody",
            (true, false) => "read and write",
            (false, false) => "read",
        };
        let facts = [
            format!("{} memories", show::thousands(partition.memories)),
            format!("owned by {}", partition.owner),
            right.to_owned(),
        ];
        let facts = style.fit_after(25, &facts.join(style.dot()));
        print_line(&format!("{:<24} {}", partition.namespace.as_str(), style.paint(Ink::Faint, &facts)))?;
    }
    if partitions.is_empty() && !global.json {
        print_line("nothing has been remembered yet: longhaul memory add TEXT")?;
    }
    Ok(Exit::Done)
}

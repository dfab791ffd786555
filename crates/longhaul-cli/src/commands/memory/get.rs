//! `longhaul memory get`: one memory with everything that is known about it.

use clap::Args;
use longhaul::{
    Memories, MemoryId, TimeMs,
    memory::{Item, Tier},
};

use super::{
    place::{Model, PlaceFlags},
    show,
};
use crate::{
    args::Global,
    exit::Exit,
    progress::{Ink, Style, print_line},
};

/// Show one memory whole, with everything that is known about it
///
/// Asking for a memory by its id counts as using it: it is kept hot and important for longer.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  longhaul memory get mem_0192…
  longhaul memory get mem_0192… --json | jq .meta")]
pub(super) struct Get {
    /// The memory's id, as `add`, `search` and `list` print it
    #[arg(value_name = "ID")]
    id: MemoryId,
    #[command(flatten)]
    place: PlaceFlags,
}

/// Runs the command.
pub(super) async fn run(global: &Global, command: &Get) -> anyhow::Result<Exit> {
    let memories = command.place.open(global, Model::Unused, false).await?;
    let item = memories.get(&command.id).await?;
    if global.json {
        print_line(&serde_json::to_string(&item)?)?;
        return Ok(Exit::Done);
    }
    let style = global.style();
    for line in item.content.lines() {
        print_line(&show::printable(line))?;
    }
    print_line("")?;
    for (name, value) in known(&memories, &item) {
        print_line(&row(style, name, &value))?;
    }
    Ok(Exit::Done)
}

fn row(style: Style, name: &str, value: &str) -> String {
    format!("{} {}", style.paint(Ink::Faint, &format!("{name:<12}")), style.fit_after(13, value))
}

fn known(memories: &Memories, item: &Item) -> Vec<(&'static str, String)> {
    let time = |at: TimeMs| memories.zone().minute(at);
    let mut known = vec![
        ("id", item.id.to_string()),
        ("namespace", item.namespace.to_string()),
        ("collection", item.collection.clone()),
        ("kind", item.kind.to_string()),
        ("source", item.source.to_string()),
        ("user", item.user.to_string()),
        ("happened", time(item.happened_at)),
        ("written", time(item.created_at)),
        ("importance", format!("{}", item.importance)),
    ];
    let mut more = |name, value: Option<String>| known.extend(value.map(|value| (name, value)));
    more("expires", item.expires_at.map(time));
    more("pinned", item.pinned.then(|| "yes: stays hot and important".to_owned()));
    more("tags", (!item.tags.is_empty()).then(|| item.tags.join(", ")));
    more("meta", (!item.meta.is_empty()).then(|| serde_json::Value::Object(item.meta.clone()).to_string()));
    more("thread", item.thread.clone());
    more("task", item.task.as_ref().map(ToString::to_string));
    if let Some(fact) = &item.fact {
        more("fact", Some(format!("{} of {}", fact.attribute, fact.subject)));
        let from = fact.valid_from.map_or_else(|| "always".to_owned(), time);
        let to = fact.valid_to.map_or_else(|| "now".to_owned(), time);
        more("true", Some(format!("from {from} to {to}")));
    }
    let superseded = item.superseded_by.as_ref().map(|by| {
        let at = item.superseded_at.map(|at| format!(", learned {}", time(at))).unwrap_or_default();
        format!("by {by}{at}")
    });
    more("superseded", superseded);
    more("tier", (item.tier == Tier::Cold).then(|| "cold: in the object store".to_owned()));
    known
}

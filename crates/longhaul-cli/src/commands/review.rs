//! `longhaul review`: what is proposed for shared knowledge, and a person's decisions on it.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use longhaul::{
    Memories,
    memory::user::By,
    workspace::review::{ReviewId, ReviewState, Reviewed, SharedVersion},
};
use serde_json::{Value, json};

use super::{
    memory::place::{Model, PlaceFlags},
    work,
};
use crate::{
    args::Global,
    exit::{Exit, Refusal},
    progress::{Glyph, Ink, print_line},
};

/// Decide on what is proposed for shared knowledge
///
/// Agents propose entries with their evidence; what a person approves becomes a version of its entry and is found by
/// everybody of the tenant who asks for facts. Any version can be restored. Who decides first owns shared knowledge and
/// may let others decide: longhaul memory grants give shared:knowledge USER --write.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  longhaul review list                            what waits for you
  longhaul review show proposal_0192…             with its evidence, beside what holds now
  longhaul review approve proposal_0192… --note \"checked the console\"
  longhaul review reject proposal_0192… --note \"a typo\"
  longhaul review show billing/port               an entry with its versions
  longhaul review rollback billing/port 3
  longhaul review schema port@1 port.schema.json  what values of a schema are")]
pub(crate) struct ReviewArgs {
    #[command(subcommand)]
    command: ReviewCommand,
    #[command(flatten)]
    place: PlaceFlags,
}

#[derive(Debug, Subcommand)]
enum ReviewCommand {
    /// What is proposed and waits
    List {
        /// In this state instead: pending, applied, rejected or all
        #[arg(long, value_name = "STATE", default_value = "pending")]
        state: String,
        /// The entries that hold now instead
        #[arg(long)]
        entries: bool,
    },
    /// A proposal, or an entry with its versions
    Show {
        /// proposal_…, or the key of an entry
        #[arg(value_name = "ID|KEY")]
        id: String,
    },
    /// Approve a proposal: it becomes the newest version of its entry
    Approve {
        /// The proposal
        #[arg(value_name = "PROPOSAL")]
        id: String,
        /// What there is to say to it
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
    },
    /// Reject a proposal; the same on the same evidence is not filed again
    Reject {
        /// The proposal
        #[arg(value_name = "PROPOSAL")]
        id: String,
        /// Why
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
    },
    /// Make what an earlier version of an entry said its newest version
    Rollback {
        /// The entry
        #[arg(value_name = "KEY")]
        key: String,
        /// The version; 0 for nothing
        #[arg(id = "number", value_name = "VERSION")]
        version: u32,
        /// Why
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
    },
    /// Define a schema; a schema never changes
    Schema {
        /// Its id, as in port@1
        #[arg(value_name = "ID")]
        id: String,
        /// A file with a JSON schema
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

/// Runs the command.
pub(crate) fn run(global: &Global, args: &ReviewArgs) -> anyhow::Result<Exit> {
    work::runtime()?.block_on(async {
        let makes = matches!(args.command, ReviewCommand::Schema { .. });
        let memories = args.place.open(global, Model::Unused, makes).await?;
        carry_out(global, &memories, &args.command).await?;
        Ok(Exit::Done)
    })
}

async fn carry_out(global: &Global, memories: &Memories, command: &ReviewCommand) -> anyhow::Result<()> {
    let knowledge = memories.shared_knowledge();
    let by = |note: &Option<String>| By { why: note.clone().unwrap_or_default(), ..By::person(&memories.scope().user) };
    match command {
        ReviewCommand::List { entries: true, .. } => {
            let entries = knowledge.entries("", 500).await?;
            listed(global, &entries, "no entry holds", |entry| version(global, memories, entry))
        }
        ReviewCommand::List { state, entries: false } => {
            let state = if state == "all" { None } else { Some(state.parse::<ReviewState>()?) };
            let proposals = knowledge.proposals(state).await?;
            listed(global, &proposals, "nothing is proposed", |proposal| proposed(global, memories, proposal))
        }
        ReviewCommand::Show { id } => show(global, memories, id).await,
        ReviewCommand::Approve { id, note } => {
            let id: ReviewId = id.parse()?;
            decided(global, memories, &knowledge.approve(&id, &by(note)).await?)
        }
        ReviewCommand::Reject { id, note } => {
            let id: ReviewId = id.parse()?;
            decided(global, memories, &knowledge.reject(&id, &by(note)).await?)
        }
        ReviewCommand::Rollback { key, version: number, note } => {
            let next = knowledge.rollback(key, *number, &by(note)).await?;
            if global.json {
                return Ok(print_line(&serde_json::to_string(&next)?)?);
            }
            let said = format!("version {} of {key} says what version {number} said", next.version);
            Ok(print_line(&format!("{} {said}", global.style().glyph(Glyph::Pass)))?)
        }
        ReviewCommand::Schema { id, file } => {
            let text = std::fs::read_to_string(file)
                .map_err(|error| Refusal::because(Exit::Usage, format!("{}: {error}", file.display())))?;
            let schema: Value = serde_json::from_str(&text)
                .map_err(|error| Refusal::because(Exit::Usage, format!("{} is no JSON: {error}", file.display())))?;
            knowledge.define_schema(id, schema).await?;
            if global.json {
                return Ok(print_line(&json!({"schema": id}).to_string())?);
            }
            Ok(print_line(&format!("{} {id} is defined", global.style().glyph(Glyph::Pass)))?)
        }
    }
}

fn listed<T: serde::Serialize>(
    global: &Global,
    all: &[T],
    nothing: &str,
    line: impl Fn(&T) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    if global.json {
        return Ok(print_line(&serde_json::to_string(all)?)?);
    }
    if all.is_empty() {
        return Ok(print_line(nothing)?);
    }
    all.iter().try_for_each(line)
}

async fn show(global: &Global, memories: &Memories, id: &str) -> anyhow::Result<()> {
    let knowledge = memories.shared_knowledge();
    if let Ok(id) = id.parse::<ReviewId>() {
        let proposal = knowledge.proposal(&id).await?;
        let holds = knowledge.get(&proposal.key).await?;
        if global.json {
            return Ok(print_line(&json!({"proposal": proposal, "holds": holds}).to_string())?);
        }
        proposed(global, memories, &proposal)?;
        for evidence in &proposal.evidence {
            print_line(&format!("  shown by {evidence}"))?;
        }
        let now = holds.map_or_else(|| "nothing holds now".to_owned(), |now| format!("holds now: {}", says(&now)));
        return Ok(print_line(&global.style().paint(Ink::Faint, &format!("  {now}")))?);
    }
    let versions = knowledge.history(id).await?;
    listed(global, &versions, &format!("there is no entry {id}"), |entry| version(global, memories, entry))
}

fn says(version: &SharedVersion) -> String {
    version.said.as_ref().map_or_else(|| "(nothing)".to_owned(), |said| said.value.to_string())
}

fn version(global: &Global, memories: &Memories, entry: &SharedVersion) -> anyhow::Result<()> {
    let style = global.style();
    let lead = format!("{} {}", style.paint(Ink::Strong, &entry.key), says(entry));
    print_line(&style.fit_after(0, &lead))?;
    let at = memories.zone().minute(entry.at);
    let of = entry.of_version.map_or_else(String::new, |of| format!(", back to {of}"));
    let facts = format!("  version {}{of}, {at}, {}", entry.version, entry.actor);
    Ok(print_line(&style.paint(Ink::Faint, &facts))?)
}

fn proposed(global: &Global, memories: &Memories, proposal: &Reviewed) -> anyhow::Result<()> {
    let style = global.style();
    let said = proposal.said.as_ref().map_or_else(|| "(would go)".to_owned(), |said| said.value.to_string());
    let (id, key) = (style.paint(Ink::Strong, &proposal.id.to_string()), &proposal.key);
    print_line(&style.fit_after(0, &format!("{id} {key} {said}")))?;
    let at = memories.zone().minute(proposal.created_at);
    let why = Some(&proposal.why).filter(|why| !why.is_empty()).map_or_else(String::new, |why| format!(": {why}"));
    let lead =
        format!("  {} by {}, {at}, {} shown{why}", proposal.state.as_str(), proposal.proposer, proposal.evidence.len());
    Ok(print_line(&style.paint(Ink::Faint, &style.fit_after(0, &lead)))?)
}

fn decided(global: &Global, memories: &Memories, proposal: &Reviewed) -> anyhow::Result<()> {
    if global.json {
        return Ok(print_line(&serde_json::to_string(proposal)?)?);
    }
    let version = proposal.version.map_or_else(String::new, |version| format!(" as version {version}"));
    let style = global.style();
    print_line(&format!("{} {} {}{version}", style.glyph(Glyph::Pass), proposal.key, proposal.state.as_str()))?;
    proposed(global, memories, proposal)
}

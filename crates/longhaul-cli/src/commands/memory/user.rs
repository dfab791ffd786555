//! `longhaul memory user`: what is known of a person, changed at once by them, or proposed and reviewed.

use clap::{Args, Subcommand, ValueEnum};
use longhaul::memory::user::{
    Block, By, Decision, EntryId, EntryRef, Proposal, ProposalId, ProposalState, RenderLimits, Switches, Target,
    UserMemory, UserMemoryEdit, Version,
};
use serde_json::json;

use super::place::{Model, PlaceFlags};
use crate::{
    args::Global,
    exit::Exit,
    progress::{Glyph, Ink, print_line},
};

/// See and change what is known of you: name, background, projects, preferences
///
/// Agents are given these entries with every request. What you write here counts at once; what a background pass
/// gathers from conversations is proposed, and becomes part of it when the policy or a person accepts it. Every change
/// is a version that can be looked at and restored. Two switches turn the gathering, or all memory, off.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  longhaul memory user                             what is known
  longhaul memory user add \"Prefers short answers\"
  longhaul memory user replace \"short answers\" \"Prefers short answers with an example\"
  longhaul memory user remove u3
  longhaul memory user proposals                   what waits for you
  longhaul memory user accept ID; longhaul memory user reject ID
  longhaul memory user history; longhaul memory user restore 4
  longhaul memory user switch --implicit off")]
pub(super) struct UserArgs {
    #[command(subcommand)]
    command: Option<UserCommand>,
    #[command(flatten)]
    place: PlaceFlags,
}

#[derive(Debug, Subcommand)]
enum UserCommand {
    /// Keep something; what it contradicts is replaced
    Add {
        /// One line, at most 400 characters
        #[arg(value_name = "TEXT")]
        text: String,
    },
    /// Say an entry otherwise
    Replace {
        /// Its number, or a part of its text that no other entry has
        #[arg(value_name = "ENTRY")]
        entry: String,
        /// What it says from now on
        #[arg(value_name = "TEXT")]
        text: String,
    },
    /// Take an entry out; earlier versions keep it
    Remove {
        /// Its number, or a part of its text that no other entry has
        #[arg(value_name = "ENTRY")]
        entry: String,
    },
    /// What was proposed and waits
    Proposals {
        /// Decided ones as well
        #[arg(long)]
        all: bool,
    },
    /// Accept a proposal
    Accept {
        /// The proposal
        #[arg(value_name = "ID")]
        id: ProposalId,
        /// With this text instead
        #[arg(long, value_name = "TEXT")]
        text: Option<String>,
    },
    /// Reject a proposal
    Reject {
        /// The proposal
        #[arg(value_name = "ID")]
        id: ProposalId,
    },
    /// Take back what an accepted proposal changed
    Undo {
        /// The proposal
        #[arg(value_name = "ID")]
        id: ProposalId,
    },
    /// Every version: who changed what, when and why
    History {
        /// The newest so many
        #[arg(long, value_name = "N", default_value_t = 20)]
        limit: usize,
    },
    /// Make an earlier version the newest again
    Restore {
        /// Its number
        #[arg(value_name = "VERSION")]
        version: u32,
    },
    /// Turn gathering, or all memory of this user, on or off
    Switch {
        /// Everything: nothing is written, searched or given to agents while it is off
        #[arg(long, value_name = "ON|OFF")]
        memory: Option<OnOff>,
        /// What is gathered from conversations
        #[arg(long, value_name = "ON|OFF")]
        implicit: Option<OnOff>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OnOff {
    On,
    Off,
}

/// Runs the command.
pub(super) async fn run(global: &Global, args: &UserArgs) -> anyhow::Result<Exit> {
    let changes = args.command.is_some();
    let memories = args.place.open(global, Model::Unused, changes).await?;
    let (user, scope) = (memories.user(), memories.scope());
    let by = By::person(&scope.user);
    let done = |error| longhaul::MemoriesError::from(error);
    match &args.command {
        None => show(global, &memories).await,
        Some(UserCommand::Add { text }) => {
            edit(global, &memories, &user, UserMemoryEdit::Add { block: None, text: text.clone() }).await
        }
        Some(UserCommand::Replace { entry, text }) => {
            edit(global, &memories, &user, UserMemoryEdit::Replace { entry: named(entry), text: text.clone() }).await
        }
        Some(UserCommand::Remove { entry }) => {
            edit(global, &memories, &user, UserMemoryEdit::Remove { entry: named(entry) }).await
        }
        Some(UserCommand::Proposals { all }) => {
            let state = (!all).then_some(ProposalState::Pending);
            let found = user.proposals(scope, state).await.map_err(done)?;
            proposals(global, &memories, &found)
        }
        Some(UserCommand::Accept { id, text }) => {
            let decision = text.clone().map_or(Decision::Accept, Decision::AcceptAs);
            let decided = user.review(scope, id, decision, by).await.map_err(done)?;
            proposals(global, &memories, &[decided])
        }
        Some(UserCommand::Reject { id }) => {
            let decided = user.review(scope, id, Decision::Reject, by).await.map_err(done)?;
            proposals(global, &memories, &[decided])
        }
        Some(UserCommand::Undo { id }) => {
            let undone = user.undo(scope, id, by).await.map_err(done)?;
            proposals(global, &memories, &[undone])
        }
        Some(UserCommand::History { limit }) => {
            let found = user.history(scope, None, *limit).await.map_err(done)?;
            history(global, &memories, &found)
        }
        Some(UserCommand::Restore { version }) => {
            let made = user.rollback(scope, *version, by).await.map_err(done)?;
            said(
                global,
                json!({ "version": made, "restored": version }),
                &format!("version {version} is restored, as version {made}"),
            )
        }
        Some(UserCommand::Switch { memory, implicit }) => switch(global, &memories, *memory, *implicit).await,
    }
}

/// A number, or words of the entry.
fn named(entry: &str) -> EntryRef {
    entry.trim().parse::<EntryId>().map_or_else(|_| EntryRef::Containing(entry.to_owned()), EntryRef::Id)
}

fn said(global: &Global, object: serde_json::Value, line: &str) -> anyhow::Result<Exit> {
    if global.json {
        print_line(&object.to_string())?;
    } else {
        print_line(&format!("{} {line}", global.style().glyph(Glyph::Pass)))?;
    }
    Ok(Exit::Done)
}

async fn edit(
    global: &Global,
    memories: &longhaul::Memories,
    user: &UserMemory,
    edit: UserMemoryEdit,
) -> anyhow::Result<Exit> {
    let edited = user.edit(memories.scope(), edit).await.map_err(longhaul::MemoriesError::from)?;
    if global.json {
        print_line(&serde_json::to_string(&edited)?)?;
        return Ok(Exit::Done);
    }
    let entry = edited.entry.map(|entry| entry.to_string()).unwrap_or_default();
    said(global, json!(null), &format!("entry {entry}, version {}", edited.version))
}

async fn show(global: &Global, memories: &longhaul::Memories) -> anyhow::Result<Exit> {
    let (user, scope) = (memories.user(), memories.scope());
    let done = |error| longhaul::MemoriesError::from(error);
    let entries = user.entries(scope).await.map_err(done)?;
    let switches = user.switches(scope).await.map_err(done)?;
    if global.json {
        let rendered = user.render(scope, RenderLimits::default()).await.map_err(done)?;
        print_line(&json!({ "entries": entries, "switches": switches, "rendered": rendered.text }).to_string())?;
        return Ok(Exit::Done);
    }
    let style = global.style();
    let mut block: Option<Block> = None;
    let mut sorted = entries;
    sorted.sort_by_key(|entry| (Block::ALL.iter().position(|block| *block == entry.block), entry.id));
    for entry in &sorted {
        if block != Some(entry.block) {
            block = Some(entry.block);
            print_line(&style.paint(Ink::Strong, entry.block.as_str()))?;
        }
        print_line(&format!("  {:>4}  {}", entry.id.to_string(), style.fit_after(8, &entry.text)))?;
    }
    if sorted.is_empty() {
        print_line("nothing is known yet: longhaul memory user add TEXT")?;
    }
    for line in switched(switches) {
        print_line(&format!("{} {line}", style.glyph(Glyph::Notice)))?;
    }
    Ok(Exit::Done)
}

fn switched(switches: Switches) -> Vec<&'static str> {
    match (switches.memory, switches.implicit) {
        (false, _) => vec!["all memory of this user is switched off"],
        (true, false) => vec!["nothing is gathered from conversations: switched off"],
        (true, true) => Vec::new(),
    }
}

async fn switch(
    global: &Global,
    memories: &longhaul::Memories,
    memory: Option<OnOff>,
    implicit: Option<OnOff>,
) -> anyhow::Result<Exit> {
    let (user, scope) = (memories.user(), memories.scope());
    let done = |error| longhaul::MemoriesError::from(error);
    let was = user.switches(scope).await.map_err(done)?;
    let on = |given: Option<OnOff>, was: bool| given.map_or(was, |given| given == OnOff::On);
    let now = Switches { memory: on(memory, was.memory), implicit: on(implicit, was.implicit) };
    if now != was {
        user.switch(scope, now).await.map_err(done)?;
    }
    let word = |on: bool| if on { "on" } else { "off" };
    let line = format!("memory is {}, gathering from conversations is {}", word(now.memory), word(now.implicit));
    said(global, serde_json::to_value(now)?, &line)
}

fn proposals(global: &Global, memories: &longhaul::Memories, found: &[Proposal]) -> anyhow::Result<Exit> {
    let style = global.style();
    for proposal in found {
        if global.json {
            print_line(&serde_json::to_string(proposal)?)?;
            continue;
        }
        let state = serde_json::to_value(proposal.state)?;
        let state = state.as_str().unwrap_or_default().to_owned();
        let facts =
            [state, memories.zone().day(proposal.created_at), proposal.proposer.to_string(), proposal.id.to_string()];
        print_line(&format!("{} {}", style.glyph(Glyph::Notice), style.fit_after(2, &facts.join(style.dot()))))?;
        print_line(&format!("    {}", style.fit_after(4, &wanted(&proposal.target))))?;
        for more in [proposal.quote.as_ref().map(|quote| format!("\u{201c}{quote}\u{201d}")), proposal.why.clone()]
            .into_iter()
            .flatten()
        {
            print_line(&style.paint(Ink::Faint, &format!("    {}", style.fit_after(4, &more))))?;
        }
    }
    if found.is_empty() && !global.json {
        print_line("nothing waits")?;
    }
    Ok(Exit::Done)
}

/// What a proposal would change, in a line.
fn wanted(target: &Target) -> String {
    match target {
        Target::Add { block, text, .. } => format!("add to {block}: {text}"),
        Target::Replace { text, before, .. } => format!("{before} -> {text}"),
        Target::Remove { before, .. } => format!("remove: {before}"),
        Target::Memory(memory) => format!("remember in {}: {}", memory.namespace, memory.content),
    }
}

fn history(global: &Global, memories: &longhaul::Memories, found: &[Version]) -> anyhow::Result<Exit> {
    let style = global.style();
    for version in found {
        if global.json {
            print_line(&serde_json::to_string(version)?)?;
            continue;
        }
        let facts = [memories.zone().minute(version.at), version.actor.to_string(), version.why.clone()];
        let facts: Vec<String> = facts.into_iter().filter(|fact| !fact.is_empty()).collect();
        print_line(&format!(
            "{:>4} {}",
            version.version,
            style.paint(Ink::Faint, &style.fit_after(5, &facts.join(style.dot())))
        ))?;
        for change in &version.changes {
            let (before, after) = (change.before.as_deref(), change.after.as_deref());
            let line = match (before, after) {
                (None, Some(after)) => format!("+ {after}"),
                (Some(before), None) => format!("- {before}"),
                (Some(before), Some(after)) => format!("{before} -> {after}"),
                (None, None) => continue,
            };
            print_line(&format!("     {}", style.fit_after(5, &line)))?;
        }
    }
    if found.is_empty() && !global.json {
        print_line("nothing was changed yet")?;
    }
    Ok(Exit::Done)
}

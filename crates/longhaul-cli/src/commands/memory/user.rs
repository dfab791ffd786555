//! `longhaul memory user`: what is remembered of a person, and everything that person may do about it.

use clap::{Args, Subcommand};
use longhaul::{
    Memories,
    memory::user::{
        Block, By, Decision, Edited, Effect, Entry, EntryId, EntryRef, Proposal, ProposalId, ProposalState, Switches,
        UserMemoryEdit,
    },
};
use serde::Serialize;
use serde_json::json;

use super::place::{Model, PlaceFlags};
use crate::{
    args::Global,
    exit::Exit,
    progress::{Glyph, Ink, print_line},
};

/// See and change what is remembered of you
///
/// Entries of one line in six blocks, which agents get with every conversation. What you write yourself stays until you
/// change it. What is found in conversations is proposed, applied when it is plain enough, and fades when the
/// conversations are deleted. Every change is a version that can be restored.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  longhaul memory user                               what is remembered
  longhaul memory user add \"I prefer tabs over spaces\"
  longhaul memory user replace u3 \"I live in Lisbon\"
  longhaul memory user proposals                     what waits for you
  longhaul memory user accept prop_0192…
  longhaul memory user history && longhaul memory user rollback 4
  longhaul memory user erase u3                      from every version, for good
  longhaul memory user off                           no memory at all; `on` again, `implicit-off` learns nothing

Everything about it: docs/memory-user.md")]
pub(super) struct UserArgs {
    #[command(subcommand)]
    command: Option<UserCommand>,
    #[command(flatten)]
    place: PlaceFlags,
}

#[derive(Debug, Subcommand)]
enum UserCommand {
    /// Remember something of yourself
    Add {
        /// One line, at most 400 characters
        #[arg(value_name = "TEXT")]
        text: String,
        /// identity, instructions, preferences, projects, people or other; left out, the text decides
        #[arg(long, value_name = "BLOCK")]
        block: Option<Block>,
    },
    /// Say an entry otherwise
    Replace {
        /// Its id, or words that only it contains
        #[arg(value_name = "ENTRY")]
        entry: String,
        /// What it says from now on
        #[arg(value_name = "TEXT")]
        text: String,
    },
    /// Take an entry out; earlier versions keep it
    Remove {
        /// Its id, or words that only it contains
        #[arg(value_name = "ENTRY")]
        entry: String,
    },
    /// Erase an entry from every version, for good
    Erase {
        /// Its id
        #[arg(value_name = "ENTRY")]
        entry: EntryId,
    },
    /// Every version: who changed what, when and why
    History,
    /// Make what an earlier version held the newest version
    Rollback {
        /// Its number; 0 is the empty one
        #[arg(id = "number", value_name = "VERSION")]
        version: u32,
    },
    /// What is proposed and waits for you
    Proposals {
        /// Those that were decided as well
        #[arg(long)]
        all: bool,
    },
    /// Accept a proposal
    Accept {
        /// Its id
        #[arg(value_name = "PROPOSAL")]
        id: ProposalId,
        /// In these words instead
        #[arg(long, value_name = "TEXT")]
        text: Option<String>,
    },
    /// Reject a proposal; the same is not proposed again
    Reject {
        /// Its id
        #[arg(value_name = "PROPOSAL")]
        id: ProposalId,
    },
    /// Take back what an accepted proposal wrote
    Undo {
        /// Its id
        #[arg(value_name = "PROPOSAL")]
        id: ProposalId,
    },
    /// A conversation is deleted: what only it taught fades
    Deleted {
        /// The conversation
        #[arg(value_name = "THREAD")]
        thread: String,
    },
    /// Switch all memory, and what is learned from conversations, on
    On,
    /// Switch all memory off: nothing is written, searched or shown to agents
    Off,
    /// Switch off what is learned from conversations
    ImplicitOff,
    /// Everything kept of your user memory, as JSON
    Export,
}

/// Runs the command.
pub(super) async fn run(global: &Global, args: &UserArgs) -> anyhow::Result<Exit> {
    let memories = args.place.open(global, Model::Unused, true).await?;
    let (user, scope) = (memories.user_memory(), memories.scope().clone());
    let by = By::person(&scope.user);
    let edit = async |edit| user.edit(&scope, edit).await;
    match &args.command {
        None => show(global, &memories).await?,
        Some(UserCommand::Add { text, block }) => {
            edited(global, &edit(UserMemoryEdit::Add { block: *block, text: text.clone() }).await?)?;
        }
        Some(UserCommand::Replace { entry, text }) => {
            edited(global, &edit(UserMemoryEdit::Replace { entry: named(entry), text: text.clone() }).await?)?;
        }
        Some(UserCommand::Remove { entry }) => {
            edited(global, &edit(UserMemoryEdit::Remove { entry: named(entry) }).await?)?;
        }
        Some(UserCommand::Erase { entry }) => {
            let erased = user.erase(&scope, *entry, by).await?;
            let said =
                if erased { format!("{entry} is erased from every version") } else { format!("there was no {entry}") };
            told(global, &said, &json!({"entry": entry, "erased": erased}))?;
        }
        Some(UserCommand::History) => history(global, &memories).await?,
        Some(UserCommand::Rollback { version }) => {
            let newest = user.rollback(&scope, *version, by).await?;
            told(global, &format!("version {newest} holds what version {version} held"), &json!({"version": newest}))?;
        }
        Some(UserCommand::Proposals { all }) => {
            let state = (!all).then_some(ProposalState::Pending);
            let proposals = user.proposals(&scope, state).await?;
            if proposals.is_empty() && !global.json {
                print_line("nothing is proposed")?;
            }
            for proposal in &proposals {
                proposed(global, proposal)?;
            }
        }
        Some(UserCommand::Accept { id, text }) => {
            let decision = text.clone().map_or(Decision::Accept, Decision::AcceptAs);
            proposed(global, &user.review(&scope, id, decision, by).await?)?;
        }
        Some(UserCommand::Reject { id }) => proposed(global, &user.review(&scope, id, Decision::Reject, by).await?)?,
        Some(UserCommand::Undo { id }) => proposed(global, &user.undo(&scope, id, by).await?)?,
        Some(UserCommand::Deleted { thread }) => {
            let faded = user.conversation_deleted(&scope, thread).await?;
            let many = faded.len();
            told(global, &format!("{many} entries faded"), &json!({"faded": faded}))?;
        }
        Some(UserCommand::On) => switched(global, &memories, Switches::default()).await?,
        Some(UserCommand::Off) => switched(global, &memories, Switches { memory: false, implicit: false }).await?,
        Some(UserCommand::ImplicitOff) => {
            switched(global, &memories, Switches { memory: true, implicit: false }).await?;
        }
        Some(UserCommand::Export) => print_line(&serde_json::to_string_pretty(&user.export(&scope).await?)?)?,
    }
    Ok(Exit::Done)
}

fn named(entry: &str) -> EntryRef {
    entry.parse().map_or_else(|_| EntryRef::Containing(entry.to_owned()), EntryRef::Id)
}

fn told(global: &Global, said: &str, data: &impl Serialize) -> anyhow::Result<()> {
    if global.json {
        return Ok(print_line(&serde_json::to_string(data)?)?);
    }
    Ok(print_line(&format!("{} {said}", global.style().glyph(Glyph::Pass)))?)
}

fn edited(global: &Global, edited: &Edited) -> anyhow::Result<()> {
    let entry = edited.entry.map_or_else(String::new, |entry| entry.to_string());
    let said = match &edited.effect {
        Some(Effect::Added) => format!("remembered as {entry}"),
        Some(Effect::Replaced(before)) => format!("{entry} says so now; it said: {before}"),
        Some(Effect::Confirmed) | None => format!("{entry} says so already"),
        Some(Effect::Removed(text)) => format!("removed {entry}: {text}"),
    };
    told(global, &said, &json!({"version": edited.version, "entry": edited.entry, "effect": edited.effect}))
}

async fn show(global: &Global, memories: &Memories) -> anyhow::Result<()> {
    let (user, scope) = (memories.user_memory(), memories.scope());
    let (entries, switches) = (user.entries(scope).await?, user.switches(scope).await?);
    if global.json {
        return Ok(print_line(&json!({"entries": entries, "switches": switches}).to_string())?);
    }
    let style = global.style();
    for block in Block::ALL {
        let of_block: Vec<&Entry> = entries.iter().filter(|entry| entry.block == *block).collect();
        if of_block.is_empty() {
            continue;
        }
        print_line(&style.paint(Ink::Strong, block.as_str()))?;
        for entry in of_block {
            let origin = style.paint(Ink::Faint, &format!("({})", entry.origin));
            print_line(&format!("  {} {} {origin}", entry.id, entry.text))?;
        }
    }
    if entries.is_empty() {
        print_line("nothing is remembered of you yet; `longhaul memory user add TEXT` begins")?;
    }
    if !switches.memory {
        print_line("memory is switched off; `longhaul memory user on` switches it on")?;
    } else if !switches.implicit {
        print_line("nothing is learned from conversations; `longhaul memory user on` switches that on")?;
    }
    Ok(())
}

async fn switched(global: &Global, memories: &Memories, switches: Switches) -> anyhow::Result<()> {
    memories.user_memory().switch(memories.scope(), switches).await?;
    let on = |on: bool| if on { "on" } else { "off" };
    let said = format!("memory is {}, learning from conversations is {}", on(switches.memory), on(switches.implicit));
    told(global, &said, &switches)
}

async fn history(global: &Global, memories: &Memories) -> anyhow::Result<()> {
    let versions = memories.user_memory().history(memories.scope(), None, 1_000).await?;
    if versions.is_empty() && !global.json {
        print_line("there is no version yet")?;
    }
    for version in &versions {
        if global.json {
            print_line(&serde_json::to_string(version)?)?;
            continue;
        }
        let why = if version.why.is_empty() { String::new() } else { format!(": {}", version.why) };
        print_line(&format!("{} {:?} by {}{why}", version.version, version.action, version.actor))?;
        for change in &version.changes {
            for (mark, text) in [("-", &change.before), ("+", &change.after)] {
                if let Some(text) = text {
                    print_line(&format!("  {mark} {} {text}", change.entry))?;
                }
            }
        }
    }
    Ok(())
}

fn proposed(global: &Global, proposal: &Proposal) -> anyhow::Result<()> {
    if global.json {
        return Ok(print_line(&serde_json::to_string(proposal)?)?);
    }
    use longhaul::memory::user::Target;
    let what = match &proposal.target {
        Target::Add { block, text, .. } => format!("remember in {block}: {text}"),
        Target::Replace { entry, text, before, .. } => format!("{entry} says {text:?} instead of {before:?}"),
        Target::Remove { entry, before } => format!("remove {entry}: {before}"),
        Target::Memory(memory) => format!("a {} in {}: {}", memory.kind, memory.namespace, memory.content),
    };
    let why = proposal.why.as_deref().map_or_else(String::new, |why| format!(" ({why})"));
    print_line(&format!("{} {} {what}{why}", proposal.id, proposal.state))?;
    if let Some(quote) = &proposal.quote {
        print_line(&global.style().paint(Ink::Faint, &format!("  said: {quote}")))?;
    }
    Ok(())
}

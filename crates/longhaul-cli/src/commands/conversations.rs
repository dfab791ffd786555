//! `longhaul conversations`: what was said, found again.

use clap::{Args, Subcommand, ValueEnum};
use longhaul::{
    SessionId,
    workspace::sessions::{ConversationQuery, Conversations, Role},
};

use super::{
    memory::place::{Model, PlaceFlags},
    work,
};
use crate::{
    args::Global,
    exit::Exit,
    progress::{Glyph, Ink, print_line},
};

/// Find what was said in past conversations
#[derive(Debug, Args)]
pub(crate) struct ConversationsArgs {
    #[command(subcommand)]
    command: ConversationsCommand,
    #[command(flatten)]
    place: PlaceFlags,
}

#[derive(Debug, Subcommand)]
enum ConversationsCommand {
    Search(Search),
}

/// Find what you or a model said, in any words, and of the time that the question names
///
/// A vague question with a time finds what was said then ("that project last month"). Prints time, who said it, the
/// conversation with the message's number, and the part that answers. The same search is a tool for agents,
/// conversation_search. Searching changes nothing.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  longhaul conversations search \"that project last month\"
  longhaul conversations search \"why did we drop the cache\" --role assistant
  longhaul conversations search 上个月的部署 --tokens 800
  longhaul conversations search \"customs form\" --also Zollerklärung --when 2026-10
  longhaul conversations search                   the newest")]
struct Search {
    /// What to look for, in any words and any language; may name a time
    #[arg(value_name = "QUESTION", default_value = "")]
    text: String,
    /// The same in other words or another language; may be given four times
    #[arg(long, value_name = "TEXT")]
    also: Vec<String>,
    /// When it was said: last month, 2 weeks ago, 2026-10, 昨天
    #[arg(long, value_name = "TIME")]
    when: Option<String>,
    /// Only in this conversation
    #[arg(long, value_name = "ID")]
    session: Option<SessionId>,
    /// Only what this side said
    #[arg(long, value_name = "ROLE")]
    role: Option<Side>,
    /// The best so many, at most 50
    #[arg(short, long, value_name = "N", default_value_t = 8)]
    k: usize,
    /// Most tokens of the answer, as a model would get it; at most 16000
    #[arg(long, value_name = "N", default_value_t = 4_000)]
    tokens: u64,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Side {
    User,
    Assistant,
}

/// Runs the command.
pub(crate) fn run(global: &Global, args: &ConversationsArgs) -> anyhow::Result<Exit> {
    let ConversationsCommand::Search(search) = &args.command;
    work::runtime()?.block_on(async {
        let memories = args.place.open(global, Model::Wanted, false).await?;
        let query = ConversationQuery {
            also: search.also.clone(),
            when: search.when.clone(),
            session: search.session.clone(),
            role: search.role.map(|side| match side {
                Side::User => Role::User,
                Side::Assistant => Role::Assistant,
            }),
            hits: search.k,
            tokens: search.tokens,
            zone: memories.zone().clone(),
            ..ConversationQuery::new(search.text.as_str())
        };
        let found = memories.sessions().search(&query).await?;
        if global.json {
            print_line(&serde_json::to_string(&found)?)?;
        } else {
            show(global, memories.zone(), &found)?;
        }
        Ok(Exit::Done)
    })
}

fn show(global: &Global, zone: &longhaul::memory::when::Zone, found: &Conversations) -> anyhow::Result<()> {
    let style = global.style();
    for hit in &found.hits {
        let place = format!("{} {:<9} {} #{}", zone.minute(hit.at), hit.role, hit.session, hit.seq);
        print_line(&format!("{} {}", style.paint(Ink::Strong, &place), style.paint(Ink::Faint, &hit.title)))?;
        print_line(&format!("  {}", hit.snippet))?;
    }
    let many = match found.hits.len() {
        0 => "nothing was said that answers this".to_owned(),
        many => format!("{many} found, {} tokens", found.tokens),
    };
    let time = found.asked_time.as_ref().map_or_else(String::new, |words| format!("{}of \"{words}\"", style.dot()));
    print_line(&style.paint(Ink::Faint, &format!("{many}{time}")))?;
    let more = (found.left_out > 0).then(|| format!("{} more had no room: --tokens N", found.left_out));
    for note in found.notes.iter().cloned().chain(more) {
        print_line(&format!("{} {}", style.glyph(Glyph::Notice), style.fit_after(2, &note)))?;
    }
    Ok(())
}

//! `longhaul sessions`: the conversations there are; their words, their memo, their end.

use clap::{Args, Subcommand};
use longhaul::{Memories, SessionId, workspace::sessions::StoredMessage};
use serde_json::json;

use super::{
    memory::place::{Model, PlaceFlags},
    work,
};
use crate::{
    args::Global,
    exit::{Exit, Refusal},
    progress::{Glyph, Ink, count, print_line},
};

/// Look at conversations, their memo, and delete them
///
/// A conversation holds what was said, with the refs of records that belong to it. Find words in all of them with
/// longhaul conversations search.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  longhaul sessions list
  longhaul sessions show sess_0192… --last 20
  longhaul sessions memo sess_0192… \"answers in French, please\"
  longhaul sessions delete sess_0192… --yes")]
pub(crate) struct SessionsArgs {
    #[command(subcommand)]
    command: SessionsCommand,
    #[command(flatten)]
    place: PlaceFlags,
}

#[derive(Debug, Subcommand)]
enum SessionsCommand {
    /// The conversations, the newest first
    List {
        /// So many at most
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: usize,
        /// Those after this page: the `next` that the last page ended with
        #[arg(long, value_name = "NEXT")]
        after: Option<String>,
    },
    /// What was said in one, with its memo and summary
    Show {
        /// The conversation
        #[arg(value_name = "ID")]
        session: SessionId,
        /// Only the newest so many messages
        #[arg(long, value_name = "N", default_value_t = 50)]
        last: u64,
    },
    /// Show the memo that every request of a conversation carries, or write it
    Memo {
        /// The conversation
        #[arg(value_name = "ID")]
        session: SessionId,
        /// What it says from now on; "" for nothing
        #[arg(value_name = "TEXT")]
        text: Option<String>,
    },
    /// Delete a conversation: its messages, what is found of them, and what only it taught of you
    Delete {
        /// The conversation
        #[arg(value_name = "ID")]
        session: SessionId,
        /// Really
        #[arg(long)]
        yes: bool,
    },
}

/// Runs the command.
pub(crate) fn run(global: &Global, args: &SessionsArgs) -> anyhow::Result<Exit> {
    work::runtime()?.block_on(async {
        let memories = args.place.open(global, Model::Unused, false).await?;
        match &args.command {
            SessionsCommand::List { limit, after } => list(global, &memories, *limit, after.as_deref()).await?,
            SessionsCommand::Show { session, last } => show(global, &memories, session, *last).await?,
            SessionsCommand::Memo { session, text } => memo(global, &memories, session, text.as_deref()).await?,
            SessionsCommand::Delete { session, yes } => delete(global, &memories, session, *yes).await?,
        }
        Ok(Exit::Done)
    })
}

async fn list(global: &Global, memories: &Memories, limit: usize, after: Option<&str>) -> anyhow::Result<()> {
    let page = memories.sessions().list(after, limit).await?;
    if global.json {
        return Ok(print_line(&serde_json::to_string(&page)?)?);
    }
    let style = global.style();
    if page.sessions.is_empty() {
        return Ok(print_line("there are no conversations")?);
    }
    for info in &page.sessions {
        let lead = format!("{} {:>4}", memories.zone().minute(info.updated_at), info.messages);
        let title = if info.title.is_empty() { "(nobody has asked anything)" } else { &info.title };
        let line = format!("{lead} {} {title}", info.session);
        print_line(&style.fit_after(0, &line))?;
    }
    if let Some(next) = page.next {
        print_line(&style.paint(Ink::Faint, &format!("more: --after {next}")))?;
    }
    Ok(())
}

async fn show(global: &Global, memories: &Memories, session: &SessionId, last: u64) -> anyhow::Result<()> {
    let info = memories.sessions().get(session).await?;
    let after = i64::try_from(info.messages.saturating_sub(last)).unwrap_or(0);
    let talk = memories.sessions().reopen(&info);
    let mut messages: Vec<StoredMessage> = Vec::new();
    let mut from = after;
    loop {
        let page = talk.messages(from, 500).await?;
        let Some(newest) = page.last() else { break };
        from = newest.seq;
        messages.extend(page);
    }
    if global.json {
        return Ok(print_line(&json!({"session": info, "messages": messages}).to_string())?);
    }
    let style = global.style();
    let heading = |text: &str| style.paint(Ink::Strong, text);
    print_line(&heading(&format!("{} {}", info.session, info.title)))?;
    let began = memories.zone().minute(info.created_at);
    let facts = format!("{}, {} bytes, began {began} in {}", count(info.messages, "message"), info.bytes, info.task);
    print_line(&style.paint(Ink::Faint, &facts))?;
    for (name, text) in [("memo", Some(&info.memo)), ("summary", info.summary.as_ref())] {
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            print_line(&format!("{} {text}", heading(name)))?;
        }
    }
    for message in &messages {
        let at = memories.zone().minute(message.at);
        let lead = format!("#{} {at} {}", message.seq, message.role);
        let answers = message.answers.as_ref().map_or_else(String::new, |call| format!(" to {call}"));
        print_line(&heading(&format!("{lead}{answers}")))?;
        if !message.content.is_empty() {
            print_line(&message.content)?;
        }
        for call in &message.tool_calls {
            print_line(&style.fit_after(0, &format!("  calls {} ({}) {}", call.name, call.id, call.arguments)))?;
        }
        for record in &message.attachments {
            print_line(&format!("  attached {}", record.id))?;
        }
    }
    Ok(())
}

async fn memo(global: &Global, memories: &Memories, session: &SessionId, text: Option<&str>) -> anyhow::Result<()> {
    let info = memories.sessions().get(session).await?;
    let talk = memories.sessions().reopen(&info);
    let memo = match text {
        None => talk.memo().await?,
        Some(text) => talk.set_memo(text, None).await?,
    };
    if global.json {
        return Ok(print_line(&json!({"memo": memo.text, "version": memo.version}).to_string())?);
    }
    if text.is_some() {
        return Ok(print_line(&format!("{} version {}", global.style().glyph(Glyph::Pass), memo.version))?);
    }
    Ok(print_line(if memo.text.is_empty() { "there is no memo" } else { &memo.text })?)
}

async fn delete(global: &Global, memories: &Memories, session: &SessionId, yes: bool) -> anyhow::Result<()> {
    let sessions = memories.sessions();
    // What an earlier deletion left unfinished is seen through first.
    let unfinished = sessions.tend().await?;
    let deleted = match unfinished.into_iter().find(|deleted| deleted.session == *session) {
        Some(deleted) => deleted,
        None => {
            let info = sessions.get(session).await?;
            if !yes {
                let what = format!(
                    "{} and what is known from this conversation alone would go for good; say --yes",
                    count(info.messages, "message")
                );
                return Err(Refusal::because(Exit::Usage, what));
            }
            sessions.delete(session).await?
        }
    };
    if global.json {
        return Ok(print_line(&serde_json::to_string(&deleted)?)?);
    }
    let style = global.style();
    let gone = format!(
        "{} and {} of the index are gone, {} faded",
        count(deleted.messages, "message"),
        count(deleted.index_rows, "row"),
        match deleted.faded.len() {
            1 => "1 entry of user memory".to_owned(),
            many => format!("{many} entries of user memory"),
        }
    );
    print_line(&format!("{} {gone}", style.glyph(Glyph::Pass)))?;
    for entry in &deleted.faded {
        print_line(&style.paint(Ink::Faint, &format!("  {}: {}", entry.id, entry.text)))?;
    }
    for pending in &deleted.pending {
        print_line(&format!("{} {pending}", style.glyph(Glyph::Notice)))?;
    }
    Ok(())
}

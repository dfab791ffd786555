//! `longhaul memory add`: one memory, from the command line or standard input.

use std::io::{IsTerminal, Read, stdin};

use clap::Args;
use longhaul::{
    Remembering, TaskId,
    memory::{CONTENT_BYTES_MAX, Index, Kind, Source},
};
use serde_json::json;

use super::place::{Into, Model, PlaceFlags};
use crate::{
    args::Global,
    exit::{Exit, Refusal},
    progress::{Glyph, Ink, print_line},
};

/// Remember a text
///
/// It is on disk when the command returns, and found by the next search: by its words in any case, by its meaning if the
/// embedding model is installed. Prints the memory's id. Nothing is rewritten or summarised: what you write is what is
/// remembered.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  longhaul memory add \"The staging server is called moss\"
  longhaul memory add --kind decision --tag db \"SQLite, because nobody has to run it\"
  longhaul memory add --meta severity=4 --thread incident-7 < report.txt
  longhaul memory add --subject ada --attribute \"home town\" --valid-from 2024-05 \"Ada lives in Lyon\"
  longhaul memory add --expires 30d \"The key under the mat is for the plumber\"

Kinds, and after how long half of what can fade of their weight is gone:
  progress, episode 30 days; commit 90 days; note, lesson 180 days; decision 365 days;
  fact, preference never")]
pub(super) struct Add {
    /// The text, at most 64 KiB; standard input without it, or with -
    #[arg(value_name = "TEXT")]
    text: Option<String>,
    /// What sort of thing it is; it decides how fast it fades [default: note, or fact with --subject]
    #[arg(long, value_name = "KIND")]
    kind: Option<Kind>,
    /// A group of memories by name
    #[arg(long, value_name = "NAME", default_value = "notes")]
    collection: String,
    /// Whose words they are: user, agent, tool, outside
    #[arg(long, value_name = "SOURCE", default_value = "user")]
    source: Source,
    /// A tag; may be given several times
    #[arg(long, value_name = "TAG")]
    tag: Vec<String>,
    /// Metadata to filter by; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    meta: Vec<String>,
    /// From 0 to 1; 0.5 is ordinary
    #[arg(long, value_name = "NUMBER", default_value_t = 0.5)]
    importance: f32,
    /// Keep it hot and important, whatever its age
    #[arg(long)]
    pin: bool,
    /// The conversation, session or document it belongs to; its neighbours there are its context
    #[arg(long, value_name = "NAME")]
    thread: Option<String>,
    /// The task it belongs to
    #[arg(long, value_name = "ID")]
    task: Option<TaskId>,
    /// When it happened, if not now
    #[arg(long, value_name = "TIME")]
    happened: Option<String>,
    /// When it is to be gone: 30d, 2026-12-31
    #[arg(long, value_name = "TIME")]
    expires: Option<String>,
    /// It is a fact about this: a newer one with the same attribute replaces it, and the old one stays in the history
    #[arg(long, value_name = "SUBJECT")]
    subject: Option<String>,
    /// What it says about the subject
    #[arg(long, value_name = "NAME")]
    attribute: Option<String>,
    /// Since when it is true
    #[arg(long, value_name = "TIME")]
    valid_from: Option<String>,
    /// Until when it was true
    #[arg(long, value_name = "TIME")]
    valid_to: Option<String>,
    /// How it can be found: both, words, meaning, nothing (by filters and id alone)
    #[arg(long, value_name = "HOW", default_value = "both")]
    index: IndexWord,
    #[command(flatten)]
    into: Into,
    #[command(flatten)]
    place: PlaceFlags,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum IndexWord {
    Both,
    Words,
    Meaning,
    Nothing,
}

impl Add {
    fn remembering(&self, text: String) -> Remembering {
        Remembering {
            namespace: self.into.namespace.clone(),
            text,
            collection: self.collection.clone(),
            kind: self.kind,
            source: self.source,
            tags: self.tag.clone(),
            meta: self.meta.clone(),
            importance: self.importance,
            pinned: self.pin,
            thread: self.thread.clone(),
            task: self.task.clone(),
            happened: self.happened.clone(),
            expires: self.expires.clone(),
            subject: self.subject.clone(),
            attribute: self.attribute.clone(),
            valid_from: self.valid_from.clone(),
            valid_to: self.valid_to.clone(),
            index: match self.index {
                IndexWord::Both => Index::Both,
                IndexWord::Words => Index::Words,
                IndexWord::Meaning => Index::Meaning,
                IndexWord::Nothing => Index::Nothing,
            },
        }
    }
}

/// Runs the command.
pub(super) async fn run(global: &Global, command: &Add) -> anyhow::Result<Exit> {
    let text = match command.text.as_deref() {
        Some("-") | None => from_stdin()?,
        Some(text) => text.to_owned(),
    };
    let memories = command.place.open(global, Model::Wanted, true).await?;
    let id = memories.remember(command.remembering(text)).await?;
    let unembedded = memories.embed_new().await;
    if global.json {
        let waits = unembedded.as_ref().err().map(ToString::to_string);
        print_line(&json!({ "id": id, "namespace": command.into.namespace, "not_embedded": waits }).to_string())?;
        return Ok(Exit::Done);
    }
    let style = global.style();
    print_line(&format!("{} remembered {}", style.glyph(Glyph::Pass), style.paint(Ink::Strong, id.as_str())))?;
    if let Err(reason) = unembedded {
        print_line(&format!(
            "  {}",
            style.fit_after(2, &format!("found by its words alone until it is embedded: {reason}"))
        ))?;
    }
    Ok(Exit::Done)
}

/// The whole of standard input as text; a little more than fits is read, so that too much is told.
pub(super) fn from_stdin() -> anyhow::Result<String> {
    if stdin().is_terminal() {
        eprintln!("longhaul: reading the text from standard input; end it with Ctrl-D");
    }
    let mut bytes = Vec::new();
    stdin().lock().take(CONTENT_BYTES_MAX as u64 * 256).read_to_end(&mut bytes)?;
    let text = String::from_utf8(bytes).map_err(|_| {
        Refusal::because(
            Exit::Usage,
            "standard input is not UTF-8 text; memory keeps text, keep binary content as a file",
        )
    })?;
    Ok(text.trim_end_matches(['\n', '\r']).to_owned())
}

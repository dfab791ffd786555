//! `longhaul waits`: what has to be answered before executions go on.

use clap::Args;
use longhaul::{OpenWait, ThreadId, WaitInfo, moment};
use serde_json::{Value, json};

use super::{
    at_store::{StoreFlags, age, below, now},
    work,
};
use crate::{
    args::Global,
    exit::Exit,
    progress::{Glyph, Ink, Style, print_line},
};

/// List what executions wait for: who is asked what, since when, until when
///
/// The oldest first. An execution that waits needs no process to stay alive. With --json, one object per line.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  longhaul waits
  longhaul waits --store /var/lib/shop --thread order-17
  longhaul approve wait_0192…           say yes
  longhaul explain wait_0192…           what is asked, and what led there")]
pub(crate) struct Waits {
    /// Only those of this thread
    #[arg(long, value_name = "THREAD")]
    thread: Option<ThreadId>,
    #[command(flatten)]
    store: StoreFlags,
}

/// Runs the command.
pub(crate) fn run(global: &Global, command: &Waits) -> anyhow::Result<Exit> {
    work::runtime()?.block_on(async {
        let store = command.store.open(global).await?;
        let mut found = store.waits().await?;
        if let Some(thread) = &command.thread {
            found.retain(|open| open.thread == *thread);
        }
        if global.json {
            let print = |open: &OpenWait| print_line(&object(&open.wait, &open.thread).to_string());
            return found.iter().try_for_each(print).map_err(Into::into);
        }
        let style = global.style();
        for open in &found {
            for line in lines(style, open) {
                print_line(&line)?;
            }
        }
        if found.is_empty() {
            print_line(&format!("nothing waits in {}", store.shown()))?;
            for other in command.store.others(&store).await? {
                print_line(&below(style, Some(Ink::Faint), &other))?;
            }
        } else {
            print_line(&format!("\nanswer with: longhaul approve WAIT{0}, longhaul reject WAIT{0}", store.flags()))?;
        }
        anyhow::Ok(())
    })?;
    Ok(Exit::Done)
}

fn lines(style: Style, open: &OpenWait) -> Vec<String> {
    let wait = &open.wait;
    let kind = style.paint(Ink::Notice, &format!("{:<9}", wait.kind.as_str()));
    let mut lines = vec![
        format!("{} {kind} {}", style.glyph(Glyph::Notice), style.fit_after(12, &wait.name)),
        below(style, Some(Ink::Strong), wait.id.as_str()),
        below(style, None, &format!("thread {}{}{} old", open.thread, style.dot(), age(now() - wait.created_at.0))),
    ];
    if let Some(at) = wait.deadline_at {
        let left = at.0 - now();
        let left = if left > 0 { format!("in {}", age(left)) } else { "passed".to_owned() };
        lines.push(below(style, None, &format!("until {} UTC ({left})", moment(at.0))));
    }
    if !wait.payload.is_null() {
        lines.push(below(style, Some(Ink::Faint), &format!("shows {}", wait.payload)));
    }
    if let Some(schema) = &wait.schema {
        lines.push(below(style, Some(Ink::Faint), &format!("wants {schema}")));
    }
    lines
}

/// A wait for machines.
pub(super) fn object(wait: &WaitInfo, thread: &ThreadId) -> Value {
    json!({
        "id": wait.id,
        "kind": wait.kind,
        "name": wait.name,
        "payload": wait.payload,
        "schema": wait.schema,
        "thread": thread,
        "execution": wait.execution,
        "place": wait.place,
        "status": wait.status,
        "value": wait.value,
        "actor": wait.actor,
        "request_id": wait.request_id,
        "created_at": wait.created_at,
        "deadline_at": wait.deadline_at,
        "answered_at": wait.answered_at,
    })
}

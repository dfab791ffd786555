//! `longhaul executions`: which executions there are, and where each stands.

use clap::Args;
use longhaul::{ExecutionFilter, ExecutionStatus, ExecutionView, ThreadId};
use serde_json::{Value, json};

use super::{
    at_store::{StoreFlags, age, below, look, now},
    work,
};
use crate::{
    args::Global,
    exit::Exit,
    progress::{Glyph, Ink, Style, count, print_line},
};

/// List executions of graphs: where each stands, what it waits for, why it failed
///
/// The newest first. An execution is one durable run of a graph, whichever program runs it; all runs of one piece of
/// work share a thread. With --json, one object per line.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  longhaul executions                        those of the home's store
  longhaul executions --status failed --status waiting
  longhaul executions --store /var/lib/shop --graph order
  LONGHAUL_STORE=postgres://me:secret@127.0.0.1/shop longhaul executions

Statuses:
  running    a process is at work on it, or was when it died
  waiting    somebody or something has to answer: longhaul waits
  failed     its last run failed; the next one tries again
  stopped    it ended at a boundary; the next run goes on
  completed, cancelled, abandoned: nothing of it runs again
  What stands in the queue of workers and has not begun is listed last.")]
pub(crate) struct Executions {
    /// Only those of this status; may be given several times
    #[arg(long, value_name = "STATUS")]
    status: Vec<ExecutionStatus>,
    /// Only those of this thread
    #[arg(long, value_name = "THREAD")]
    thread: Option<ThreadId>,
    /// Only those of this graph
    #[arg(long, value_name = "NAME")]
    graph: Option<String>,
    /// The newest so many
    #[arg(long, value_name = "N", default_value_t = 30)]
    limit: u32,
    #[command(flatten)]
    store: StoreFlags,
}

/// Runs the command.
pub(crate) fn run(global: &Global, command: &Executions) -> anyhow::Result<Exit> {
    work::runtime()?.block_on(async {
        let store = command.store.open(global).await?;
        let mut found = Vec::new();
        let statuses: Vec<_> = command.status.iter().copied().map(Some).collect();
        for status in if statuses.is_empty() { vec![None] } else { statuses } {
            let (thread, graph) = (command.thread.clone(), command.graph.clone());
            let limit = command.limit.saturating_add(1);
            let filter = ExecutionFilter { status, thread, graph, limit, ..ExecutionFilter::default() };
            found.extend(store.executions(filter).await?);
        }
        found.sort_by(|a, b| (b.execution.started_at, &b.execution.id).cmp(&(a.execution.started_at, &a.execution.id)));
        found.dedup_by(|a, b| a.execution.id == b.execution.id);
        let most = usize::try_from(command.limit).unwrap_or(usize::MAX);
        let more = found.len() > most;
        found.truncate(most);
        let mut entries = store.entries(command.graph.as_deref()).await?;
        entries.retain(|entry| command.thread.as_ref().is_none_or(|thread| entry.thread == *thread));
        if global.json {
            return found.iter().try_for_each(|view| print_line(&object(view).to_string())).map_err(Into::into);
        }
        let style = global.style();
        for view in &found {
            for line in lines(style, view) {
                print_line(&line)?;
            }
            let entry = entries.iter().find(|entry| entry.execution.as_ref() == Some(&view.execution.id));
            if let Some(entry) = entry {
                let attempts = format!("after {} of {} attempts", entry.attempts, entry.attempts_max);
                let queue = format!("queue: {} {attempts}{}{}", entry.status.as_str(), style.dot(), entry.id);
                print_line(&below(style, Some(Ink::Faint), &queue))?;
            }
        }
        let unbegun = entries.iter().filter(|entry| entry.execution.is_none() && command.status.is_empty());
        let unbegun: Vec<_> = unbegun.take(most).collect();
        for entry in &unbegun {
            let glyph = style.glyph(Glyph::Detail);
            print_line(&format!("{glyph} {:<10}{} ({})", entry.status.as_str(), entry.thread, entry.graph))?;
            print_line(&below(style, Some(Ink::Faint), &format!("{}{}not begun yet", entry.id, style.dot())))?;
            if let Some(error) = &entry.error {
                print_line(&below(style, Some(Ink::Bad), error))?;
            }
        }
        if found.is_empty() && unbegun.is_empty() {
            print_line(&format!("no executions like that in {}", store.shown()))?;
            for other in command.store.others(&store).await? {
                print_line(&below(style, Some(Ink::Faint), &other))?;
            }
        } else if more {
            print_line(&below(style, Some(Ink::Faint), &format!("there are older ones: --limit {}", most * 10)))?;
        }
        anyhow::Ok(())
    })?;
    Ok(Exit::Done)
}

fn lines(style: Style, view: &ExecutionView) -> Vec<String> {
    let execution = &view.execution;
    let (glyph, ink) = look(execution.status);
    let ago = format!("{:>7}", age(now() - execution.updated_at.0));
    let room = style.columns.unwrap_or(80).clamp(60, 120).saturating_sub(2 + 10 + 1 + ago.len());
    let what = format!("{} ({} {})", execution.thread, execution.graph, execution.graph_version);
    let what = if style.columns.is_some() { style.fit(&what, room) } else { what };
    let gap = " ".repeat(room.saturating_sub(what.chars().count()) + 1);
    let status = style.paint(ink, &format!("{:<10}", execution.status.as_str()));
    let mut lines = vec![format!("{} {status}{what}{gap}{}", style.glyph(glyph), style.paint(Ink::Faint, &ago))];
    let place = if execution.status.is_finished() {
        count(view.superstep, "superstep")
    } else {
        format!("at superstep {}: {}", view.superstep + 1, view.next.join(", "))
    };
    lines.push(below(style, Some(Ink::Faint), &format!("{}{}{place}", execution.id, style.dot())));
    if let Some(holder) = &view.holder {
        lines.push(below(style, None, &format!("{holder} is at work")));
    }
    for wait in &view.waits {
        lines.push(below(
            style,
            Some(Ink::Notice),
            &format!("waits: {} {:?}{}{}", wait.kind.as_str(), wait.name, style.dot(), wait.id),
        ));
    }
    if execution.status == ExecutionStatus::Waiting && view.waits.is_empty() && view.holder.is_none() {
        lines.push(below(style, Some(Ink::Good), "answered: its next run goes on"));
    }
    for effect in &view.pending {
        lines.push(below(style, Some(Ink::Bad), &format!("nobody knows whether it happened: {}", effect.step)));
    }
    if let Some(error) = &execution.error {
        lines.push(below(style, Some(Ink::Bad), error));
    }
    lines
}

/// An execution for machines.
pub(super) fn object(view: &ExecutionView) -> Value {
    let execution = &view.execution;
    let pending =
        view.pending.iter().map(|effect| json!({ "step": effect.step, "since": effect.since, "probe": effect.probe }));
    json!({
        "id": execution.id,
        "thread": execution.thread,
        "graph": execution.graph,
        "graph_version": execution.graph_version,
        "status": execution.status.as_str(),
        "superstep": view.superstep,
        "next": view.next,
        "waits": view.waits.iter().map(|wait| wait.id.as_str()).collect::<Vec<_>>(),
        "unknown_outcome": pending.collect::<Vec<_>>(),
        "error": execution.error,
        "scope": execution.scope,
        "forked_from": execution.forked_from,
        "parent_step": execution.parent_step,
        "process": view.holder.as_ref().map(|holder| holder.pid),
        "started_at": execution.started_at,
        "updated_at": execution.updated_at,
        "closed_at": execution.closed_at,
    })
}

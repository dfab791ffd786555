//! `longhaul where` and `longhaul whose`: where a task is and resumes, and whose it is.

use clap::Args;
use longhaul::{Asked, Belonging, Standing, Whereabouts, moment};

use super::{
    at_store::{StoreFlags, below, named},
    work,
};
use crate::{
    args::Global,
    exit::Exit,
    progress::{Ink, Style, print_line},
};

/// Where a task is: phase, open questions, next step, who has it, where it resumes
///
/// Also what would run again and what would not, and the last milestone. TASK is a task (task_…), a thread, the folder
/// of a project, or an execution or wait of it. Changes nothing.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  longhaul where order-17
  longhaul where task_0192… --json
  longhaul where ~/recipes                  a project, by its folder")]
pub(crate) struct Where {
    /// The task
    task: String,
    #[command(flatten)]
    store: StoreFlags,
}

/// Whose a task is: tenant, user, conversation, request; who has it, who may see it
///
/// TASK is a task (task_…), a thread, the folder of a project, or an execution or wait of it. Changes nothing.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  longhaul whose order-17
  longhaul whose exec_0192… --json")]
pub(crate) struct Whose {
    /// The task
    task: String,
    #[command(flatten)]
    store: StoreFlags,
}

/// Runs `where`.
pub(crate) fn whereabouts(global: &Global, command: &Where) -> anyhow::Result<Exit> {
    let found = work::runtime()?
        .block_on(async { anyhow::Ok(command.store.open(global).await?.whereabouts(&command.task).await?) })?;
    if global.json {
        print_line(&serde_json::to_string_pretty(&found)?)?;
        return Ok(Exit::Done);
    }
    for line in lines(global.style(), &found) {
        print_line(&line)?;
    }
    Ok(Exit::Done)
}

/// Runs `whose`.
pub(crate) fn whose(global: &Global, command: &Whose) -> anyhow::Result<Exit> {
    let found = work::runtime()?
        .block_on(async { anyhow::Ok(command.store.open(global).await?.belonging(&command.task).await?) })?;
    if global.json {
        print_line(&serde_json::to_string_pretty(&found)?)?;
        return Ok(Exit::Done);
    }
    let style = global.style();
    let Belonging { tenant, user, session, task, trace, facts, .. } = &found;
    print_line(&format!("{} {task}", style.paint(Ink::Strong, "task")))?;
    for (name, value) in [("tenant", tenant), ("user", user), ("session", session), ("trace", trace)] {
        print_line(&named(style, name, value))?;
    }
    for fact in facts {
        print_line(&named(style, &fact.name, &fact.value))?;
    }
    Ok(Exit::Done)
}

fn lines(style: Style, found: &Whereabouts) -> Vec<String> {
    let title = found.title.as_deref().unwrap_or_default();
    let mut lines = vec![
        format!("{} {} {}", style.paint(Ink::Strong, "task"), found.task, style.fit_after(40, title))
            .trim_end()
            .to_owned(),
        named(style, "phase", &found.phase),
    ];
    if let Some(reached) = &found.milestone {
        let at = reached.checkpoint.as_ref().map_or_else(String::new, |checkpoint| format!(", at {checkpoint}"));
        let text = format!("{} {} ({}{at})", reached.name, reached.version, reached.milestone);
        lines.push(named(style, "milestone", &text));
    }
    if let Some(last) = &found.last {
        lines.push(named(style, "last", &format!("{} UTC  {}", moment(last.at), last.what)));
    }
    for execution in &found.executions {
        lines.extend(standing(style, execution));
    }
    if found.finished > 0 {
        lines.push(below(style, Some(Ink::Faint), &format!("and {} finished before", found.finished)));
    }
    lines
}

fn standing(style: Style, standing: &Standing) -> Vec<String> {
    let mut lines = vec![format!("\n{} {}", style.paint(Ink::Strong, "execution"), standing.execution)];
    let mut say = |name: &str, value: &str| lines.push(named(style, name, value));
    say("thread", &standing.thread);
    say("graph", &standing.graph);
    say("status", standing.status);
    if let Some(error) = &standing.error {
        say("error", error);
    }
    if let Some(holder) = &standing.holder {
        say("held by", holder);
    }
    if let Some(from) = &standing.resumes_from {
        say("resumes", from);
    }
    if !standing.next.is_empty() {
        say("next", &standing.next.join(", "));
    }
    if !standing.runs_again.is_empty() {
        say("runs again", &format!("{}, from the top", standing.runs_again.join(", ")));
    }
    for step in &standing.not_again {
        say("not again", step);
    }
    // Commands are copied: they are not cut.
    let whole = Style { columns: None, ..style };
    for unknown in &standing.unknown {
        lines.push(named(style, "unknown", &unknown.step));
        lines.push(named(whole, "  settle", &unknown.settle));
    }
    for asked in &standing.waits {
        lines.extend(question(style, asked));
    }
    if let Some(next) = &standing.to_go_on {
        lines.push(named(whole, "to go on", next));
    }
    lines
}

fn question(style: Style, asked: &Asked) -> Vec<String> {
    let until = asked.until.as_ref().map_or_else(String::new, |until| format!(", until {until}"));
    let mut lines = vec![named(
        style,
        "waits for",
        &format!("{} {:?} ({}), since {}{until}", asked.kind, asked.name, asked.wait, asked.since),
    )];
    if let Some(shown) = &asked.shows {
        lines.push(named(style, "  shows", &shown.to_string()));
    }
    let whole = Style { columns: None, ..style };
    lines.extend(asked.answer.iter().map(|answer| named(whole, "  answer", answer)));
    lines
}

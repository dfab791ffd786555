//! `longhaul explain`: what an id is, how it came about, and what happens next.

use clap::Args;
use longhaul::{Explanation, Line, harmless, moment};

use super::{
    at_store::{StoreFlags, below, named},
    work,
};
use crate::{
    args::Global,
    exit::Exit,
    progress::{Ink, Style, print_line},
};

/// Explain any id: what it is, what happened, what comes next
///
/// Tells whose it is, what happened in order, where it stands and resumes, what may run again and what not.
/// Takes an execution (exec_…), a step ('exec_…/node/3/name#1'), a checkpoint (exec_…@3), a wait (wait_…), a task,
/// session, trace, event, record, milestone, message, memory or verdict (task_…, sess_…, trace_…, evt_…, rec_…,
/// milestone_…, msg_…, mem_…, verdict_…), or the name of a thread. The chain leads from what was seen to what it rests
/// on: event, step, checkpoint, evidence. Changes nothing.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  longhaul explain order-17                       the thread's execution
  longhaul explain exec_0192… --limit 500
  longhaul explain 'exec_0192…/pay/2/charge#1'    quotes for the # and the shell
  longhaul explain wait_0192… --store /var/lib/shop")]
pub(crate) struct Explain {
    /// The id
    id: String,
    /// The newest so many things that happened
    #[arg(long, value_name = "N", default_value_t = 60)]
    limit: usize,
    #[command(flatten)]
    store: StoreFlags,
}

/// Runs the command.
pub(crate) fn run(global: &Global, command: &Explain) -> anyhow::Result<Exit> {
    let explained = work::runtime()?
        .block_on(async { anyhow::Ok(command.store.open(global).await?.explain(&command.id, command.limit).await?) })?;
    if global.json {
        print_line(&serde_json::to_string_pretty(&explained)?)?;
        return Ok(Exit::Done);
    }
    for line in lines(global.style(), &explained) {
        print_line(&line)?;
    }
    Ok(Exit::Done)
}

fn lines(style: Style, told: &Explanation) -> Vec<String> {
    let heading = |text: &str| style.paint(Ink::Strong, text);
    let mut lines = vec![format!("{} {}", heading(told.kind), style.fit_after(told.kind.len() + 1, &told.id))];
    for fact in &told.facts {
        lines.push(named(style, &fact.name, &fact.value));
    }
    if !told.story.is_empty() {
        lines.push(format!("\n{}", heading("what happened (UTC)")));
    }
    if told.omitted > 0 {
        let more = told.story.len() + told.omitted;
        lines.push(below(style, Some(Ink::Faint), &format!("… earlier things are left out: --limit {}", more * 10)));
    }
    let mut day = String::new();
    for happened in &told.story {
        let at = moment(happened.at);
        let (date, clock) = at.split_once(' ').unwrap_or(("", &at));
        if date != day {
            date.clone_into(&mut day);
            lines.push(below(style, Some(Ink::Faint), date));
        }
        lines.push(line(style, clock, happened));
    }
    if !told.chain.is_empty() {
        lines.push(format!("\n{}", heading("chain: event, step, checkpoint, evidence")));
    }
    for link in &told.chain {
        let id = link.id.as_deref().unwrap_or("-");
        lines.push(named(style, link.kind, &harmless(&link.what)));
        lines.push(format!("{:14}{}", "", style.paint(Ink::Faint, id)));
    }
    if !told.evidence.is_empty() {
        lines.push(format!("\n{}", heading("evidence")));
    }
    lines.extend(told.evidence.iter().map(|fact| named(style, &fact.name, &fact.value)));
    if !told.now.is_empty() {
        lines.push(format!("\n{}", heading("now")));
    }
    // Commands in it are copied: they are not cut.
    lines.extend(told.now.iter().map(|now| format!("  {}", Style { columns: None, ..style }.fit_after(2, now))));
    lines
}

fn line(style: Style, clock: &str, happened: &Line) -> String {
    let seconds = happened.at.rem_euclid(60_000) / 1_000;
    let ink = match happened.kind {
        "checkpoint" => Some(Ink::Good),
        "effect" | "wait" | "answer" => Some(Ink::Notice),
        _ => None,
    };
    let kind = format!("{:<10}", happened.kind);
    let kind = ink.map_or(kind.clone(), |ink| style.paint(ink, &kind));
    let id = match (&happened.id, happened.kind) {
        (Some(id), "wait" | "execution") => format!("\n{:22}{}", "", style.paint(Ink::Faint, id)),
        (_, _) => String::new(),
    };
    let what = style.fit_after(22, &happened.what);
    format!("  {} {kind} {what}{id}", style.paint(Ink::Faint, &format!("{clock}:{seconds:02}")))
}

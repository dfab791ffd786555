//! `longhaul status`: where a project stands, and what comes next.

use std::path::PathBuf;

use clap::Args;
use longhaul::Status;

use super::work;
use crate::{
    args::Global,
    exit::Exit,
    progress::{Style, print_line, tokens},
};

/// Show where a project stands, and what comes next
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// The project
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
}

/// Runs `status`.
pub(crate) fn status(global: &Global, command: &StatusArgs) -> anyhow::Result<Exit> {
    let settings = global.settings(Some(&command.dir), &[])?;
    let status = work::runtime()?.block_on(async { work::open(settings).await?.status(&command.dir).await })?;
    if global.json {
        print_line(&serde_json::to_string_pretty(&status)?)?;
        return Ok(Exit::Done);
    }
    for line in describe(global.style(), &status) {
        print_line(&line)?;
    }
    Ok(Exit::Done)
}

fn describe(style: Style, status: &Status) -> Vec<String> {
    let row = |name: &str, text: &str| format!("{name:<10} {}", style.fit_after(11, text));
    let spent = tokens(status.prompt_tokens + status.answer_tokens);
    let mut lines = vec![
        row("request", &status.request),
        row("folder", &status.dir.display().to_string()),
        row("model", &status.model),
        row("features", &format!("{} of {} verified", status.passing, status.total)),
        row("sessions", &format!("{}{}{spent} tokens", status.sessions, style.dot())),
    ];
    if !status.budget.is_empty() {
        lines.push(row("budget", &status.budget.join(style.dot())));
    }
    let lists = [("broken", &status.broken), ("parked", &status.parked), ("proposed", &status.proposals)];
    for (name, list) in lists {
        if !list.is_empty() {
            lines.push(row(name, &list.join(", ")));
        }
    }
    for parked in &status.parked_because {
        if let Some(suspected) = &parked.suspected {
            lines.push(row("", &format!("{}: {suspected}", parked.feature)));
        }
    }
    if let Some(last) = &status.last_summary {
        lines.push(row("last", last));
    }
    let dir = status.dir.display();
    let next = match (status.running, &status.next, status.phase) {
        (Some(pid), _, _) => format!("process {pid} is working on it"),
        (None, _, "planning") => format!("finish the plan: longhaul run --dir {dir}"),
        (None, _, "done") => "done".to_owned(),
        (None, Some(feature), _) => format!("{feature}: longhaul run --dir {dir}"),
        (None, None, _) if !status.proposals.is_empty() => {
            format!("decide on what is proposed: longhaul features proposals --dir {dir}")
        }
        (None, None, _) => format!("nothing can be built before what is parked: longhaul features --dir {dir}"),
    };
    lines.push(row("next", &next));
    lines
}

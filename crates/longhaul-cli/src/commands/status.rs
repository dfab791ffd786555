//! `longhaul status` and `longhaul features`: where a project stands, and what it consists of.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use longhaul::{FeatureId, FeatureView, Status};

use super::work;
use crate::{
    args::Global,
    exit::Exit,
    progress::{Glyph, Ink, Style, count, print_line, tokens},
};

/// Show where a project stands, and what comes next
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// The project
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
}

/// List the features in their order, with what each has come to
///
/// With --verbose, the steps that verify each of them too.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Features {
    #[command(subcommand)]
    change: Option<Change>,
    /// The project
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
}

/// What a person may change.
#[derive(Debug, Subcommand)]
enum Change {
    /// Take a feature up again that was put aside after too many failed sessions
    Unpark(Unpark),
}

/// What `unpark` is told.
#[derive(Debug, Args)]
struct Unpark {
    /// The feature: F03
    feature: FeatureId,
    /// What has changed since, for whoever reads it later
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
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
    for (name, list) in [("broken", &status.broken), ("parked", &status.parked)] {
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
        (None, None, _) => format!("nothing can be built before what is parked: longhaul features --dir {dir}"),
    };
    lines.push(row("next", &next));
    lines
}

fn unpark(global: &Global, command: &Unpark) -> anyhow::Result<Exit> {
    let settings = global.settings(Some(&command.dir), &[])?;
    let unparked = work::runtime()?.block_on(async {
        work::open(settings).await?.unpark(&command.dir, &command.feature, &command.reason).await
    })?;
    if global.json {
        print_line(&serde_json::to_string_pretty(&unparked)?)?;
    } else {
        print_line(&format!("{} is taken up again: longhaul run --dir {}", unparked.id, command.dir.display()))?;
    }
    Ok(Exit::Done)
}

/// Runs `features`.
pub(crate) fn features(global: &Global, command: &Features) -> anyhow::Result<Exit> {
    if let Some(Change::Unpark(command)) = &command.change {
        return unpark(global, command);
    }
    let settings = global.settings(Some(&command.dir), &[])?;
    let features = work::runtime()?.block_on(async { work::open(settings).await?.features(&command.dir).await })?;
    if global.json {
        print_line(&serde_json::to_string_pretty(&features)?)?;
        return Ok(Exit::Done);
    }
    let style = global.style();
    for feature in &features {
        print_line(&line(style, feature))?;
        if let Some(reason) = &feature.broken {
            print_line(&style.paint(Ink::Bad, &format!("       {}", style.fit_after(7, reason))))?;
        }
        if let Some(suspected) = feature.suspected.as_ref().filter(|_| feature.parked) {
            print_line(&style.paint(Ink::Notice, &format!("       {}", style.fit_after(7, suspected))))?;
            let record = feature.diagnosis.as_deref().unwrap_or_default();
            print_line(&style.paint(Ink::Faint, &format!("       longhaul show {record}")))?;
        }
        for (index, step) in feature.steps.iter().enumerate().filter(|_| global.verbose) {
            print_line(&style.paint(Ink::Faint, &format!("       {}. {}", index + 1, style.fit_after(10, step))))?;
        }
    }
    let passing = features.iter().filter(|feature| feature.passes).count();
    print_line(&format!("\n{passing} of {} verified", count(features.len() as u64, "feature")))?;
    Ok(Exit::Done)
}

fn line(style: Style, feature: &FeatureView) -> String {
    let (glyph, note) = match (feature.passes, feature.broken.is_some(), feature.parked) {
        (true, _, _) => (Glyph::Pass, String::new()),
        (false, true, _) => (Glyph::Fail, "  passed before".to_owned()),
        (false, false, true) => {
            (Glyph::Notice, format!("  parked after {}", count(feature.attempts.into(), "attempt")))
        }
        (false, false, false) => (Glyph::Detail, String::new()),
    };
    let description = style.fit_after(10 + note.len(), &feature.description);
    format!("{} {:<4} {description}{}", style.glyph(glyph), feature.id, style.paint(Ink::Notice, &note))
}

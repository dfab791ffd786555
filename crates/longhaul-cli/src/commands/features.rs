//! `longhaul features`: what a project consists of, and how people change that. Agents have no such command.

use std::{
    io::{Read, stdin},
    path::{Path, PathBuf},
};

use anyhow::Context;
use clap::{Args, Subcommand};
use longhaul::{
    Change, Changed, FeatureId, FeatureView, Longhaul, PlanShown, Proposal, ProposalState, Recorded, moment,
};
use serde::Serialize;
use serde_json::{Value, json};

use super::work;
use crate::{
    args::Global,
    exit::{Exit, Refusal},
    progress::{self, Glyph, Ink, Style, count},
};

/// List the features in their order, with what each has come to; change the plan
///
/// With --verbose, the steps that verify each of them too. A plan is locked: agents cannot change it. You can, and every
/// change is kept with its reason: longhaul features changes. None of these commands makes a feature pass.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  longhaul features --dir recipes
  longhaul features add more.json                    {\"features\": [...]} as in docs/planning.md
  longhaul features split F07 parts.json --reason \"two things\"
  longhaul features retire F12 --reason \"not wanted any more\"
  longhaul features proposals                        what agents propose to change of checks
  longhaul features approve P1 --note \"the old text was a typo\"
  longhaul features changes                          who changed what, and why")]
pub(crate) struct Features {
    /// The project
    #[arg(long, value_name = "DIR", default_value = ".", global = true)]
    dir: PathBuf,
    #[command(subcommand)]
    command: Option<FeaturesCommand>,
}

#[derive(Debug, Subcommand)]
enum FeaturesCommand {
    /// Plan further features
    Add {
        /// A file with {"features": [...]}, or - for standard input
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Why
        #[arg(long, value_name = "TEXT", default_value = "")]
        reason: String,
    },
    /// Plan smaller features instead of one
    Split {
        /// The feature
        #[arg(value_name = "FEATURE")]
        feature: FeatureId,
        /// A file with its parts as {"features": [...]}, or - for standard input
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Why
        #[arg(long, value_name = "TEXT")]
        reason: String,
    },
    /// Take a feature out of the plan; its verdicts are kept
    Retire {
        /// The feature
        #[arg(value_name = "FEATURE")]
        feature: FeatureId,
        /// Why
        #[arg(long, value_name = "TEXT")]
        reason: String,
    },
    /// Take a feature up again that was put aside after too many failed sessions
    Unpark {
        /// The feature
        #[arg(value_name = "FEATURE")]
        feature: FeatureId,
        /// What has changed since, for whoever reads it later
        #[arg(long, value_name = "TEXT", default_value = "")]
        reason: String,
    },
    /// What agents propose to change of checks
    Proposals {
        /// Those that are decided too
        #[arg(long)]
        all: bool,
    },
    /// Approve a proposal: the feature is verified by the new checks, and does not pass before it was
    Approve {
        /// The proposal
        #[arg(value_name = "PROPOSAL")]
        id: String,
        /// What there is to say to it
        #[arg(long, value_name = "TEXT", default_value = "")]
        note: String,
    },
    /// Reject a proposal: the checks stay as they are
    Reject {
        /// The proposal
        #[arg(value_name = "PROPOSAL")]
        id: String,
        /// Why
        #[arg(long, value_name = "TEXT", default_value = "")]
        note: String,
    },
    /// Who changed what of the plan, and why
    Changes,
}

/// Runs the command.
pub(crate) fn run(global: &Global, args: &Features) -> anyhow::Result<Exit> {
    let settings = global.settings(Some(&args.dir), &[])?;
    work::runtime()?.block_on(async {
        let longhaul = work::open(settings).await?;
        match &args.command {
            None => list(global, &longhaul, &args.dir).await?,
            Some(command) => carry_out(global, &longhaul, &args.dir, command).await?,
        }
        Ok(Exit::Done)
    })
}

async fn carry_out(global: &Global, longhaul: &Longhaul, dir: &Path, command: &FeaturesCommand) -> anyhow::Result<()> {
    let change = match command {
        FeaturesCommand::Add { file, reason } => Some((Change::Add(planned(file)?), reason)),
        FeaturesCommand::Split { feature, file, reason } => {
            Some((Change::Split { feature: feature.clone(), parts: planned(file)? }, reason))
        }
        FeaturesCommand::Retire { feature, reason } => Some((Change::Retire { feature: feature.clone() }, reason)),
        FeaturesCommand::Proposals { .. }
        | FeaturesCommand::Approve { .. }
        | FeaturesCommand::Reject { .. }
        | FeaturesCommand::Unpark { .. }
        | FeaturesCommand::Changes => None,
    };
    if let Some((change, reason)) = change {
        let (changed, shown) = longhaul.change_plan(dir, change, reason).await?;
        return told(global, &json!({"change": changed, "shown": shown}), &changed_line(&changed), &shown);
    }
    match command {
        FeaturesCommand::Proposals { all } => {
            let mut proposals = longhaul.proposals(dir).await?;
            proposals.retain(|p| *all || p.state == ProposalState::Pending);
            each(global, &proposals, "nothing is proposed", proposal_lines)
        }
        FeaturesCommand::Unpark { feature, reason } => {
            let unparked = longhaul.unpark(dir, feature, reason).await?;
            if global.json {
                return print_line(&serde_json::to_string_pretty(&unparked)?);
            }
            print_line(&format!("{} is taken up again: longhaul run --dir {}", unparked.id, dir.display()))
        }
        FeaturesCommand::Approve { id, note } => decide(global, longhaul, dir, (id, true, note)).await,
        FeaturesCommand::Reject { id, note } => decide(global, longhaul, dir, (id, false, note)).await,
        FeaturesCommand::Changes => {
            each(global, &longhaul.plan_changes(dir).await?, "the plan is as it was locked", change_lines)
        }
        FeaturesCommand::Add { .. } | FeaturesCommand::Split { .. } | FeaturesCommand::Retire { .. } => Ok(()),
    }
}

async fn decide(
    global: &Global,
    longhaul: &Longhaul,
    dir: &Path,
    (id, approve, note): (&str, bool, &str),
) -> anyhow::Result<()> {
    let (proposal, shown) = longhaul.decide_proposal(dir, id, approve, note).await?;
    let line = if approve {
        format!("{id} approved: {} is verified by the new checks, and does not pass before", proposal.feature)
    } else {
        format!("{id} rejected: the checks of {} stay as they are", proposal.feature)
    };
    told(global, &json!({"proposal": proposal, "shown": shown}), &line, &shown)
}

fn told(global: &Global, value: &Value, line: &str, shown: &PlanShown) -> anyhow::Result<()> {
    if global.json {
        return print_line(&value.to_string());
    }
    print_line(&format!("{} {line}", global.style().glyph(Glyph::Pass)))?;
    match shown {
        PlanShown::Committed(Some(commit)) => {
            print_line(&format!("  committed as {}", commit.get(..10).unwrap_or(commit)))
        }
        PlanShown::Committed(None) => Ok(()),
        PlanShown::WithNextSession => print_line("  a run is at work; its next session writes the files"),
    }
}

fn changed_line(changed: &Changed) -> String {
    let ids = |list: &[FeatureId]| list.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let what = match (&changed.retired, changed.added.is_empty()) {
        (Some(whole), false) => format!("{whole} is split into {}", ids(&changed.added)),
        (Some(gone), true) => format!("{gone} is no longer part of the plan"),
        (None, _) => format!("planned {}", ids(&changed.added)),
    };
    let rewired = if changed.rewired.is_empty() {
        String::new()
    } else {
        format!("; {} now depend on the parts", ids(&changed.rewired))
    };
    format!("{what}{rewired}; {} in all", count(changed.total as u64, "feature"))
}

/// Features from a file: an object with `features`, a list, or one feature.
fn planned(file: &Path) -> anyhow::Result<Value> {
    let text = if file == Path::new("-") {
        let mut text = String::new();
        stdin().read_to_string(&mut text).context("cannot read standard input")?;
        text
    } else {
        std::fs::read_to_string(file)
            .map_err(|e| Refusal::because(Exit::Usage, format!("cannot read {}: {e}", file.display())))?
    };
    let value: Value = serde_json::from_str(&text)
        .map_err(|e| Refusal::because(Exit::Usage, format!("{} is not JSON: {e}", file.display())))?;
    Ok(match value {
        Value::Array(_) => json!({ "features": value }),
        Value::Object(ref fields) if fields.contains_key("id") => json!({ "features": [value] }),
        other => other,
    })
}

/// Prints each of these, or that there is none.
fn each<T: Serialize>(
    global: &Global,
    items: &[T],
    none: &str,
    lines: impl Fn(Style, bool, &T) -> Vec<String>,
) -> anyhow::Result<()> {
    if global.json {
        return print_line(&serde_json::to_string_pretty(items)?);
    }
    if items.is_empty() {
        return print_line(none);
    }
    for item in items {
        for line in lines(global.style(), global.verbose, item) {
            print_line(&line)?;
        }
    }
    Ok(())
}

fn proposal_lines(style: Style, _verbose: bool, p: &Proposal) -> Vec<String> {
    let state = match (&p.state, &p.decided) {
        (ProposalState::Pending, _) | (_, None) => String::new(),
        (ProposalState::Approved, Some(decided)) => format!("  approved by {}", decided.by),
        (ProposalState::Rejected, Some(decided)) => format!("  rejected by {}", decided.by),
    };
    let title = format!("{}  {} {}", p.id, p.feature, p.description);
    let mut lines = vec![format!("{}{state}", style.paint(Ink::Strong, &title))];
    lines.push(format!("  because: {}", p.reason));
    for (mark, proof, other) in [("-", &p.before, &p.after), ("+", &p.after, &p.before)] {
        for (n, step) in proof.steps.iter().enumerate().filter(|(_, step)| !other.steps.contains(step)) {
            lines.push(format!("  {mark} {}. {step}", n + 1));
        }
        for check in proof.checks.iter().filter(|check| !other.checks.contains(check)) {
            lines.push(format!("  {mark} {}", check.to_json()));
        }
    }
    lines
}

fn change_lines(style: Style, verbose: bool, change: &Recorded) -> Vec<String> {
    let Recorded { feature, by, reason, .. } = change;
    let what = change.change.replace('_', " ");
    let mut lines =
        vec![format!("{}  {feature} {what} by {by}  {}", moment(change.at.0), style.paint(Ink::Faint, reason))];
    if verbose {
        lines.push(format!("  {}", change.detail));
    }
    lines
}

async fn list(global: &Global, longhaul: &Longhaul, dir: &Path) -> anyhow::Result<()> {
    let features = longhaul.features(dir).await?;
    if global.json {
        return print_line(&serde_json::to_string_pretty(&features)?);
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
    print_line(&format!("\n{passing} of {} verified", count(features.len() as u64, "feature")))
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
    let note = match &feature.proposal {
        Some(id) => format!("{note}  {id} waits for you"),
        None => note,
    };
    let description = style.fit_after(10 + note.len(), &feature.description);
    format!("{} {:<4} {description}{}", style.glyph(glyph), feature.id, style.paint(Ink::Notice, &note))
}

fn print_line(line: &str) -> anyhow::Result<()> {
    Ok(progress::print_line(line)?)
}

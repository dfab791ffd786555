//! `cargo xtask bench durable`: the figures promised for durable execution, each beside the peer that users would pick
//! instead, measured in turn (ours, theirs, ours, theirs …) so that noise hits both. It owns the order of the sections
//! and what a failing one means; a section owns its rows.
//!
//! Flags: `--only loop,growth` measures some sections, `--rounds 3` says how often each side is measured, `--kills 1000`
//! is passed to the crash suite.

mod contention;
mod crashes;
mod growth;
mod hello;
mod loops;
mod ours;
mod peers;
mod restate;
mod resume;
mod workers;
mod workloads;

use std::path::Path;

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use self::{ours::Ours, peers::Peers};
use super::{Bar, Row, median};

type Section = fn(&Stage<'_>) -> anyhow::Result<Vec<Row>>;

/// Every part of the table by name, the quick ones first.
const SECTIONS: &[(&str, Section)] = &[
    ("floor", loops::floor),
    ("loop", loops::rows),
    ("threads", loops::threads),
    ("fanout", loops::fanout),
    ("hello", hello::rows),
    ("resume", resume::rows),
    ("growth", growth::rows),
    ("workloads", workloads::rows),
    ("contention", contention::rows),
    ("workers", workers::rows),
    ("crashes", crashes::rows),
];

/// What every section measures with.
struct Stage<'a> {
    root: &'a Path,
    /// Our program.
    ours: Ours,
    /// Theirs.
    peers: Peers,
    /// How often each side is measured.
    rounds: usize,
    /// Passed to the crash suite.
    kills: u64,
}

struct Plan<'a> {
    only: Vec<&'a str>,
    rounds: usize,
    kills: u64,
}

pub(super) fn rows(root: &Path, flags: &[&str]) -> anyhow::Result<Vec<Row>> {
    let plan = parse(flags)?;
    let scratch = tempfile::tempdir().context("a folder for the stores")?;
    progress("building our program (release)");
    let ours = Ours::build(root, scratch.path())?;
    let stage = Stage { root, ours, peers: Peers::find(root, scratch.path()), rounds: plan.rounds, kills: plan.kills };
    let mut rows = Vec::new();
    for (name, section) in SECTIONS {
        if !plan.only.is_empty() && !plan.only.contains(name) {
            continue;
        }
        progress(name);
        let measured =
            section(&stage).unwrap_or_else(|error| vec![Row::failed(format!("section {name}"), format!("{error:#}"))]);
        super::show(&measured);
        rows.extend(measured);
    }
    Ok(rows)
}

fn parse<'a>(flags: &[&'a str]) -> anyhow::Result<Plan<'a>> {
    let mut plan = Plan { only: Vec::new(), rounds: 3, kills: 1000 };
    let mut rest = flags.iter();
    while let Some(flag) = rest.next() {
        let value = rest.next().with_context(|| format!("{flag} needs a value"))?;
        match *flag {
            "--only" => plan.only = value.split(',').collect(),
            "--rounds" => plan.rounds = value.parse().with_context(|| format!("--rounds {value}: not a number"))?,
            "--kills" => plan.kills = value.parse().with_context(|| format!("--kills {value}: not a number"))?,
            _ => bail!("unknown flag {flag}; there are --only, --rounds, --kills"),
        }
    }
    let known: Vec<&str> = SECTIONS.iter().map(|(name, _)| *name).collect();
    if let Some(unknown) = plan.only.iter().find(|name| !known.contains(name)) {
        bail!("no section is called {unknown}; there are: {}", known.join(", "));
    }
    ensure!(plan.rounds > 0, "--rounds 0 measures nothing");
    Ok(plan)
}

/// Long work shows that it lives.
fn progress(what: &str) {
    println!("… {what}");
}

/// A number in an answer of our program.
fn number(answer: &Value, name: &str) -> anyhow::Result<f64> {
    answer[name].as_f64().with_context(|| format!("our program gave no number {name}: {answer}"))
}

/// The middle of one number over several answers; none if there is no answer.
fn middle(answers: &[Value], name: &str) -> anyhow::Result<Option<f64>> {
    Ok(median(answers.iter().map(|answer| number(answer, name)).collect::<anyhow::Result<_>>()?))
}

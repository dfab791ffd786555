//! `cargo xtask bench workspace`: the figures promised for records, milestones, context packs and the gateway, beside
//! Agently 4.1.3.4, whose workspace does what ours does. It owns the order of the sections and the rows; what is measured is
//! said in the programs `workspace_figures` and `context_figures`.
//!
//! Flags: `--only packs,million` measures some sections. The million takes some ten minutes and 8 GB of disk in the
//! temporary folder; it is left out, and said so, where that much is not free.

mod ours;
mod peer;

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, bail};
use serde_json::Value;

use self::{ours::Ours, peer::Peer};
use super::{Bar, Row};

type Section = fn(&Stage<'_>) -> anyhow::Result<Vec<Row>>;

/// Every part of the table by name, the quick ones first.
const SECTIONS: &[(&str, Section)] =
    &[("ingest", ingest), ("packs", packs), ("gateway", gateway), ("million", million)];

/// Records of one task, in every section.
const EACH: usize = 1_000;
/// Tasks that packs are asked of at a million records.
const ASKED: usize = 50;
/// What the store of a million records takes, nearly.
const MILLION_BYTES: u64 = 9_000_000_000;
/// What the peer is called.
const PEER: &str = "Agently 4.1.3.4";

/// What every section measures with.
struct Stage<'a> {
    root: &'a Path,
    /// For stores.
    scratch: PathBuf,
    ours: Ours,
    peer: Peer,
}

impl Stage<'_> {
    fn place(&self, name: &str) -> String {
        self.scratch.join(name).display().to_string()
    }
}

pub(super) fn rows(root: &Path, flags: &[&str]) -> anyhow::Result<Vec<Row>> {
    let only = parse(flags)?;
    let scratch = tempfile::tempdir().context("a folder for the stores")?;
    progress("building our programs (release)");
    let ours = Ours::build(root, "longhaul-workspace", "context_figures")?;
    let has_peer_rows = |name: &&str| matches!(*name, "ingest" | "packs");
    let wants_peer = only.is_empty() || only.iter().any(|name| has_peer_rows(&name));
    let peer = if wants_peer { peer::measured(root, scratch.path()) } else { Peer::default() };
    let stage = Stage { root, scratch: scratch.path().to_owned(), ours, peer };
    let mut rows = Vec::new();
    for (name, section) in SECTIONS {
        if !only.is_empty() && !only.contains(name) {
            continue;
        }
        progress(name);
        let measured =
            section(&stage).unwrap_or_else(|error| vec![Row::failed(format!("section {name}"), format!("{error:#}"))]);
        super::show(&measured);
        rows.extend(measured);
    }
    let notes: Vec<Row> = stage.peer.notes.iter().map(|why| Row::new("peer", "", None).note(why)).collect();
    super::show(&notes);
    rows.extend(notes);
    Ok(rows)
}

fn parse<'a>(flags: &[&'a str]) -> anyhow::Result<Vec<&'a str>> {
    let mut only = Vec::new();
    let mut rest = flags.iter();
    while let Some(flag) = rest.next() {
        let value = rest.next().with_context(|| format!("{flag} needs a value"))?;
        match *flag {
            "--only" => only = value.split(',').collect(),
            _ => bail!("unknown flag {flag}; there is --only"),
        }
    }
    let known: Vec<&str> = SECTIONS.iter().map(|(name, _)| *name).collect();
    if let Some(unknown) = only.iter().find(|name| !known.contains(name)) {
        bail!("no section is called {unknown}; there are: {}", known.join(", "));
    }
    Ok(only)
}

fn ingest(stage: &Stage<'_>) -> anyhow::Result<Vec<Row>> {
    let ours = Ours::build(stage.root, "longhaul-workspace", "workspace_figures")?;
    // The peer's texts say a few words over and over as well.
    let m = ours.ask(&["--dir", &stage.place("ingest"), "--text", "plain"])?;
    let row = |what: &str, of: &str| Row::new(what, "/s", m[of]["per_second"].as_f64());
    Ok(vec![
        row("ingest of 2 kB records in batches, durable and searchable by words", "batched")
            .bar(Bar::AtLeast(2_000.0))
            .peer(PEER, stage.peer.ingest_per_s)
            .note(format!("{} index rows waited for their vectors at the end", m["backlog"])),
        row("ingest one by one", "one_by_one").bar(Bar::AtLeast(800.0)).peer(PEER, stage.peer.ingest_per_s),
        row("milestone with refs", "milestones").bar(Bar::AtLeast(2_000.0)).peer(PEER, stage.peer.checkpoint_per_s),
    ])
}

fn packs(stage: &Stage<'_>) -> anyhow::Result<Vec<Row>> {
    let dir = stage.place("packs");
    stage.ours.ask(&["load", &dir, "10", &EACH.to_string(), "10"])?;
    let one = stage.ours.ask(&["packs", &dir, "10", "30", "one"])?;
    let all = stage.ours.ask(&["packs", &dir, "10", "100", "all"])?;
    let memory = stage.ours.ask(&["memory", &dir, "10", "10"])?;
    std::fs::remove_dir_all(&dir)?;
    let row = |what: &str, m: &Value, most: f64| {
        Row::new(format!("10,000 records: {what}"), "ms", ms(m, "p50_us")).bar(Bar::AtMost(most)).note(noted(m))
    };
    Ok(vec![
        row("context pack, scope of 1,000, p50", &one, 15.0).peer(PEER, stage.peer.scoped_ms),
        row("context pack, all, p50", &all, 30.0).peer(PEER, stage.peer.all_ms),
        anonymous("10,000 records", &memory, 40.0).peer(format!("{PEER}, resident"), stage.peer.resident_mb),
    ])
}

fn million(stage: &Stage<'_>) -> anyhow::Result<Vec<Row>> {
    let what = "1,000,000 records: context pack, scope of 1,000, p50";
    if free_bytes(&stage.scratch).is_some_and(|free| free < MILLION_BYTES) {
        let why = "less than 9 GB are free in the temporary folder; set TMPDIR to a place with more";
        return Ok(vec![Row::new(what, "ms", None).bar(Bar::AtMost(25.0)).note(why)]);
    }
    progress("a million records: ten minutes or more");
    let dir = stage.place("million");
    let asked = ASKED.to_string();
    let loaded = stage.ours.ask(&["load", &dir, "1000", &EACH.to_string(), &asked])?;
    let packs = stage.ours.ask(&["packs", &dir, &asked, "6", "one"])?;
    let memory = stage.ours.ask(&["memory", &dir, &asked, "4"])?;
    std::fs::remove_dir_all(&dir)?;
    let minutes = loaded["load_s"].as_f64().map(|seconds| seconds / 60.0);
    Ok(vec![
        Row::new(what, "ms", ms(&packs, "p50_us")).bar(Bar::AtMost(25.0)).note(noted(&packs)),
        anonymous("1,000,000 records", &memory, 200.0),
        Row::new("1,000,000 records loaded, searchable by words", "min", minutes)
            .note(format!("the {ASKED} tasks that packs are asked of have vectors too")),
    ])
}

/// As `cargo xtask bench gateway` measures it.
fn gateway(stage: &Stage<'_>) -> anyhow::Result<Vec<Row>> {
    super::gateway::measured(stage.root, "5")
}

fn anonymous(what: &str, m: &Value, most: f64) -> Row {
    let what = format!("{what}: anonymous memory beside model and vector index");
    Row::new(what, "MB", m["anonymous_kb"].as_f64().map(|kb| kb / 1e3)).bar(Bar::AtMost(most))
}

fn ms(m: &Value, field: &str) -> Option<f64> {
    m[field].as_f64().map(|us| us / 1e3)
}

fn noted(m: &Value) -> String {
    format!(
        "p99 {:.1} ms, first of a task {:.1} ms; {} items, {} omitted by name, {} tokens",
        ms(m, "p99_us").unwrap_or_default(),
        ms(m, "first_p50_us").unwrap_or_default(),
        m["items"],
        m["omitted"],
        m["used_tokens"]
    )
}

/// What is free where this folder is.
fn free_bytes(folder: &Path) -> Option<u64> {
    let output = Command::new("df").args(["--output=avail", "--block-size=1"]).arg(folder).output().ok()?;
    String::from_utf8_lossy(&output.stdout).lines().nth(1)?.trim().parse().ok()
}

/// Long work shows that it lives.
fn progress(what: &str) {
    println!("… {what}");
}

//! `cargo xtask bench network`: the figures promised for agent networks, the reference server in the same call, under
//! the same load: a Rust client over HTTP connections that stay open, one request in flight for each sender
//! (`crates/longhaul/examples/network_load`). It owns the order of the sections; a section owns its rows.
//!
//! Flags: `--only speed,latency,sdk,kill,many,start` measures some sections, `--rounds 3` says how often each side is
//! measured in turn, `--messages 1000000` how many the large channel holds.

mod sections;
mod servers;

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
};

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use super::{Bar, Row, median};
use servers::{Network, Side};

type Section = fn(&Stage) -> anyhow::Result<Vec<Row>>;

const SECTIONS: &[(&str, Section)] = &[
    ("start", sections::start),
    ("speed", sections::speed),
    ("latency", sections::latency),
    ("sdk", sections::sdk),
    ("kill", sections::kill),
    ("many", sections::many),
];

/// What every section measures with.
struct Stage {
    root: PathBuf,
    /// Our program, released.
    longhaul: PathBuf,
    /// The client.
    load: PathBuf,
    /// The reference's environment, where it could be had.
    reference: Option<PathBuf>,
    rounds: usize,
    messages: u64,
}

pub(super) fn rows(root: &Path, flags: &[&str]) -> anyhow::Result<Vec<Row>> {
    let (mut only, mut rounds, mut messages) = (Vec::new(), 3, 1_000_000);
    for pair in flags.chunks(2) {
        match pair {
            ["--only", names] => only = names.split(',').collect(),
            ["--rounds", text] => rounds = text.parse().context("--rounds takes a number")?,
            ["--messages", text] => messages = text.parse().context("--messages takes a number")?,
            other => bail!("the bench network does not know {other:?}: --only NAMES, --rounds N, --messages N"),
        }
    }
    if let Some(unknown) = only.iter().find(|name| SECTIONS.iter().all(|(known, _)| known != *name)) {
        bail!("no section is called {unknown}: {:?}", SECTIONS.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    }
    let stage = Stage::new(root, rounds, messages)?;
    let mut rows = Vec::new();
    for (name, section) in SECTIONS.iter().filter(|(name, _)| only.is_empty() || only.contains(name)) {
        let measured = section(&stage).unwrap_or_else(|error| vec![Row::failed(*name, format!("{error:#}"))]);
        super::show(&measured);
        rows.extend(measured);
    }
    Ok(rows)
}

impl Stage {
    fn new(root: &Path, rounds: usize, messages: u64) -> anyhow::Result<Self> {
        let here = std::env::current_exe().context("where is xtask?")?;
        let target = here.ancestors().nth(2).context("xtask lies in no target folder")?;
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        for what in [
            ["--package", "longhaul-cli", "--bins"].as_slice(),
            &["--package", "longhaul", "--example", "network_load"],
        ] {
            let mut build = Command::new(&cargo);
            build.args(["build", "--quiet", "--release"]).args(what).arg("--target-dir").arg(target);
            ensure!(build.current_dir(root).status().context("cargo build")?.success(), "{what:?} does not build");
        }
        let reference = servers::reference(root)
            .inspect_err(|error| eprintln!("bench network: without the reference: {error:#}"))
            .ok();
        Ok(Self {
            root: root.to_owned(),
            longhaul: target.join("release/longhaul"),
            load: target.join("release/examples/network_load"),
            reference,
            rounds,
            messages,
        })
    }

    /// Both sides, ours first; only ours where the reference cannot be had.
    fn sides(&self) -> Vec<Side> {
        let mut sides = vec![Side::Ours(self.longhaul.clone())];
        sides.extend(self.reference.clone().map(Side::Reference));
        sides
    }

    /// Runs the client to its end; its last line.
    fn load(&self, mode: &str, place: &str, flags: &[(&str, &str)]) -> anyhow::Result<Value> {
        let mut command = Command::new(&self.load);
        command.args([mode, place]);
        for (name, value) in flags {
            command.args([format!("--{name}"), (*value).to_owned()]);
        }
        let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output().context("the client")?;
        ensure!(output.status.success(), "the client fails in mode {mode}");
        let text = String::from_utf8(output.stdout).context("the client's figures")?;
        serde_json::from_str(text.lines().last().unwrap_or_default()).context("the client's figures")
    }

    /// Starts the client, and waits for its first line; it ends when its input does.
    fn loading(&self, mode: &str, place: &str, flags: &[(&str, &str)]) -> anyhow::Result<Loading> {
        let mut command = Command::new(&self.load);
        command.args([mode, place]);
        for (name, value) in flags {
            command.args([format!("--{name}"), (*value).to_owned()]);
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("the client")?;
        let mut lines = BufReader::new(child.stdout.take().context("its output")?);
        lines.read_line(&mut String::new()).context("the client's first line")?;
        Ok(Loading { input: child.stdin.take(), child })
    }

    /// The middle of what the rounds give, side by side: `(ours, the reference's)`.
    fn in_turn(&self, measure: impl Fn(&Network) -> anyhow::Result<f64>) -> anyhow::Result<(f64, Option<f64>)> {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..self.rounds {
            for side in self.sides() {
                let network = Network::start(&side)?;
                let figure = measure(&network)?;
                if side.is_ours() { ours.push(figure) } else { theirs.push(figure) }
            }
        }
        Ok((median(ours).context("no round")?, median(theirs)))
    }
}

/// A client at work.
struct Loading {
    input: Option<ChildStdin>,
    child: Child,
}

impl Loading {
    /// Waits until it ends by itself.
    fn ended(mut self) -> anyhow::Result<()> {
        self.child.wait().context("the client")?;
        Ok(())
    }
}

impl Drop for Loading {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.kill(); // it may have ended
        let _ = self.child.wait();
    }
}

fn figure(figures: &Value, name: &str) -> anyhow::Result<f64> {
    figures[name].as_f64().with_context(|| format!("{name} is missing in {figures}"))
}

const REFERENCE: &str = "OpenAgents 0.9.3";

fn row(what: &str, unit: &'static str, (ours, theirs): (f64, Option<f64>), bar: Bar) -> Row {
    let row = Row::new(what, unit, ours).bar(bar);
    match theirs {
        Some(theirs) => row.peer(REFERENCE, theirs),
        None => row.note("the reference could not be had here"),
    }
}

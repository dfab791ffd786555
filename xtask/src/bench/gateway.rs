//! `cargo xtask bench gateway`: authenticated questions about tasks on loopback, client included, by the server crate's
//! own example in release. `--seconds 5` is how long each of three rounds lasts; the middle round counts.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use super::{Bar, Row, median};

const ROUNDS: usize = 3;
const PER_SECOND_MIN: f64 = 10_000.0;
const P99_MS_MAX: f64 = 5.0;

pub(super) fn rows(root: &Path, flags: &[&str]) -> anyhow::Result<Vec<Row>> {
    let seconds = match flags {
        [] => "5",
        ["--seconds", seconds] if seconds.parse::<u64>().is_ok_and(|seconds| seconds > 0) => seconds,
        _ => bail!("the bench gateway takes --seconds N"),
    };
    let rows = measured(root, seconds)?;
    super::show(&rows);
    Ok(rows)
}

/// The rows, without printing them: other benches show them as well.
pub(crate) fn measured(root: &Path, seconds: &str) -> anyhow::Result<Vec<Row>> {
    let figures = (0..ROUNDS).map(|_| round(root, seconds)).collect::<anyhow::Result<Vec<_>>>()?;
    let middle = |name: &str| {
        let all = figures.iter().map(|round| round[name].as_f64().context("a figure is missing"));
        median(all.collect::<anyhow::Result<Vec<_>>>()?).context("no round")
    };
    let connections = figures[0]["connections"].as_u64().unwrap_or_default();
    let note = format!(
        "{connections} connections that stay open, one question at a time each; client and server on the same cores"
    );
    let what = "gateway, authenticated task query on loopback";
    Ok(vec![
        Row::new(what, "per s", middle("per_second")?).bar(Bar::AtLeast(PER_SECOND_MIN)).note(note),
        Row::new(format!("{what}, p50"), "ms", middle("p50_us")? / 1_000.0),
        Row::new(format!("{what}, p99"), "ms", middle("p99_us")? / 1_000.0).bar(Bar::AtMost(P99_MS_MAX)),
    ])
}

fn round(root: &Path, seconds: &str) -> anyhow::Result<Value> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let here = std::env::current_exe().context("where is xtask?")?;
    let target = here.ancestors().nth(2).context("xtask lies in no target folder")?;
    let mut command = Command::new(cargo);
    command.args(["run", "--quiet", "--release", "--package", "longhaul-server", "--example", "bench_gateway"]);
    command.arg("--target-dir").arg(target).args(["--", "--seconds", seconds]).current_dir(root);
    let output = command.stderr(Stdio::inherit()).output().context("cargo run")?;
    ensure!(output.status.success(), "the gateway's example fails");
    serde_json::from_slice(&output.stdout).context("the example's figures")
}

//! `cargo xtask faults [--runs N] [--only TEXT]`: plants every fault in every place, N times, and looks whether each is
//! refused, what is healthy passes, and no verdict differs. The last line is one JSON object. The work is done by
//! the harness's own suite; here it is built, told how often, and judged by its exit code.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, bail};

const RUNS: &str = "20";

/// Runs the suite; true if the figures hold.
pub(crate) fn run(flags: &[&str], root: &Path) -> anyhow::Result<bool> {
    let (mut runs, mut only) = (RUNS, "");
    let mut rest = flags.iter();
    while let Some(flag) = rest.next() {
        let value = rest.next().with_context(|| format!("{flag} needs a value"))?;
        match *flag {
            "--runs" => runs = value,
            "--only" => only = value,
            _ => bail!("unknown flag {flag}; there are --runs and --only"),
        }
    }
    runs.parse::<u32>().with_context(|| format!("--runs {runs}: not a number"))?;
    let (program, folder) = crate::suites::binary(root, "longhaul-harness, tests/faults")?;
    let mut suite = Command::new(program);
    suite.args(["every_fault", "--nocapture"]).current_dir(&folder).env("CARGO_MANIFEST_DIR", &folder);
    suite.env("LONGHAUL_FAULTS_RUNS", runs).env("LONGHAUL_FAULTS_ONLY", only).stdin(Stdio::null());
    Ok(suite.status().context("the suite of faults")?.success())
}

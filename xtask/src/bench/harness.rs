//! `cargo xtask bench harness`: the figures promised for the main job.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

use anyhow::{Context, ensure};

use super::{Bar, Row, median};

pub(super) fn rows(root: &Path) -> anyhow::Result<Vec<Row>> {
    let program = longhaul(root)?;
    Ok(vec![help(&program)?])
}

/// Builds the program in this profile; it lies beside this one.
fn longhaul(root: &Path) -> anyhow::Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo).args(["build", "--quiet", "--package", "longhaul-cli"]).current_dir(root).status();
    ensure!(built.context("cargo build")?.success(), "longhaul does not build");
    Ok(std::env::current_exe().context("where is xtask?")?.with_file_name("longhaul"))
}

fn help(program: &Path) -> anyhow::Result<Row> {
    let mut times = Vec::new();
    for _ in 0..30 {
        let start = Instant::now();
        let status = Command::new(program).arg("--help").stdout(Stdio::null()).status();
        ensure!(status.with_context(|| program.display().to_string())?.success(), "longhaul --help fails");
        times.push(start.elapsed().as_secs_f64() * 1_000.0);
    }
    let ours = median(times).unwrap_or(f64::INFINITY);
    Ok(Row {
        what: "longhaul --help, median of 30".to_owned(),
        unit: "ms",
        ours,
        peer: None,
        bar: Some(Bar::AtMost(30.0)),
    })
}

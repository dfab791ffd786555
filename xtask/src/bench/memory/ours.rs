//! Our side: release programs of this repository, each subcommand of which ends with one JSON line. It owns building and
//! calling them; what a subcommand measures is said there.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, ensure};
use serde_json::Value;

const PACKAGE: &str = "longhaul-memory";

pub(super) struct Ours {
    program: PathBuf,
    scratch: PathBuf,
    /// Where things may lie that the next run can use again.
    kept: PathBuf,
}

impl Ours {
    /// Builds an example of the memory crate, into the target folder that this program lies in.
    pub(super) fn build(root: &Path, scratch: &Path, example: &str) -> anyhow::Result<Self> {
        let here = std::env::current_exe().context("where is xtask?")?;
        let target = here.ancestors().nth(2).context("xtask lies in no target folder")?;
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut build = Command::new(cargo);
        build.args(["build", "--quiet", "--release", "--package", PACKAGE, "--example", example, "--target-dir"]);
        let status = build.arg(target).current_dir(root).status().context("cargo build")?;
        ensure!(status.success(), "{example} fails to build");
        let program = target.join("release/examples").join(example);
        Ok(Self { program, scratch: scratch.to_owned(), kept: target.join("measure") })
    }

    /// A folder that outlives the run.
    pub(super) fn kept(&self) -> &Path {
        &self.kept
    }

    /// Runs a subcommand to its end; the JSON object that its output ends with.
    pub(super) fn ask(&self, arguments: &[&Path]) -> anyhow::Result<Value> {
        let mut command = Command::new(&self.program);
        command.args(arguments).env("TMPDIR", &self.scratch).stdin(Stdio::null()).stderr(Stdio::inherit());
        let output = command.output()?;
        ensure!(output.status.success(), "{} fails: {}", self.program.display(), output.status);
        let text = String::from_utf8_lossy(&output.stdout);
        let line = text.lines().last().context("it printed nothing")?;
        serde_json::from_str(line).with_context(|| format!("no JSON: {line}"))
    }
}

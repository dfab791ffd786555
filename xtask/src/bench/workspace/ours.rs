//! Our side: release programs of this repository, each of which ends with one JSON line. It owns building and calling
//! them; what is measured is said there.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, ensure};
use serde_json::Value;

pub(super) struct Ours {
    program: PathBuf,
}

impl Ours {
    /// Builds an example of a crate, into the target folder that this program lies in.
    pub(super) fn build(root: &Path, package: &str, example: &str) -> anyhow::Result<Self> {
        let here = std::env::current_exe().context("where is xtask?")?;
        let target = here.ancestors().nth(2).context("xtask lies in no target folder")?;
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut build = Command::new(cargo);
        build.args(["build", "--quiet", "--release", "--package", package, "--example", example, "--target-dir"]);
        let status = build.arg(target).current_dir(root).status().context("cargo build")?;
        ensure!(status.success(), "{example} fails to build");
        Ok(Self { program: target.join("release/examples").join(example) })
    }

    /// Runs it to its end; the JSON object that its output ends with.
    pub(super) fn ask(&self, arguments: &[&str]) -> anyhow::Result<Value> {
        let mut command = Command::new(&self.program);
        command.args(arguments).stdin(Stdio::null()).stderr(Stdio::inherit());
        let output = command.output()?;
        ensure!(output.status.success(), "{} {} fails", self.program.display(), arguments.join(" "));
        let text = String::from_utf8_lossy(&output.stdout);
        let line = text.lines().last().context("it printed nothing")?;
        serde_json::from_str(line).with_context(|| format!("no JSON: {line}"))
    }
}

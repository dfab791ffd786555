//! Our side: one release program with a subcommand for each measurement, each of which ends with one JSON line. It owns
//! building and calling that program; what a subcommand measures is said there.

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use serde_json::Value;

const PACKAGE: &str = "longhaul-durable";
const EXAMPLE: &str = "bench_durable";

pub(super) struct Ours {
    program: PathBuf,
    /// Where it may put stores.
    scratch: PathBuf,
}

impl Ours {
    /// Builds it, into the target folder that this program lies in.
    pub(super) fn build(root: &Path, scratch: &Path) -> anyhow::Result<Self> {
        let here = std::env::current_exe().context("where is xtask?")?;
        let target = here.ancestors().nth(2).context("xtask lies in no target folder")?;
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut build = Command::new(cargo);
        build.args(["build", "--quiet", "--release", "--package", PACKAGE, "--example", EXAMPLE, "--target-dir"]);
        ensure!(
            build.arg(target).current_dir(root).status().context("cargo build")?.success(),
            "{EXAMPLE} fails to build"
        );
        Ok(Self { program: target.join("release/examples").join(EXAMPLE), scratch: scratch.to_owned() })
    }

    /// A new folder for stores.
    pub(super) fn place(&self) -> anyhow::Result<tempfile::TempDir> {
        tempfile::tempdir_in(&self.scratch).context("a folder for a store")
    }

    pub(super) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(args).env("TMPDIR", &self.scratch).stdin(Stdio::null());
        command
    }

    /// Runs a subcommand to its end; its last line.
    pub(super) fn ask(&self, args: &[&str]) -> anyhow::Result<Value> {
        let output = self.command(args).stderr(Stdio::inherit()).output()?;
        ensure!(output.status.success(), "{EXAMPLE} {} fails: {}", args.join(" "), output.status);
        last_line(&output.stdout).with_context(|| format!("{EXAMPLE} {}", args.join(" ")))
    }

    /// Starts a subcommand; its output is read by the caller.
    pub(super) fn start(&self, args: &[&str]) -> anyhow::Result<Child> {
        let mut command = self.command(args);
        command.stdout(Stdio::piped()).stderr(Stdio::inherit());
        command.spawn().with_context(|| format!("{EXAMPLE} {}", args.join(" ")))
    }

    /// From the start of the process to its first line of output, and that line's program to its end.
    pub(super) fn first_line(&self, args: &[&str]) -> anyhow::Result<Duration> {
        let started = Instant::now();
        let mut child = self.start(args)?;
        let mut output = BufReader::new(child.stdout.take().context("no output")?);
        let mut line = String::new();
        output.read_line(&mut line)?;
        let took = started.elapsed();
        std::io::copy(&mut output, &mut std::io::sink())?;
        ensure!(child.wait()?.success() && !line.is_empty(), "{EXAMPLE} {} fails", args.join(" "));
        Ok(took)
    }
}

/// The JSON object that a program's output ends with.
pub(super) fn last_line(output: &[u8]) -> anyhow::Result<Value> {
    let text = String::from_utf8_lossy(output);
    let line = text.lines().last().context("it printed nothing")?;
    serde_json::from_str(line).with_context(|| format!("its last line is not JSON: {line}"))
}

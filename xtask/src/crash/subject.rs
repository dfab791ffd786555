//! One demo under test, driven from outside by its commands.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    sync::mpsc,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use serde_json::Value;

/// Longest time of one start; the promise is a demo within 120 s.
const RUN_MAX: Duration = Duration::from_secs(600);

/// What is played, and who works in it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Story {
    /// The short story of the tests instead of the demo.
    pub(super) is_tiny: bool,
    /// An external agent instead of our own loop: one that does what the cassette says.
    pub(super) is_by_agent: bool,
}

impl Story {
    fn args(self, root: &Path) -> Vec<String> {
        let tiny = "crates/longhaul-cli/tests/stories/tiny.cassette.toml";
        let cassette = root.join(if self.is_tiny { tiny } else { "demo/chat.cassette.toml" });
        let mut args = vec!["demo".to_owned()];
        if self.is_tiny {
            args.extend(["--cassette".to_owned(), cassette.display().to_string()]);
        }
        if self.is_by_agent {
            let player = root.join("crates/longhaul-cli/tests/agents/cassette_agent.py");
            let agent = format!("acp:/usr/bin/python3 {} {}", player.display(), cassette.display());
            args.extend(["--agent".to_owned(), agent]);
        }
        args
    }
}

/// A demo with a home and a folder of its own.
pub(super) struct Subject {
    program: PathBuf,
    home: PathBuf,
    dir: PathBuf,
    served: PathBuf,
    output: PathBuf,
    args: Vec<String>,
}

impl Subject {
    pub(super) fn new(program: &Path, place: &Path, root: &Path, story: Story) -> anyhow::Result<Self> {
        fs::create_dir_all(place).with_context(|| place.display().to_string())?;
        Ok(Self {
            program: program.to_owned(),
            home: place.join("home"),
            dir: place.join("app"),
            served: place.join("served.jsonl"),
            output: place.join("output.txt"),
            args: story.args(root),
        })
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(args).arg("--dir").arg(&self.dir).arg("--home").arg(&self.home);
        command.env("LONGHAUL_CASSETTE_LOG", &self.served).stdin(Stdio::null());
        command
    }

    fn start(&self) -> anyhow::Result<std::process::Child> {
        let output = fs::OpenOptions::new().create(true).append(true).open(&self.output)?;
        let args: Vec<&str> = self.args.iter().map(String::as_str).collect();
        let mut command = self.command(&args);
        command.stdout(output.try_clone()?).stderr(output);
        command.spawn().with_context(|| self.program.display().to_string())
    }

    /// Lets the demo run until it ends; how long that took.
    pub(super) fn run_to_end(&self) -> anyhow::Result<Duration> {
        let started = Instant::now();
        let mut child = self.start()?;
        let status = wait(&mut child, RUN_MAX)?.with_context(|| {
            let _ = child.kill();
            format!("the demo still runs after {} s", RUN_MAX.as_secs())
        })?;
        ensure!(status.success(), "the demo ended with {status}; its output ends with:\n{}", self.tail());
        Ok(started.elapsed())
    }

    /// Starts it and kills it after this time; false if it had ended by then.
    pub(super) fn run_and_kill(&self, after: Duration) -> anyhow::Result<bool> {
        let mut child = self.start()?;
        if let Some(status) = wait(&mut child, after)? {
            ensure!(status.success(), "the demo ended with {status}; its output ends with:\n{}", self.tail());
            return Ok(false);
        }
        child.kill()?;
        child.wait()?;
        Ok(true)
    }

    fn tail(&self) -> String {
        let text = fs::read_to_string(&self.output).unwrap_or_default();
        let lines: Vec<&str> = text.lines().rev().take(15).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }

    pub(super) fn is_done(&self) -> anyhow::Result<bool> {
        let status = self.json_lines(&["status", "--json"])?;
        Ok(status.first().is_some_and(|status| status["phase"] == "done"))
    }

    /// Entries of the cassette that were answered, oldest first.
    pub(super) fn served(&self) -> anyhow::Result<Vec<String>> {
        let text = fs::read_to_string(&self.served).unwrap_or_default();
        let parsed = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        Ok(parsed.filter_map(|line| line["entry"].as_str().map(str::to_owned)).collect())
    }

    /// Answers of the cassette that the store holds. What an external agent answers is not asked of the cassette.
    pub(super) fn recorded_answers(&self) -> anyhow::Result<usize> {
        let of_agent = |event: &Value| event["step"].as_str().is_some_and(|step| step.contains("/agent#"));
        let answered = |event: &&Value| event["kind"] == "model.answered" && !of_agent(event);
        Ok(self.events()?.iter().filter(answered).count())
    }

    fn events(&self) -> anyhow::Result<Vec<Value>> {
        if !self.dir.join(".git").exists() {
            return Ok(Vec::new()); // killed before there was a project
        }
        self.json_lines(&["log", "--json", "--limit", "1000000"])
    }

    fn json_lines(&self, args: &[&str]) -> anyhow::Result<Vec<Value>> {
        let output = self.command(args).output()?;
        let failed = || format!("longhaul {} failed: {}", args.join(" "), String::from_utf8_lossy(&output.stderr));
        ensure!(output.status.success(), failed());
        let text = String::from_utf8(output.stdout)?;
        if let Ok(one) = serde_json::from_str::<Value>(&text) {
            return Ok(vec![one]);
        }
        text.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
    }

    fn git(&self, args: &[&str]) -> anyhow::Result<String> {
        let args = args.iter().map(OsStr::new);
        let safe = format!("safe.directory={}", self.dir.display());
        let output = Command::new("git").arg("-c").arg(safe).arg("-C").arg(&self.dir).args(args).output()?;
        ensure!(output.status.success(), "git: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    }

    /// What it came to.
    pub(super) fn outcome(&self) -> anyhow::Result<Outcome> {
        let mut passing = BTreeMap::new();
        let features = self.json_lines(&["features", "--json"])?;
        let features = features.first().and_then(Value::as_array).cloned().unwrap_or(features);
        for feature in &features {
            passing.insert(feature["id"].as_str().unwrap_or("?").to_owned(), feature["passes"] == true);
        }
        let log = self.git(&["log", "--format=%s%x09%(trailers:key=Longhaul-Step,valueonly,separator=%x20)"])?;
        let commits: Vec<(String, String)> = log
            .lines()
            .map(|line| line.split_once('\t').map(|(s, t)| (s.to_owned(), t.to_owned())).unwrap_or_default())
            .collect();
        let events = self.events()?;
        let kinds = ["session.ended", "feature.passed", "claim.refused", "feature.broken", "tamper.undone"];
        let counts = kinds
            .iter()
            .map(|kind| ((*kind).to_owned(), events.iter().filter(|event| event["kind"] == *kind).count()))
            .collect();
        self.git(&["fsck", "--full", "--strict"])?;
        let dirty = self.git(&["status", "--porcelain"])?;
        Ok(Outcome { passing, commits, counts, dirty })
    }
}

/// Waits for the end of a child, at most so long.
fn wait(child: &mut std::process::Child, most: Duration) -> anyhow::Result<Option<ExitStatus>> {
    // The kill must fall at a random moment of the child's work: this is the one place where time itself is the condition.
    let (_never, gone) = mpsc::channel::<()>();
    let until = Instant::now() + most;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        let _ = gone.recv_timeout(left.min(Duration::from_millis(20)));
    }
}

/// What a run came to, as far as it must not depend on kills.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Outcome {
    passing: BTreeMap<String, bool>,
    /// Subject and step of each commit, newest first.
    commits: Vec<(String, String)>,
    counts: BTreeMap<String, usize>,
    dirty: String,
}

impl Outcome {
    pub(super) fn all_pass(&self) -> bool {
        !self.passing.is_empty() && self.passing.values().all(|passes| *passes)
    }

    pub(super) fn summary(&self) -> String {
        format!("{} features pass, {} commits", self.passing.len(), self.commits.len())
    }

    /// Compares with the undisturbed run.
    pub(super) fn compare(&self, calm: &Self) -> anyhow::Result<()> {
        ensure!(self.passing == calm.passing, "other features pass: {:?}", self.passing);
        let subjects = |of: &Self| of.commits.iter().map(|(subject, _)| subject.clone()).collect::<Vec<_>>();
        ensure!(subjects(self) == subjects(calm), "other commits: {:#?}", subjects(self));
        let mut steps: Vec<&String> = self.commits.iter().map(|(_, step)| step).collect();
        steps.sort();
        steps.dedup();
        ensure!(steps.len() == self.commits.len(), "two commits were made by one step: {:#?}", self.commits);
        ensure!(self.counts == calm.counts, "other events: {:?}, undisturbed {:?}", self.counts, calm.counts);
        ensure!(self.dirty == calm.dirty, "the folder is not clean: {}", self.dirty);
        Ok(())
    }
}

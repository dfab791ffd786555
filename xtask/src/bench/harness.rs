//! `cargo xtask bench harness`: the figures promised for the main job, on the profile that serves demo and tests.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use serde_json::Value;

use super::{Bar, Row, median};

pub(super) fn rows(root: &Path, flags: &[&str]) -> anyhow::Result<Vec<Row>> {
    ensure!(matches!(flags, [] | ["--large" | "--without-large"]), "its flags are --large and --without-large");
    let program = super::longhaul(root)?;
    let scratch = tempfile::tempdir().context("a folder for the demo")?;
    let large = if flags == ["--without-large"] {
        Vec::new()
    } else {
        super::large::rows(&program, &scratch.path().join("large"))?
    };
    if flags == ["--large"] {
        super::show(&large);
        return Ok(large);
    }
    let demo = Demo { program: &program, place: scratch.path() };
    let mut rows = vec![help(&program)?];
    rows.extend(whole_demo(&demo)?);
    rows.push(resume(&Demo { program: &program, place: &scratch.path().join("killed") })?);
    rows.push(recall(root)?);
    rows.extend(sandbox(root)?);
    rows.extend(super::verifier::rows(root, &program)?);
    rows.extend(large);
    super::show(&rows);
    Ok(rows)
}

/// A demo in a place of its own.
struct Demo<'a> {
    program: &'a Path,
    place: &'a Path,
}

impl Demo<'_> {
    fn command(&self, what: &str) -> Command {
        let mut command = Command::new(self.program);
        command.arg(what).arg("--dir").arg(self.place.join("app")).arg("--home").arg(self.place.join("home"));
        command.arg("--json").stdin(Stdio::null());
        command
    }

    /// Starts it; its events come as lines.
    fn start(&self) -> anyhow::Result<(Child, impl Iterator<Item = Value>)> {
        fs::create_dir_all(self.place)?;
        let mut child = self.command("demo").stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn()?;
        let output = child.stdout.take().context("the demo has no output")?;
        let lines = BufReader::new(output).lines().map_while(Result::ok);
        Ok((child, lines.filter_map(|line| serde_json::from_str(&line).ok())))
    }
}

fn help(program: &Path) -> anyhow::Result<Row> {
    let mut times = Vec::new();
    for _ in 0..30 {
        let start = Instant::now();
        let status = Command::new(program).arg("--help").stdout(Stdio::null()).status();
        ensure!(status.with_context(|| program.display().to_string())?.success(), "longhaul --help fails");
        times.push(start.elapsed().as_secs_f64() * 1_000.0);
    }
    Ok(row("longhaul --help, median of 30", "ms", median(times).unwrap_or(f64::INFINITY), 30.0))
}

fn row(what: &str, unit: &'static str, ours: f64, most: f64) -> Row {
    Row::new(what, unit, ours).bar(Bar::AtMost(most))
}

/// The demo from start to end: its time, its memory, and what the harness itself takes of each session.
fn whole_demo(demo: &Demo<'_>) -> anyhow::Result<Vec<Row>> {
    let started = Instant::now();
    let (mut child, events) = demo.start()?;
    let status = PathBuf::from(format!("/proc/{}/status", child.id()));
    let (mut peak_kb, mut outside_ms, mut overheads) = (0.0_f64, 0.0, Vec::new());
    for event in events {
        peak_kb = peak_kb.max(peak(&status).unwrap_or(0.0));
        let ms = event["data"]["ms"].as_f64().unwrap_or(0.0);
        match event["kind"].as_str().unwrap_or_default() {
            "model.answered" | "regression.checked" | "app.booted" | "project.checked" => outside_ms += ms,
            "claim.refused" | "feature.passed" => outside_ms += ms,
            // The application's own time and the browser's are in these two; file tools are the harness's work.
            "tool.called" if is_outside(&event) => outside_ms += ms,
            "session.ended" => {
                let git = event["data"]["git_ms"].as_f64().unwrap_or(0.0);
                overheads.push((ms - outside_ms - git).max(0.0));
                outside_ms = 0.0;
            }
            _ => {}
        }
    }
    ensure!(child.wait()?.success(), "the demo fails");
    let took = started.elapsed().as_secs_f64();
    // The first entry is the initializer's.
    let sessions = overheads.split_off(1.min(overheads.len()));
    ensure!(sessions.len() >= 10, "only {} sessions were seen", sessions.len());
    Ok(vec![
        row("demo after the build", "s", took, 120.0),
        row(
            "harness overhead a session (all but model, application, browser, git), median",
            "ms",
            median(sessions).unwrap_or(f64::INFINITY),
            150.0,
        ),
        row("resident memory beside the browser, peak", "MB", peak_kb / 1_024.0, 300.0),
    ])
}

fn is_outside(event: &Value) -> bool {
    matches!(event["data"]["tool"].as_str(), Some("shell" | "browser"))
}

fn peak(status: &Path) -> Option<f64> {
    let text = fs::read_to_string(status).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// Kills the demo in its third session and measures from the next start to the next recorded step.
fn resume(demo: &Demo<'_>) -> anyhow::Result<Row> {
    let (mut child, events) = demo.start()?;
    let mut in_third = false;
    for event in events {
        in_third |= event["kind"] == "session.started" && event["data"]["session"] == 3;
        if in_third && event["kind"] == "model.answered" {
            break;
        }
    }
    child.kill()?;
    child.wait()?;
    ensure!(in_third, "the demo ended before its third session");
    let started = Instant::now();
    let (mut child, mut events) = demo.start()?;
    let first = events.next().context("nothing happened after the kill")?;
    let took = started.elapsed();
    ensure!(first["kind"].is_string(), "unexpected output: {first}");
    child.kill()?;
    child.wait()?;
    Ok(row("resume after SIGKILL to the next step", "ms", ms(took), 1_000.0))
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}

/// A command in a sandbox of its own, from the call to its output; measured by the tools crate's own example.
fn sandbox(root: &Path) -> anyhow::Result<Vec<Row>> {
    let figures = example(root, "longhaul-tools", "sandbox_figures")?;
    let mut rows = Vec::new();
    for kind in ["bubblewrap", "landlock"] {
        let Some(p95) = figures[kind]["p95_ms"].as_f64() else { continue };
        rows.push(row(&format!("sandbox start with {kind}, 95th percentile of 200"), "ms", p95, 50.0));
    }
    ensure!(!rows.is_empty(), "no kind of sandbox works here: longhaul doctor");
    Ok(rows)
}

/// Recall over 10,000 memories beside the embedding; measured by the memory crate's own example.
fn recall(root: &Path) -> anyhow::Result<Row> {
    let figures = example(root, "longhaul-memory", "recall_figures")?;
    let p50 = figures["p50_us"].as_f64().context("no p50_us")?;
    Ok(row("recall over 10,000 memories beside the embedding, median", "ms", p50 / 1_000.0, 10.0))
}

/// The figures that an example of a crate prints as one JSON object.
fn example(root: &Path, package: &str, name: &str) -> anyhow::Result<Value> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let here = std::env::current_exe().context("where is xtask?")?;
    let target = here.ancestors().nth(2).context("xtask lies in no target folder")?;
    let args = ["run", "--quiet", "--package", package, "--example", name, "--target-dir"];
    let output = Command::new(cargo).args(args).arg(target).current_dir(root).stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "the example {name} fails");
    serde_json::from_slice(&output.stdout).with_context(|| format!("the figures of {name}"))
}

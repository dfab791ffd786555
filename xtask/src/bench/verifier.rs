//! The verifier beside flows written by hand with Playwright: the same features of the same applications, the same browser,
//! a picture after every sentence on both sides. Browser and applications are started outside of what is measured.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, ensure};
use serde_json::Value;

use super::{Bar, Row, median};

/// Applications and their features that `scripts/playwright-flows.py` has too.
const FLOWS: [(&str, &[&str]); 3] =
    [("notes", &["N01", "N04", "N09"]), ("board", &["B02", "B05"]), ("ledger", &["L02", "L03"])];
const ROUNDS: usize = 5;
const RATIO_MAX: f64 = 1.3;

type Times = BTreeMap<String, Vec<f64>>;

/// One row a flow without a bar, and one for all of them.
pub(super) fn rows(root: &Path, program: &Path) -> anyhow::Result<Vec<Row>> {
    let what = "verifier beside hand-written Playwright, seven flows with the same pictures, sum of medians";
    let python = match playwright(root) {
        Ok(python) => python,
        Err(why) => {
            return Ok(vec![Row::new(what, "ms", None).bar(Bar::RatioAtMost(RATIO_MAX)).note(format!("{why:#}"))]);
        }
    };
    let apps = root.join("crates/longhaul-harness/tests/faults/apps");
    let scratch = tempfile::tempdir().context("a folder for evidence")?;
    let (mut ours, mut theirs) = (Times::new(), Times::new());
    // In turns, so that whatever else the machine does meets both.
    for _ in 0..ROUNDS {
        for (app, features) in FLOWS {
            verify(program, &apps.join(app), features, scratch.path(), &mut ours)?;
        }
        by_hand(root, &python, &apps, &mut theirs)?;
    }
    let mut rows = Vec::new();
    let (mut our_sum, mut their_sum) = (0.0, 0.0);
    for (name, times) in ours {
        let hand = theirs.remove(&name).and_then(median).with_context(|| format!("nobody wrote {name} by hand"))?;
        let own = median(times).context("no times")?;
        our_sum += own;
        their_sum += hand;
        rows.push(Row::new(format!("verifier, {name}, median of {ROUNDS}"), "ms", own).peer("Playwright", hand));
    }
    rows.push(Row::new(what, "ms", our_sum).peer("Playwright 1.65.2", their_sum).bar(Bar::RatioAtMost(RATIO_MAX)));
    Ok(rows)
}

/// The interpreter that has Playwright, installed if need be.
fn playwright(root: &Path) -> anyhow::Result<PathBuf> {
    let installed = Command::new("scripts/peers.sh").arg("playwright").current_dir(root).stdin(Stdio::null()).status();
    ensure!(installed.context("scripts/peers.sh")?.success(), "Playwright could not be installed");
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache"))).context("no HOME")?;
    Ok(cache.join("longhaul/peers/playwright-1.65.2/bin/python"))
}

fn verify(program: &Path, app: &Path, features: &[&str], scratch: &Path, times: &mut Times) -> anyhow::Result<()> {
    let (home, seen) = (scratch.join("home"), scratch.join("seen"));
    let mut command = Command::new(program);
    command.arg("verify").args(features).arg("--dir").arg(app).arg("--home").arg(home).arg("--evidence").arg(&seen);
    let output = command.stdin(Stdio::null()).output().context("longhaul verify")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let name = app.file_name().unwrap_or_default().to_string_lossy().into_owned();
    for feature in features {
        let log: Value = serde_json::from_slice(&fs::read(seen.join(feature).join("flow.json"))?)?;
        let took = log["elapsed_ms"].as_f64().context("a flow's log without its time")?;
        times.entry(format!("{name}/{feature}")).or_default().push(took);
    }
    Ok(())
}

fn by_hand(root: &Path, python: &Path, apps: &Path, times: &mut Times) -> anyhow::Result<()> {
    let mut command = Command::new(python);
    command.arg(root.join("scripts/playwright-flows.py")).arg(apps).arg(chromium()?).arg("1");
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output().context("Playwright")?;
    ensure!(output.status.success(), "the flows written by hand fail");
    let measured: Times = serde_json::from_slice(&output.stdout).context("the times of the flows written by hand")?;
    for (name, took) in measured {
        times.entry(name).or_default().extend(took);
    }
    Ok(())
}

/// The browser that the verifier finds too.
fn chromium() -> anyhow::Result<PathBuf> {
    let path = std::env::var_os("PATH").context("no PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
    let all = names.iter().flat_map(|name| std::env::split_paths(&path).map(move |folder| folder.join(name)));
    all.into_iter().find(|file| file.is_file()).context("there is no Chromium")
}

//! Random SIGKILLs on each store. The suite is `cargo xtask crash durable`, which can be run alone; this file runs it and
//! reads the JSON object that its output ends with.

use std::process::{Command, Stdio};

use anyhow::Context;

use super::{Bar, Row, Stage, number, ours::last_line};

const STORES: &[&str] = &["sqlite", "postgres"];

/// In the suite's object, and in words.
const COUNTS: &[(&str, &str)] = &[
    ("steps_missing", "steps missing"),
    ("effects_doubled", "effects doubled for a deduplicating receiver"),
    ("unlisted", "unknown outcomes not listed"),
];

pub(super) fn rows(stage: &Stage<'_>) -> anyhow::Result<Vec<Row>> {
    let this = std::env::current_exe().context("where is xtask?")?;
    let mut rows = Vec::new();
    for store in STORES {
        let mut suite = Command::new(&this);
        suite.args(["crash", "durable", "--store", store, "--kills", &stage.kills.to_string()]);
        let output = suite.current_dir(stage.root).stdin(Stdio::null()).stderr(Stdio::inherit()).output();
        let output = output.with_context(|| format!("crash durable --store {store}"))?;
        let answer = match last_line(&output.stdout) {
            Ok(answer) => answer,
            Err(error) => {
                rows.push(Row::failed(
                    format!("random SIGKILLs, {store}"),
                    format!("the suite ended early: {error:#}"),
                ));
                continue;
            }
        };
        let kills = number(&answer, "kills")?;
        for (name, what) in COUNTS {
            let row = Row::new(format!("{kills} random SIGKILLs, {store}: {what}"), "count", number(&answer, name)?);
            rows.push(row.bar(Bar::AtMost(0.0)));
        }
        let whole =
            Row::new(format!("{kills} random SIGKILLs, {store}: findings of any kind"), "count", findings(&answer));
        rows.push(whole.bar(Bar::AtMost(0.0)).note(answer.to_string()));
    }
    Ok(rows)
}

/// The suite's own verdict counts more than what it looks at today.
fn findings(answer: &serde_json::Value) -> f64 {
    if answer["ok"] == true { 0.0 } else { 1.0 }
}

//! Random SIGKILLs on each store. The suite is `cargo xtask crash durable --kills N`, which can be run alone; this file
//! runs it and reads the JSON object that its output ends with:
//! `{"crash": "durable", "stores": [{"store", "kills", "missing", "doubled", "unlisted"}]}`, or, where a store cannot be
//! had on this machine, `{"store", "unavailable": "why"}`.

use std::process::{Command, Stdio};

use anyhow::Context;

use super::{Bar, Row, Stage, number, ours::last_line};

const STORES: &[&str] = &["sqlite", "postgres"];

pub(super) fn rows(stage: &Stage<'_>) -> anyhow::Result<Vec<Row>> {
    let this = std::env::current_exe().context("where is xtask?")?;
    let kills = stage.kills.to_string();
    let mut suite = Command::new(this);
    suite.args(["crash", "durable", "--kills", &kills]).current_dir(stage.root);
    let output = suite.stdin(Stdio::null()).stderr(Stdio::inherit()).output().context("xtask crash durable")?;
    let answer = last_line(&output.stdout).context("cargo xtask crash durable")?;
    let mut rows = Vec::new();
    for store in STORES {
        let found = answer["stores"].as_array().and_then(|stores| stores.iter().find(|one| one["store"] == **store));
        let found = found.with_context(|| format!("the crash suite says nothing of {store}"))?;
        for (name, what) in [
            ("missing", "steps missing"),
            ("doubled", "effects doubled for a deduplicating receiver"),
            ("unlisted", "unknown outcomes not listed"),
        ] {
            let bar = Bar::AtMost(0.0);
            rows.push(match found["unavailable"].as_str() {
                Some(why) => Row::new(format!("random SIGKILLs, {store}: {what}"), "count", None).bar(bar).note(why),
                None => {
                    let kills = number(found, "kills")?;
                    Row::new(format!("{kills} random SIGKILLs, {store}: {what}"), "count", number(found, name)?)
                        .bar(bar)
                }
            });
        }
    }
    Ok(rows)
}

//! A project of 200 features after 200 sessions: how long `status` takes, how large the store is, how long a session's
//! recall takes. Everything is real but the model; the story is written here.

use std::{
    fmt::Write as _,
    fs,
    path::Path,
    process::{Command, Stdio},
    time::Instant,
};

use anyhow::{Context, ensure};
use serde_json::Value;

use super::{Bar, Row, median};

/// One more than there are sessions, so that no final check follows.
const FEATURES: usize = 201;
const SESSIONS: usize = 200;
const BATCH: usize = 20;
const STATUS_RUNS: usize = 20;
const REQUEST: &str = "A handbook of two hundred and one words, each on a page of its own.";

/// Builds it in `place` and measures.
pub(super) fn rows(program: &Path, place: &Path) -> anyhow::Result<Vec<Row>> {
    fs::create_dir_all(place)?;
    let (app, home, cassette) = (place.join("app"), place.join("home"), place.join("large.toml"));
    fs::write(&cassette, story())?;
    let run = |args: &[&str], wanted: &[i32]| -> anyhow::Result<Vec<u8>> {
        let mut command = Command::new(program);
        command.args(args).arg("--dir").arg(&app).arg("--home").arg(&home).stdin(Stdio::null());
        let output = command.output().with_context(|| program.display().to_string())?;
        let told = || format!("longhaul {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr));
        ensure!(output.status.code().is_some_and(|code| wanted.contains(&code)), told());
        Ok(output.stdout)
    };
    let model = format!("cassette:{}", cassette.display());
    run(&["init", REQUEST, "--model", &model], &[0])?;
    let sessions = SESSIONS.to_string();
    run(&["run", "--sessions", &sessions, "--set", "harness.regression_sample=1"], &[3])?;

    let mut times = Vec::new();
    for _ in 0..STATUS_RUNS {
        let started = Instant::now();
        let status: Value = serde_json::from_slice(&run(&["status", "--json"], &[0])?).context("the status")?;
        times.push(started.elapsed().as_secs_f64() * 1_000.0);
        ensure!(status["passing"].as_u64() == Some(SESSIONS as u64), "not every session passed: {status}");
    }
    let log = String::from_utf8(run(&["log", "--json", "--limit", "1000000"], &[0])?)?;
    let events = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let recalls = events.filter(|event| event["kind"] == "memory.recalled");
    let recalls: Vec<f64> = recalls.filter_map(|e| Some(e["data"]["elapsed_us"].as_f64()? / 1_000.0)).collect();
    ensure!(recalls.len() == SESSIONS, "{} recalls were recorded", recalls.len());
    let last = recalls[SESSIONS - 50..].to_vec();
    let at_most = |what: &str, unit, ours, most| Row::new(what, unit, ours).bar(Bar::AtMost(most));
    Ok(vec![
        at_most(
            "status of 200 features after 200 sessions, median of 20 (a whole process)",
            "ms",
            median(times).unwrap_or(f64::INFINITY),
            50.0,
        ),
        at_most("store beside evidence after 200 sessions", "MB", store_bytes(&home)? as f64 / 1e6, 50.0),
        at_most("recall in the last 50 of 200 sessions, median", "ms", median(last).unwrap_or(f64::INFINITY), 15.0),
    ])
}

/// The database, what is not yet in it, and its indexes.
fn store_bytes(home: &Path) -> anyhow::Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(home)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with("longhaul.db") {
            sum += entry.metadata()?.len();
        }
    }
    let mut folders = vec![home.join("indexes")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().filter_map(Result::ok) {
            let kind = entry.metadata()?;
            if kind.is_dir() { folders.push(entry.path()) } else { sum += kind.len() }
        }
    }
    Ok(sum)
}

/// Four words that no other feature has.
fn words(number: usize) -> String {
    const ONSETS: [&str; 15] = ["b", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "t", "v", "w", "z"];
    const VOWELS: [&str; 5] = ["a", "e", "i", "o", "u"];
    let mut state = number as u64 + 1;
    let mut next = |bound: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % bound
    };
    let mut word = || (0..4).map(|_| format!("{}{}", ONSETS[next(15)], VOWELS[next(5)])).collect::<String>();
    [word(), word(), word(), word()].join(" ")
}

/// The initializer plans in batches; each session writes one page and claims.
fn story() -> String {
    let mut text =
        format!("cassette = 1\ntitle = \"A large project\"\nmodel = \"cassette-large\"\nrequest = \"{REQUEST}\"\n");
    text.push_str(
        "\n[[entry]]\nid = \"init-0\"\nprompt = [\"# Initializer\"]\n[[entry.call]]\ntool = \"describe_project\"\n\
         arguments.summary = \"A handbook.\"\n[[entry.call]]\ntool = \"write_file\"\narguments.path = \"init.sh\"\n\
         arguments.content = \"\"\"#!/bin/sh\nset -eu\ncd \"$(dirname \"$0\")\"\n\
         exec python3 -m http.server --bind 127.0.0.1 \"${PORT:-8000}\"\n\"\"\"\n",
    );
    let mut turn = 1;
    for first in (1..=FEATURES).step_by(BATCH) {
        let _ = write!(
            text,
            "\n[[entry]]\nid = \"init-{turn}\"\nprompt = [\"# Initializer\"]\nturn = {turn}\n[[entry.call]]\ntool = \"plan_features\"\n"
        );
        for number in first..(first + BATCH).min(FEATURES + 1) {
            let heading = words(number);
            let _ = write!(
                text,
                "[[entry.call.arguments.features]]\nid = \"F{number:03}\"\ncategory = \"functional\"\n\
                 description = \"{heading} can be read\"\n\
                 steps = [\"Open {path}\", \"Verify that the heading says {heading}\"]\n\
                 checks = [{{ step = 1, check = \"goto\", path = \"/{path}\" }}, {{ step = 2, check = \"expect\", \
                 target = {{ role = \"heading\", name = \"{heading}\" }}, visible = true }}]\n",
                path = path(number),
            );
        }
        turn += 1;
    }
    let _ = write!(
        text,
        "\n[[entry]]\nid = \"init-{turn}\"\nprompt = [\"# Initializer\"]\nturn = {turn}\n[[entry.call]]\n\
         tool = \"claim_done\"\narguments = {{ summary = \"planned\", commit_message = \"chore: plan\" }}\n"
    );
    for number in 1..=FEATURES {
        let (heading, path) = (words(number), path(number));
        let prompt = format!("prompt = [\"# Coding session\", \"Task: feature F{number:03}\\n\"]");
        let _ = write!(
            text,
            "\n[[entry]]\nid = \"f{number}-0\"\n{prompt}\n[[entry.call]]\ntool = \"write_file\"\narguments.path = \"{path}\"\n\
             arguments.content = \"<!doctype html><html lang='en'><title>x</title><link rel='icon' href='data:,'><h1>{heading}</h1>\"\n\
             [[entry.call]]\ntool = \"memory_add\"\narguments = {{ content = \"The page of {heading} is {path}.\" }}\n\
             \n[[entry]]\nid = \"f{number}-1\"\n{prompt}\nturn = 1\n[[entry.call]]\ntool = \"claim_done\"\n\
             arguments = {{ summary = \"{heading} has its page\", commit_message = \"feat: {heading}\" }}\n",
        );
    }
    text
}

fn path(number: usize) -> String {
    format!("{}.html", words(number).replace(' ', "-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_features_are_alike() {
        let all: std::collections::BTreeSet<String> = (1..=FEATURES).map(words).collect();
        assert_eq!(all.len(), FEATURES);
    }
}

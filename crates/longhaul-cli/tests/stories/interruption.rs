//! Ctrl-C in the middle, a second run beside the first, and going on without asking for anything again.

use std::{collections::BTreeMap, fs};

use serde_json::{Value, json};

use crate::stage::{Running, Stage, TINY};

/// The entry at which the model is slow enough to be interrupted.
const SLOW: &str = "f02-3-mend";

#[test]
fn an_interrupted_run_goes_on_without_asking_again() {
    let stage = Stage::new();
    let name = format!("id = \"{SLOW}\"\n");
    assert!(TINY.contains(&name));
    stage.write("tiny.toml", &TINY.replace(&name, &format!("{name}fault = {{ delay_ms = 600000 }}\n")));
    let demo = |args: &[&str]| {
        let mut command = stage.command(args);
        command.env("LONGHAUL_CASSETTE_LOG", stage.path("served.jsonl"));
        command
    };
    let mut first = Running::start(&mut demo(&["demo", "--cassette", "tiny.toml", "--dir", "app", "--json"]));
    first.line(|event| event["kind"] == "claim.refused");

    let second = stage.run_to(1, &["run", "--dir", "app"]);
    let holder = format!("process {}", first.pid());
    assert!(
        second.err.contains("another longhaul works on this project") && second.err.contains(&holder),
        "{second:?}"
    );
    let status: Value = serde_json::from_str(&stage.run_to(0, &["status", "--dir", "app", "--json"]).out).unwrap();
    assert_eq!(status["running"], json!(first.pid()));

    first.interrupt();
    let report = first.line(|line| line["report"].is_object());
    assert_eq!(report["report"]["ending"], "interrupted");
    assert_eq!(first.wait(), Some(130));
    let before = served(&stage);

    stage.write("tiny.toml", TINY);
    let resumed = crate::stage::Ended::of(&mut demo(&["run", "--dir", "app"]));
    assert_eq!(resumed.code, Some(0), "{resumed:#?}");
    assert!(resumed.out.contains("3 of 3 features verified"), "{}", resumed.out);
    assert_eq!(stage.git(&["log", "--format=%s"]).lines().count(), 4, "one commit for the plan and for each feature");
    for (entry, times) in served(&stage) {
        // The answer that was under way was never received; every other one is recorded.
        let most = if entry == SLOW { 2 } else { 1 };
        assert!(times <= most, "{entry} was asked for {times} times");
    }
    assert!(before.len() >= 7 && !before.contains_key("f02-4-claim"), "it was interrupted in the middle: {before:?}");
}

/// How often each entry was asked for.
fn served(stage: &Stage) -> BTreeMap<String, usize> {
    let log = fs::read_to_string(stage.path("served.jsonl")).unwrap();
    let mut times = BTreeMap::new();
    for line in log.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        *times.entry(line["entry"].as_str().expect("every request was answered").to_owned()).or_default() += 1;
    }
    times
}

//! What an agent that wants to cheat can do to what judges it: two hundred attempts and more, each undone or refused,
//! and recorded. Everything is real but the model, whose answers these are.
//!
//! The tables are in the two Python files beside this one: they run inside the sandbox, as commands of the agent, and
//! each act has a control that shows it works where nothing protects it.

mod leftovers;
mod outside;
pub(crate) mod story;

use std::{collections::BTreeMap, fs, net::TcpListener, process::Command};

use serde_json::Value;

use crate::stage::Stage;
use story::{Story, Turn};

const GUARDED: &str = include_str!("guarded.py");
const BOUNDARY: &str = include_str!("boundary.py");
const GUARDED_FILES: usize = 4;
const GROUPS: [&str; 5] = ["repository", "commands", "host", "clock", "processes"];

#[test]
fn two_hundred_attempts_of_an_agent_are_undone_or_refused_and_recorded() {
    let stage = Stage::new();
    let methods = methods();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let boundary =
        BOUNDARY.replace("@HOME@", stage.path("home").to_str().unwrap()).replace("@PORT@", &port.to_string());

    let mut story = Story::with_plan();
    let mut turn = Turn::of("F01").file("data/guarded.py", GUARDED).file("data/boundary.py", &boundary);
    for method in &methods {
        turn = turn.shell(&format!("python3 data/guarded.py {method}"));
    }
    for group in GROUPS {
        turn = turn.shell(&format!("python3 data/boundary.py {group}"));
    }
    // What the methods left beside the files is the agent's own affair; it goes, so that the page can be judged.
    let tidy = "find . -maxdepth 1 \\( -name 'copy-*' -o -name '*.old' -o -name 'second-*' -o -name 'changed-*' \
                -o -name '*control-*' -o -name stolen \\) -exec rm -rf {} +";
    story.add(turn);
    story.add(Turn::of("F01").shell(tidy).page("Hello").claim("the page greets"));
    stage.write("story.toml", &story.cassette());
    let ended = stage.run_to(0, &["demo", "--cassette", "story.toml", "--dir", "app"]);
    assert!(ended.out.contains("1 of 1 feature verified"), "{}", ended.out);

    let undone = what_was_undone(&stage);
    for method in &methods {
        let paths = undone.get(&format!("python3 data/guarded.py {method}")).cloned().unwrap_or_default();
        for path in ["feature_list.json", "feature_checks.json", "progress.json", "progress.md"] {
            assert!(paths.iter().any(|undone| undone == path), "{method} on {path} was not undone: {paths:?}");
        }
    }
    let mut attempts = methods.len() * GUARDED_FILES;
    for group in GROUPS {
        let outcomes = stage.json(&format!("app/data/refused-{group}.json"));
        for (attempt, outcome) in outcomes.as_object().unwrap() {
            assert_eq!(outcome[0], "done", "the control of {group}, {attempt}: {outcome}");
            assert_ne!(outcome[1], "done", "{group}, {attempt} was not refused");
            attempts += 1;
        }
        let line = format!("python3 data/boundary.py {group}");
        assert!(undone.contains_key(&line), "{line} is in the log: {undone:?}");
    }
    assert!(attempts >= 200, "{attempts} attempts");
    println!("{attempts} attempts: each undone or refused, and recorded");
    nothing_is_left_of_it(&stage);
    outside::tampering_from_outside_is_mended(&stage);
}

/// The methods that the table has.
fn methods() -> Vec<String> {
    let listed = Command::new("python3").args(["-c", GUARDED, "--list"]).output().unwrap();
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    serde_json::from_slice(&listed.stdout).unwrap()
}

/// For each command of the agent, in the log's words, the paths that were put back because of it.
fn what_was_undone(stage: &Stage) -> BTreeMap<String, Vec<String>> {
    let events = stage.run_to(0, &["log", "--dir", "app", "--json"]).lines();
    let mut undone: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut command = String::new();
    for event in events {
        let data = &event["data"];
        if event["kind"] == "tool.called" {
            command = data["summary"].as_str().unwrap().to_owned();
            assert_eq!(data["is_error"], false, "{command}: {event}");
            undone.entry(command.clone()).or_default();
        } else if event["kind"] == "tamper.undone" {
            let paths = undone.entry(command.clone()).or_default();
            paths.push(data["path"].as_str().unwrap().to_owned());
        }
    }
    undone
}

/// The list is the store's, the repository is whole, and the commits are the harness's.
fn nothing_is_left_of_it(stage: &Stage) {
    let list: Value = stage.json("app/feature_list.json");
    assert_eq!((list.as_array().unwrap().len(), &list[0]["passes"]), (1, &Value::Bool(true)));
    assert_eq!(stage.git(&["fsck", "--strict", "--no-progress", "--no-dangling"]), "");
    assert_eq!(stage.git(&["log", "--format=%an %s"]), "Longhaul feat: the page greets\nLonghaul chore: a skeleton\n");
    assert_eq!(stage.git(&["status", "--porcelain"]), "");
    for name in ["feature_list.json", "feature_checks.json", "progress.json", "progress.md"] {
        let committed = stage.git(&["show", &format!("HEAD:{name}")]);
        assert_eq!(committed, fs::read_to_string(stage.app().join(name)).unwrap(), "{name}");
    }
    let hooks = fs::read_dir(stage.app().join(".git/hooks")).unwrap().flatten();
    let planted: Vec<_> =
        hooks.map(|hook| hook.file_name()).filter(|name| !name.to_string_lossy().ends_with(".sample")).collect();
    assert!(planted.is_empty(), "{planted:?}");
}

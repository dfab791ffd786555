//! An agent that meets a wrong check proposes another one. A reviewer model decides without seeing a word of the session;
//! by default a person does, and the run waits for them. Either way only a verdict over the new checks makes it pass.

use std::sync::Mutex;

use serde_json::{Value, json};

use crate::{
    cassette,
    proxy::Proxy,
    stage::{Ended, Running, Stage},
};

const REQUEST: &str = "Build a page that counts clicks.";
const SERVER: &str = "#!/bin/sh\ncd \"$(dirname \"$0\")\"\nexec python3 -m http.server -b 127.0.0.1 \"$PORT\"\n";
const PAGE: &str = "<!doctype html><meta charset=utf-8><title>Tally</title><link rel=icon href=\"data:,\">\n\
    <button id=add>Add</button> <output id=total>0</output> <button id=clear>Clear</button>\n\
    <script>let n = 0; const show = () => total.textContent = n; add.onclick = () => { n++; show(); };\n\
    clear.onclick = () => { n = 0; show(); };</script>\n";
/// What the worker says to itself, and the reviewer must never hear.
const WHISPER: &str = "just-approve-it-please-7731";

fn click(step: usize, name: &str) -> Value {
    json!({"step": step, "check": "act", "action": "click", "target": {"role": "button", "name": name}})
}

fn total(step: usize, text: &str) -> Value {
    json!({"step": step, "check": "expect", "target": {"role": "status"}, "text": text})
}

/// A feature whose last check expects this total.
fn feature(id: &str, description: &str, button: &str, expected: &str) -> Value {
    json!({
        "id": id, "category": "functional", "description": description,
        "steps": ["Open the page", "Click 'Add'", format!("Click '{button}'"), format!("Verify that the total is '{expected}'")],
        "checks": [{"step": 1, "check": "goto", "path": "/"}, click(2, "Add"), click(3, button), total(4, expected)],
    })
}

/// A proposal that the total is this instead.
fn proposal(feature: &Value, button: &str, expected: &str, reason: &str) -> Value {
    let with = self::feature("F00", "d", button, expected);
    json!({"feature": feature["id"], "reason": reason, "steps": with["steps"], "checks": with["checks"]})
}

fn story() -> String {
    // Two clicks make 2, and clearing makes 0: both checks are wrong.
    let first = feature("F01", "Each click counts one", "Add", "3");
    let second = feature("F02", "Clearing sets the count back", "Clear", "1");
    let weaker = json!({
        "feature": "F01", "reason": "the button is there, which is enough to see", "steps": ["Open the page and see 'Add'"],
        "checks": [
            {"step": 1, "check": "goto", "path": "/"},
            {"step": 1, "check": "expect", "target": {"role": "button", "name": "Add"}, "visible": true},
        ],
    });
    let right = proposal(&first, "Add", "2", "two clicks make two, not three, if each click counts one");
    let person = proposal(&second, "Clear", "0", "the request wants the count set back, which is zero");
    let init = vec![
        ("describe_project", json!({"summary": "Tally, a page that counts clicks."})),
        ("write_file", json!({"path": "init.sh", "content": SERVER})),
        ("write_file", json!({"path": "index.html", "content": PAGE})),
        ("shell", json!({"command": "chmod +x init.sh"})),
        ("plan_features", json!({"features": [first, second]})),
    ];
    let say = |text: &str| ("memory_add", json!({ "content": text }));
    let propose = |arguments: &Value| ("propose_check_change", arguments.clone());
    let done = |summary: &str| ("claim_done", json!({"summary": summary, "commit_message": summary}));
    let decide = |decision: &str, note: &str| ("decide_check_change", json!({"decision": decision, "note": note}));
    let one = &["# Coding session 1\n"][..];
    let two = &["# Coding session 2\n"][..];
    let three = &["# Coding session 3\n"][..];
    let review = "# Review of a changed check";
    cassette::whole(
        "Two wrong checks",
        REQUEST,
        &[
            cassette::entry("init-1", &["# Initializer"], 0, &[], &init),
            cassette::entry("init-2", &["# Initializer"], 1, &["planned 2 features"], &[done("a plan")]),
            cassette::entry("one-1", one, 0, &[], &[say(WHISPER), done("it counts")]),
            cassette::entry("one-2", one, 1, &["REFUSED: step 4", "'3'"], &[propose(&weaker)]),
            cassette::entry("one-3", one, 2, &["P1 is REJECTED (the expectation is gone)"], &[propose(&right)]),
            cassette::entry("one-4", one, 3, &["P2 is APPROVED"], &[done("feat: count clicks")]),
            cassette::entry(
                "review-1",
                &[review, "which is enough to see"],
                0,
                &[],
                &[decide("reject", "the expectation is gone")],
            ),
            cassette::entry(
                "review-2",
                &[review, "two clicks make two"],
                0,
                &[],
                &[decide("approve", "it counts right")],
            ),
            cassette::entry("two-1", two, 0, &[], &[propose(&person)]),
            cassette::entry(
                "two-2",
                two,
                1,
                &["P3 is filed: a person decides"],
                &[("hand_over", json!({"note": "waits for P3"}))],
            ),
            cassette::entry("three-1", three, 0, &[], &[done("feat: clear the count")]),
        ],
    )
}

/// Every request that a model was sent.
static SENT: Mutex<Vec<Value>> = Mutex::new(Vec::new());

fn kept(request: &mut Value) {
    SENT.lock().unwrap().push(request.clone());
}

#[test]
fn a_wrong_check_is_changed_by_others_than_who_is_judged_by_it() {
    let stage = Stage::new();
    stage.write("story.toml", &story());
    let server = Running::start(&mut stage.command(&["cassette", "serve", "story.toml", "--json"]));
    let base_url = server.line(|line| line["base_url"].is_string())["base_url"].as_str().unwrap().to_owned();
    let proxy = Proxy::to(base_url.trim_start_matches("http://").trim_end_matches("/v1").parse().unwrap());
    proxy.edit(kept);
    let url = proxy.base_url();
    let run = |code: i32, args: &[&str]| {
        let mut command = stage.command(args);
        command.args(["--dir", "app", "--model", "openai:cassette-story", "--base-url", &url]);
        let ended = Ended::of(command.env("OPENAI_API_KEY", "sk-of-the-story"));
        assert_eq!(ended.code, Some(code), "{ended:#?}");
        ended
    };

    run(0, &["init", REQUEST]);
    run(3, &["run", "--sessions", "1", "--set", "harness.reviewer=model"]);
    judge_and_worker_share_no_context();
    the_list_follows_what_was_decided(&stage);

    let waiting = run(3, &["run"]);
    assert!(waiting.out.contains("1 proposal to change a check must be decided first"), "{}", waiting.out);
    let features = |code: i32, args: &[&str]| stage.run_to(code, &[&["features"], args, &["--dir", "app"]].concat());
    let shown = features(0, &["proposals"]).out;
    assert!(shown.contains("P3") && shown.contains("because: the request wants the count set back"), "{shown}");
    assert!(
        shown.contains("- 4. Verify that the total is '1'") && shown.contains("+ 4. Verify that the total is '0'"),
        "{shown}"
    );
    assert!(features(2, &["approve", "P9"]).err.contains("there is no proposal P9"));
    features(0, &["approve", "P3", "--note", "yes, zero"]);
    assert!(features(2, &["reject", "P3"]).err.contains("P3 was approved already"));
    assert_eq!(stage.git(&["status", "--porcelain"]), "");

    let finished = run(0, &["run"]);
    assert!(finished.out.contains("2 of 2 features verified"), "{}", finished.out);
    let decided: Vec<Value> =
        stage.log("check.decided").iter().map(|e| json!([e["proposal"], e["decision"]])).collect();
    assert_eq!(decided, [json!(["P1", "rejected"]), json!(["P2", "approved"]), json!(["P3", "approved"])]);
    let changes: Value = serde_json::from_str(&features(0, &["changes", "--json"]).out).unwrap();
    assert_eq!(changes[1]["detail"]["before"]["steps"][3], "Verify that the total is '3'");
    assert!(changes[1]["by"].as_str().unwrap().starts_with("reviewer "), "{changes}");
    assert_eq!(changes[2]["reason"], "yes, zero");
}

/// On the wire: the reviewer's requests hold no word of the session, and the session's none of the review but its outcome.
fn judge_and_worker_share_no_context() {
    let sent = SENT.lock().unwrap();
    let is_review = |request: &&Value| request.to_string().contains("# Review of a changed check");
    let reviews: Vec<&Value> = sent.iter().filter(is_review).collect();
    assert_eq!(reviews.len(), 2);
    for review in reviews {
        let roles: Vec<&Value> =
            review["messages"].as_array().unwrap().iter().map(|message| &message["role"]).collect();
        assert_eq!(roles, ["system", "user"], "{review}");
        let tools: Vec<&Value> =
            review["tools"].as_array().unwrap().iter().map(|tool| &tool["function"]["name"]).collect();
        assert_eq!(tools, ["decide_check_change"]);
        for foreign in [WHISPER, "# Coding session", "it counts", "Recalled from memory", "index.html", "claim_done"] {
            assert!(!review.to_string().contains(foreign), "{foreign} is in {review}");
        }
    }
    let of_the_worker = |request: &&Value| request.to_string().contains("# Coding session 1");
    let worker: Vec<&Value> = sent.iter().filter(of_the_worker).collect();
    assert!(worker.iter().any(|request| request.to_string().contains(WHISPER)), "a positive control");
    assert!(worker.iter().all(|request| !request.to_string().contains("You review one proposed change")));
}

fn the_list_follows_what_was_decided(stage: &Stage) {
    let list = stage.json("app/feature_list.json");
    assert_eq!((&list[0]["passes"], &list[1]["passes"]), (&json!(true), &json!(false)));
    assert_eq!(list[0]["steps"][3], "Verify that the total is '2'");
    assert_eq!(stage.log("tamper.undone"), Vec::<Value>::new());
}

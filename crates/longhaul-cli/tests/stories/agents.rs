//! External agents as the workers of sessions: the whole tiny story by one, and what odd ones come to.

use std::{fs, path::PathBuf};

use serde_json::{Value, json};

use crate::stage::{Running, Stage, TINY};

/// A script beside these tests, copied to where the sandbox may read it.
fn script(stage: &Stage, name: &str) -> PathBuf {
    let folder = stage.path("agent");
    fs::create_dir_all(&folder).unwrap();
    let source = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/agents").join(name);
    fs::copy(source, folder.join(name)).unwrap();
    folder.join(name)
}

/// An agent that plays the tiny story.
fn player(stage: &Stage) -> String {
    let script = script(stage, "cassette_agent.py");
    fs::copy(stage.path("tiny.toml"), stage.path("agent/tiny.toml")).unwrap();
    format!("acp:/usr/bin/python3 {} {}", script.display(), stage.path("agent/tiny.toml").display())
}

fn odd(stage: &Stage, mode: &str) -> String {
    format!("acp:/usr/bin/python3 {} {mode}", script(stage, "odd_agent.py").display())
}

/// A project that is planned and not begun.
fn planned() -> Stage {
    let stage = Stage::new();
    stage.write("tiny.toml", TINY);
    let request = "Build a page that counts clicks and keeps notes, with Python's standard library only.";
    stage.run_to(0, &["init", request, "--dir", "app", "--model", "cassette:tiny.toml"]);
    stage
}

fn one_session(stage: &Stage, code: i32, agent: &str, more: &[&str]) -> String {
    let mut args = vec!["run", "--dir", "app", "--sessions", "1", "--agent", agent];
    args.extend(more);
    let ended = stage.run_to(code, &args);
    format!("{}{}", ended.out, ended.err)
}

#[test]
fn an_external_agent_builds_the_tiny_story_and_a_kill_in_the_middle_changes_nothing() {
    let stage = Stage::new();
    stage.write("tiny.toml", TINY);
    let agent = player(&stage);
    let demo = ["demo", "--cassette", "tiny.toml", "--dir", "app", "--agent", &agent];
    // Killed in its second session, after a claim was refused or just before.
    let mut running = Running::start(stage.command(&demo).arg("--json"));
    running.line(|line| line["kind"] == "agent.started" && line["data"]["session"] == 2);
    running.line(|line| line["kind"] == "tool.called");
    running.kill();
    running.wait();
    let ended = stage.run_to(0, &demo);
    assert!(ended.out.contains("3 of 3 features verified"), "{}", ended.out);

    let subjects = stage.git(&["log", "--reverse", "--format=%s"]);
    assert_eq!(subjects.lines().count(), 4, "{subjects}");
    let steps = stage.git(&["log", "--format=%(trailers:key=Longhaul-Step,valueonly)"]);
    assert!(steps.lines().filter(|line| line.contains("commit_session")).count() == 4, "{steps}");
    assert_eq!(stage.git(&["status", "--porcelain"]), "");
    // The interrupted session was begun again, from the last commit.
    let started = stage.log("agent.started");
    let sessions: Vec<&Value> = started.iter().map(|event| &event["session"]).collect();
    assert_eq!(sessions, [1, 2, 2, 3], "{started:?}");
    assert_eq!(started[0]["agent"], "cassette-agent 1");
    let refused = stage.log("claim.refused");
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert!(refused[0]["reason"].as_str().unwrap().contains("opacity"), "{}", refused[0]);
    let undone = stage.log("tamper.undone");
    assert_eq!(undone, [json!({"path": "feature_list.json", "how": "passes of F03 changed to true"})]);
    let status = stage.run_to(0, &["status", "--dir", "app", "--json"]).out;
    let status: Value = serde_json::from_str(&status).unwrap();
    assert_eq!((&status["passing"], &status["phase"]), (&json!(3), &json!("done")), "{status}");
}

#[test]
fn odd_agents_end_in_a_clear_state_that_the_next_session_goes_on_from() {
    let stage = planned();
    // What cannot be worked with at all ends the run and costs no attempt.
    let told = one_session(&stage, 1, &odd(&stage, "version"), &[]);
    assert!(told.contains("version 2") && told.contains("longhaul speaks 1"), "{told}");
    let told = one_session(&stage, 1, &odd(&stage, "login"), &[]);
    assert!(told.contains("Authentication required") && told.contains("docs/agents.md"), "{told}");
    let told = one_session(&stage, 2, "acp:no-such-agent", &[]);
    assert!(told.contains("there is no program no-such-agent"), "{told}");
    let told = one_session(&stage, 1, "acp:/usr/bin/true", &[]);
    assert!(told.contains("ended before it had answered `initialize`"), "{told}");
    assert_eq!(stage.log("session.ended").len(), 1, "only the initializer's session has ended");

    // What fails in the middle hands over; the folder is at the last commit.
    for (mode, expected) in
        [("crash", "out of luck"), ("nonsense", "no message of the Agent Client Protocol"), ("inside", "uid 64177")]
    {
        one_session(&stage, 3, &odd(&stage, mode), &[]);
        let note = last_note(&stage);
        assert!(note.contains(expected), "{mode}: {note}");
        if mode == "inside" {
            assert!(note.contains("key none"), "{note}");
            assert!(note.contains("git refused; home refused; etc refused; fs refused"), "{note}");
        }
        assert_eq!(stage.git(&["status", "--porcelain"]), "", "{mode}");
        assert!(!stage.app().join("half.txt").exists(), "{mode}");
    }
    // Something that runs on while the work is verified is stopped, or the folder would not be what was verified.
    one_session(&stage, 3, &odd(&stage, "background"), &["--set", "harness.claims_max=1"]);
    let refused = stage.log("claim.refused");
    assert!(refused.iter().any(|claim| claim["step"] == 2), "it was verified and refused: {refused:?}");
    assert_eq!(stage.git(&["status", "--porcelain"]), "");
}

#[test]
fn a_request_for_permission_waits_for_a_person_and_the_session_starts_again_with_the_answer() {
    let stage = planned();
    let agent = odd(&stage, "ask");
    // Refused by a rule: the agent goes on and hands over.
    one_session(&stage, 3, &agent, &["--set", "policy.deny=agent__execute(command=*git push*)"]);
    assert!(last_note(&stage).contains("push no, was not told"), "{}", last_note(&stage));

    let rule = ["--set", "policy.ask=agent__execute"];
    one_session(&stage, 3, &agent, &rule);
    let waits = stage.run_to(0, &["waits", "--json"]).lines();
    let wait = waits.iter().flat_map(|line| line.as_array().cloned().unwrap_or(vec![line.clone()])).next().unwrap();
    assert_eq!(wait["name"], "may the agent do this: Run git push");
    assert_eq!(wait["payload"]["input"], r#"{"command":"git push"}"#);
    assert_eq!(stage.git(&["status", "--porcelain"]), "");
    stage.run_to(0, &["approve", wait["id"].as_str().unwrap()]);
    one_session(&stage, 3, &agent, &rule);
    assert!(last_note(&stage).contains("push yes, was told"), "{}", last_note(&stage));
    let decisions: Vec<Value> =
        stage.log("agent.permission").into_iter().map(|event| event["decision"].clone()).collect();
    assert_eq!(decisions, ["denied", "asked about", "allowed"]);
}

/// The real Claude Code with `LONGHAUL_TEST_CLAUDE` set to its ACP adapter: a tool of its own, a denied command, a refused
/// claim that is mended, and a turn that is cancelled as a person is asked. Its model is the cassette, which only answers
/// to a key that is added outside the sandbox.
#[test]
fn claude_code_works_in_the_sandbox_without_its_key_or_its_service() {
    let Some(program) = std::env::var_os("LONGHAUL_TEST_CLAUDE").map(PathBuf::from) else {
        println!("not tried: `scripts/peers.sh claude` installs it, LONGHAUL_TEST_CLAUDE names its program");
        return;
    };
    let stage = Stage::new();
    let project = fs::canonicalize(stage.path("")).unwrap().join("app");
    let story = include_str!("claude.cassette.toml").replace("PROJECT", project.to_str().unwrap());
    stage.write("claude.toml", &story);
    let request = "Build a page that says hello and counts its visitors, with Python's standard library only.";
    stage.run_to(0, &["init", request, "--dir", "app", "--model", "cassette:claude.toml"]);
    let agent = format!("acp:{}", program.display());
    one_session(&stage, 3, &agent, &["--set", "policy.deny=agent__execute(command=*git push*)"]);

    let started = stage.log("agent.started");
    assert_eq!(started[0]["agent"], "@agentclientprotocol/claude-agent-acp 0.100.0");
    let asked: Vec<(Value, Value)> = stage
        .log("agent.permission")
        .into_iter()
        .map(|event| (event["why"].clone(), event["decision"].clone()))
        .collect();
    assert_eq!(asked[0], (json!("git push origin main"), json!("denied")), "{asked:?}");
    assert!(asked.iter().skip(1).all(|(_, decision)| decision == "allowed"), "{asked:?}");
    let calls = stage.log("tool.called");
    assert!(calls.iter().any(|call| call["tool"] == "execute" && call["is_error"] == true), "the push: {calls:?}");
    assert!(calls.iter().any(|call| call["tool"] == "edit" && call["is_error"] == false), "its Write: {calls:?}");
    assert_eq!(stage.log("claim.refused").len(), 1);
    assert_eq!(stage.log("feature.passed").len(), 1);
    assert_eq!(stage.git(&["log", "-1", "--format=%s"]).trim(), "feat: The page greets the visitor");

    // A person is asked: the turn is cancelled, and the agent heeds that.
    one_session(&stage, 3, &agent, &["--set", "policy.ask=agent__execute(command=*curl*)"]);
    assert_eq!(stage.log("agent.cancelled"), [json!({"why": "a person is asked", "heeded": true})]);
    let waits = stage.run_to(0, &["waits"]);
    assert!(waits.out.contains("may the agent do this: curl https://example.org/goodbye"), "{}", waits.out);
    assert_eq!(stage.git(&["status", "--porcelain"]), "");
}

/// What the newest session handed over.
fn last_note(stage: &Stage) -> String {
    let progress = stage.json("app/progress.json");
    progress["sessions"].as_array().unwrap().last().unwrap().to_string()
}

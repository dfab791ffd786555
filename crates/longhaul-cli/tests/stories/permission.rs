//! What the user's rules ask for waits for a person, durably, with the exact arguments; what a person refuses is not done.

use serde_json::{Value, json};

use crate::stage::{Stage, TINY};

/// Two more calls in the first coding session: one that a person refuses, one that a rule refuses.
const MORE: &str = r#"
[[entry.call]]
tool = "shell"
arguments.command = "echo sent > refused.txt"
[[entry.call]]
tool = "shell"
arguments.command = "echo sent > denied.txt"
[[entry.call]]
tool = "shell"
arguments.command = "echo fine > allowed.txt"

[[entry]]
id = "f01-2-claim""#;

const RULES: [&str; 4] = [
    "--set",
    "policy.ask=write_file(path=app.js), shell(command=*refused*)",
    "--set",
    "policy.deny=shell(command=*denied*)",
];

#[test]
fn calls_wait_for_a_person_and_go_on_with_the_answer() {
    let stage = Stage::new();
    let request = "Build a page that counts clicks and keeps notes, with Python's standard library only.";
    stage.write("tiny.toml", &TINY.replace("\n[[entry]]\nid = \"f01-2-claim\"", MORE));
    stage.run_to(0, &["init", request, "--dir", "app", "--model", "cassette:tiny.toml"]);
    let run = |code| {
        let mut args = vec!["run", "--dir", "app", "--sessions", "1"];
        args.extend(RULES);
        stage.run_to(code, &args)
    };

    let ended = run(3);
    assert!(ended.out.contains("somebody has to answer"), "{ended:?}");
    let first = the_wait(&stage);
    assert_eq!((&first["name"], &first["payload"]["tool"]), (&json!("allow write_file"), &json!("write_file")));
    let arguments = &first["payload"]["arguments"];
    assert_eq!(arguments["path"], "app.js");
    assert!(arguments["content"].as_str().unwrap().contains("addEventListener"), "{arguments}");
    assert!(first["payload"]["why"].as_str().unwrap().contains("write_file(path=app.js)"), "{first}");
    // Nothing was done, and to run again changes nothing of it.
    assert!(!stage.app().join("app.js").exists());
    run(3);
    assert_eq!(the_wait(&stage)["id"], first["id"]);

    stage.run_to(0, &["approve", first["id"].as_str().unwrap()]);
    // Rules that say something else by now do not change what was asked and answered.
    run(3);
    let second = the_wait(&stage);
    assert_eq!(second["payload"]["arguments"]["command"], "echo sent > refused.txt");
    assert!(stage.app().join("app.js").exists());
    stage.run_to(0, &["reject", second["id"].as_str().unwrap(), "--reason", "not today"]);

    run(3);
    let made = |name: &str| stage.app().join(name).exists();
    assert_eq!((made("refused.txt"), made("denied.txt"), made("allowed.txt")), (false, false, true));
    let judged = stage.log("agent.permission");
    let decisions: Vec<&Value> = judged.iter().map(|event| &event["decision"]).collect();
    assert_eq!(decisions, ["approved", "refused", "refused"], "{judged:?}");
    assert!(judged[1]["why"].as_str().unwrap().contains("not today"), "{judged:?}");
    assert!(judged[2]["why"].as_str().unwrap().contains("shell(command=*denied*)"), "{judged:?}");
    let status: Value = serde_json::from_str(&stage.run_to(0, &["status", "--dir", "app", "--json"]).out).unwrap();
    assert_eq!(status["passing"], 1);
}

/// The one question that is open.
fn the_wait(stage: &Stage) -> Value {
    let mut open = stage.run_to(0, &["waits", "--json"]).lines();
    assert_eq!(open.len(), 1, "{open:?}");
    open.remove(0)
}

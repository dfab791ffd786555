//! Faults planted into the application of the demonstration: the verifier refuses each with the sentence and the reason,
//! and passes the application as it was built.

use std::fs;

use serde_json::{Value, json};

use crate::stage::{Stage, swap};

/// One fault: the feature that shows it, where it is put, and how it is refused.
struct Fault {
    feature: &'static str,
    file: &'static str,
    old: &'static str,
    new: &'static str,
    sentence: &'static str,
    reason: &'static str,
}

const FAULTS: [Fault; 4] = [
    // A visual fault: the answers are there and transparent.
    Fault {
        feature: "F03",
        file: "style.css",
        old: ".message.assistant { padding: 0 4px;",
        new: ".message.assistant { color: transparent; padding: 0 4px;",
        sentence: "Verify that Lantern's answer is shown and asks what to think about",
        reason: "its text is transparent",
    },
    // A dead button.
    Fault {
        feature: "F01",
        file: "app.js",
        old: "$(\"new-chat\").addEventListener(\"click\", newChat);",
        new: "",
        sentence: "Verify that a new conversation is created",
        reason: "expected 1 (n + 1) visible listitem",
    },
    // A wrong count: each answer is drawn twice.
    Fault {
        feature: "F03",
        file: "app.js",
        old: "...shown.map(messageArticle)",
        new: "...[...shown, ...shown.slice(-1)].map(messageArticle)",
        sentence: "Verify that there is exactly one answer",
        reason: "expected 1 visible article \"Lantern\", but there are 2",
    },
    // A lost record: each start of the application begins a new database.
    Fault {
        feature: "F05",
        file: "store.py",
        old: "directory / \"lantern.db\"",
        new: "directory / f\"lantern-{time.time_ns()}.db\"",
        sentence: "Verify that the sidebar still lists 'Remember the milk'",
        reason: "found no listitem with text \"Remember the milk\"",
    },
];

#[test]
fn faults_planted_into_the_demos_application_are_refused() {
    let stage = Stage::new();
    let ended = stage.run_to(0, &["demo", "--dir", "app"]);
    assert!(ended.out.contains("15 of 15 features verified"), "{}", ended.out);
    let features = ["F01", "F03", "F05"];
    for feature in features {
        assert_eq!(verify(&stage, 0, feature)["passed"], true);
    }
    for fault in &FAULTS {
        let path = stage.app().join(fault.file);
        let healthy = swap(&path, fault.old, fault.new);
        let verdict = verify(&stage, 3, fault.feature);
        let refusal = &verdict["refusal"];
        assert_eq!((&verdict["passed"], &refusal["sentence"]), (&json!(false), &json!(fault.sentence)), "{verdict}");
        assert!(refusal["reason"].as_str().unwrap().contains(fault.reason), "{verdict}");
        fs::write(&path, healthy).unwrap();
    }
    for feature in features {
        assert_eq!(verify(&stage, 0, feature)["passed"], true, "{feature} after the faults");
    }
    let list = stage.json("app/feature_list.json");
    assert!(
        list.as_array().unwrap().iter().all(|feature| feature["passes"] == true),
        "uncommitted faults change nothing"
    );
}

fn verify(stage: &Stage, code: i32, feature: &str) -> Value {
    let lines = stage.run_to(code, &["verify", feature, "--dir", "app", "--json"]).lines();
    let verdict = lines.into_iter().find(|line| line["feature"] == feature);
    verdict.expect("a verdict of the feature")
}

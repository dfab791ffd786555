//! The tiny story from its request to verified features, and what it leaves behind.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::stage::{Stage, TINY, swap};

#[test]
fn one_sentence_becomes_a_verified_application() {
    let stage = Stage::new();
    stage.write("tiny.toml", TINY);
    let ended = stage.run_to(0, &["demo", "--cassette", "tiny.toml", "--dir", "app"]);
    assert!(ended.out.contains("3 of 3 features verified"), "{}", ended.out);
    assert!(ended.out.contains("replies come from a cassette, everything else is real"), "{}", ended.out);

    the_list_has_the_documented_shape(&stage);
    each_feature_is_one_commit_and_the_tree_is_clean(&stage);
    the_log_tells_recall_refusal_and_tampering(&stage);
    the_commit_that_broke_a_feature_is_named(&stage);
}

fn the_list_has_the_documented_shape(stage: &Stage) {
    let list = stage.json("app/feature_list.json");
    let list = list.as_array().unwrap();
    let ids: Vec<&Value> = list.iter().map(|feature| &feature["id"]).collect();
    assert_eq!(ids, ["F01", "F02", "F03"]);
    for feature in list {
        let fields: BTreeSet<&str> = feature.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(fields, BTreeSet::from(["category", "description", "id", "passes", "steps"]));
        assert_eq!(feature["passes"], true, "{feature}");
    }
    assert_eq!(list[0]["steps"], json!(["Open the page", "Click 'Add one'", "Verify that the total is 1"]));
    let progress = stage.json("app/progress.json");
    assert_eq!((&progress["passing"], &progress["total"]), (&json!(3), &json!(3)));
    assert_eq!(progress["sessions"].as_array().unwrap().len(), 4, "the initializer and three coding sessions");
    let generated = std::fs::read_to_string(stage.path("app/progress.md")).unwrap();
    assert!(generated.contains("- [x] F03 Notes survive a restart of the application"), "{generated}");
    let checks = stage.json("app/feature_checks.json");
    assert!(checks["features"][2]["hash"].is_string(), "{checks}");
}

fn each_feature_is_one_commit_and_the_tree_is_clean(stage: &Stage) {
    let log = stage.git(&["log", "--reverse", "--format=%s"]);
    let subjects: Vec<&str> = log.lines().collect();
    let planned = ["chore: a skeleton that boots", "feat: count clicks", "feat: a list of notes", "feat: keep notes"];
    assert_eq!(subjects, planned);
    assert_eq!(stage.git(&["status", "--porcelain"]), "");
}

/// Somebody commits three times; the second commit breaks a feature. The search takes two verifications at most.
fn the_commit_that_broke_a_feature_is_named(stage: &Stage) {
    let commit = |subject: &str| {
        stage.git(&["add", "--all"]);
        stage.git(&["-c", "user.name=Ada", "-c", "user.email=ada@localhost", "commit", "--quiet", "-m", subject]);
    };
    stage.write("app/README.md", "counts clicks\n");
    commit("docs: say what it is");
    swap(&stage.path("app/server.py"), "state[\"total\"] += 1", "state[\"total\"] += 2");
    commit("feat: count faster");
    stage.write("app/NOTES.md", "nothing yet\n");
    commit("docs: notes");
    let lines = stage.run_to(3, &["verify", "F01", "--dir", "app", "--json"]).lines();
    assert_eq!(lines[0]["refusal"]["sentence"], "Verify that the total is 1", "{lines:?}");
    let features = stage.run_to(0, &["features", "--dir", "app", "--json"]).out;
    assert!(features.contains("broken by commit") && features.contains("feat: count faster"), "{features}");
    assert_eq!(stage.json("app/feature_list.json")[0]["passes"], false);
}

fn the_log_tells_recall_refusal_and_tampering(stage: &Stage) {
    let recalls = stage.log("memory.recalled");
    let lesson = recalls
        .iter()
        .flat_map(|recall| recall["hits"].as_array().unwrap())
        .find(|hit| hit["content"].as_str().unwrap().contains("after each change call refresh()"))
        .expect("the lesson of session 1 is recalled");
    assert!(lesson["score"].as_f64().unwrap() > 0.0, "{lesson}");
    assert!(lesson["explain"]["meaning"]["raw"].as_f64().is_some(), "found by meaning too: {lesson}");

    let refused = stage.log("claim.refused");
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert_eq!((&refused[0]["feature"], &refused[0]["step"]), (&json!("F02"), &json!(3)));
    assert_eq!(refused[0]["sentence"], "Verify that the list shows 'buy milk'");
    assert!(refused[0]["reason"].as_str().unwrap().contains("opacity"), "{}", refused[0]);

    let undone = stage.log("tamper.undone");
    assert_eq!(undone, [json!({"path": "feature_list.json", "how": "passes of F03 changed to true"})]);
}

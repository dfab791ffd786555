//! Work that is no software: a review whose every claim cites a stored source, a model whose numbers hold. No application
//! is started and no page opened; a wrong quotation and a balance that does not balance are refused like a dead button.

use serde_json::{Value, json};

use crate::stage::Stage;

/// Plays the demonstration of a profile; gives the steps at which claims were refused.
fn played(stage: &Stage, profile: &str) -> Vec<Value> {
    let ended = stage.run_to(0, &["demo", "--profile", profile, "--dir", "app"]);
    assert!(ended.out.contains("3 of 3 features verified"), "{}", ended.out);
    assert_eq!(stage.log("app.booted"), Vec::<Value>::new(), "there is no application");
    assert_eq!(stage.log("app.failed"), Vec::<Value>::new());
    assert_eq!(stage.git(&["status", "--porcelain"]), "");
    assert!(!stage.path("app/init.sh").exists());
    stage.log("claim.refused").iter().map(|refused| json!([refused["feature"], refused["step"]])).collect()
}

#[test]
fn a_review_cites_a_stored_source_for_every_claim() {
    let stage = Stage::new();
    assert_eq!(played(&stage, "research"), [json!(["F01", 2]), json!(["F01", 2])]);
    // A source that is edited afterwards no longer holds the quotation.
    let source = stage.path("app/sources/south2022.md");
    crate::stage::swap(&source, "unshaded at noon", "unshaded at five");
    let verdict = stage.run_to(3, &["verify", "F03", "--dir", "app", "--json"]).lines();
    let verdict = verdict.iter().find(|line| line["feature"] == "F03").unwrap();
    assert!(verdict["refusal"]["reason"].as_str().unwrap().contains("unshaded at noon"), "{verdict}");
}

#[test]
fn a_model_is_held_to_its_formulas_and_invariants() {
    let stage = Stage::new();
    assert_eq!(played(&stage, "documents"), [json!(["F01", 3])]);
    let report = std::fs::read_to_string(stage.path("app/report.md")).unwrap();
    assert!(report.contains("2026: equity is 76.1 % of assets"), "{report}");
}

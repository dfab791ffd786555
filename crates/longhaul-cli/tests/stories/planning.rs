//! A plan of more than two hundred features, made over several sittings of a window that could never hold it, with its
//! mistakes refused by their places; and what people change of it afterwards.

use serde_json::{Value, json};

use crate::{cassette, stage::Stage};

const REQUEST: &str = "Build a clone of claude.ai";
const THINGS: [&str; 16] = [
    "conversation",
    "message",
    "project",
    "folder",
    "template",
    "attachment",
    "label",
    "draft",
    "snippet",
    "note",
    "reminder",
    "member",
    "workspace",
    "theme",
    "model",
    "shortcut",
];
const DEEDS: [&str; 13] = [
    "renamed",
    "deleted",
    "pinned",
    "searched",
    "sorted",
    "exported",
    "shared",
    "archived",
    "duplicated",
    "filtered",
    "counted",
    "restored",
    "printed",
];
/// Batches of each sitting; with 13 features each they are 26, 78, 130, 182 and 208.
const SITTINGS: [usize; 5] = [2, 4, 4, 4, 2];

fn feature(thing: usize, deed: usize) -> Value {
    let (what, done) = (THINGS[thing], DEEDS[deed]);
    let button = json!({"role": "button", "name": format!("{done} {what}")});
    let mut steps = vec!["Open the page".to_owned()];
    let mut checks = vec![json!({"step": 1, "check": "goto", "path": "/"})];
    // Two of each thing's features are told at length.
    for round in 1..=(if deed < 2 { 5 } else { 1 }) {
        steps.push(format!("Choose to have the {what} {done}"));
        checks.push(json!({"step": steps.len(), "check": "act", "action": "click", "target": button}));
        steps.push(format!("Verify that the page says '{what} {done} {round}'"));
        let said = format!("{what} {done} {round}");
        checks.push(json!({"step": steps.len(), "check": "expect", "target": {"role": "status"}, "text": said}));
    }
    json!({
        "id": format!("F{:03}", thing * DEEDS.len() + deed + 1), "category": what,
        "description": format!("A {what} can be {done}, and the page says so"), "steps": steps, "checks": checks,
        "priority": 1 + deed % 5,
    })
}

fn batch(thing: usize) -> Value {
    json!({"features": (0..DEEDS.len()).map(|deed| feature(thing, deed)).collect::<Vec<_>>()})
}

/// The first batch with one mistake of each kind.
fn batch_with_mistakes() -> Value {
    let mut wrong = batch(0);
    wrong["features"][1]["description"] = json!("Conversations can be renamed, and the page says so!");
    wrong["features"][2]["steps"][2] = json!("Verify that pinning works properly");
    wrong["features"][2]["checks"][2] =
        json!({"step": 3, "check": "expect", "target": {"role": "main"}, "visible": true});
    wrong["features"][3]["checks"][1]["target"]["css"] = json!("#search");
    wrong
}

fn story() -> String {
    let first = format!("{REQUEST}\n\n## What to do");
    let mut entries = Vec::new();
    let mut planned = 0;
    for (sitting, batches) in SITTINGS.into_iter().enumerate() {
        let select = if sitting == 0 { first.clone() } else { format!("{} features are locked already", planned * 13) };
        let mut replies: Vec<(Vec<&str>, Vec<(&str, Value)>)> = Vec::new();
        if sitting == 0 {
            let skeleton = vec![
                ("describe_project", json!({"summary": "A chat application.", "size": "large"})),
                (
                    "write_file",
                    json!({"path": "init.sh", "content": "#!/bin/sh\nexec python3 -m http.server -b 127.0.0.1 \"$PORT\"\n"}),
                ),
                ("shell", json!({"command": "chmod +x init.sh"})),
                ("plan_features", batch_with_mistakes()),
            ];
            replies.push((vec![], skeleton));
        }
        for n in 0..batches {
            let needs = match (sitting, n) {
                (0, 0) => vec![
                    "features[3].checks[1]",
                    "features[1].description",
                    "says the same as F001",
                    "features[2].steps[2]",
                    "is praise",
                    "Nothing of this call was kept",
                ],
                (_, 0) => vec![],
                // By then there are enough long ones.
                (3.., _) => vec!["planned 13 features", "of at least 200 features are planned"],
                _ => vec![
                    "planned 13 features",
                    "of at least 200 features are planned",
                    "of at least 25 features with 10",
                ],
            };
            replies.push((needs, vec![("plan_features", batch(planned))]));
            planned += 1;
        }
        let last = sitting == SITTINGS.len() - 1;
        if sitting == 0 {
            replies.push((vec!["26 in all"], vec![("claim_done", json!({"summary": "planned"}))]));
            let note = json!({"note": "two things are planned, fourteen are left"});
            replies.push((vec!["REFUSED: 26 of at least 200 features are planned"], vec![("hand_over", note)]));
        } else if last {
            replies.push((vec!["208 in all"], vec![("claim_done", json!({"summary": "208 features"}))]));
        } else {
            replies.push((vec![], vec![("hand_over", json!({"note": "the window is nearly full"}))]));
        }
        for (turn, (needs, calls)) in replies.into_iter().enumerate() {
            entries.push(cassette::entry(
                &format!("s{sitting}-{turn}"),
                &["# Initializer", &select],
                turn,
                &needs,
                &calls,
            ));
        }
    }
    cassette::whole("A plan of hundreds", REQUEST, &entries)
}

#[test]
fn a_request_of_any_size_is_planned_and_people_change_the_plan() {
    let stage = Stage::new();
    stage.write("plan.toml", &story());
    let small_window = ["--set", "model.window_tokens=32000", "--set", "model.answer_tokens_max=8000"];
    let asked = ["init", REQUEST, "--dir", "app", "--model", "cassette:plan.toml"];
    stage.run_to(0, &[&asked[..], &small_window[..]].concat());

    let list = stage.json("app/feature_list.json");
    let list = list.as_array().unwrap();
    assert_eq!(list.len(), 208);
    assert_eq!(list.iter().filter(|f| f["steps"].as_array().unwrap().len() >= 10).count(), 32);
    assert!(list.iter().all(|feature| feature["passes"] == false));
    let refused = stage.log("plan.refused");
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert_eq!(refused[0]["place"], "features[1].description");
    assert_eq!(stage.git(&["rev-list", "--count", "HEAD"]).trim(), "1");

    people_change_the_plan(&stage);
}

fn people_change_the_plan(stage: &Stage) {
    let change = |code: i32, args: &[&str]| stage.run_to(code, &[&["features"], args, &["--dir", "app"]].concat());
    // Nobody changes a plan without a reason, breaks its order, or plans something twice.
    assert!(change(2, &["retire", "F001", "--reason", " "]).err.contains("say why with --reason"));
    assert!(change(2, &["retire", "F999", "--reason", "gone"]).err.contains("there is no feature F999"));
    stage.write("again.json", &json!([feature(4, 4)]).to_string().replace("F057", "F300"));
    let twin = change(2, &["add", "again.json"]);
    assert!(twin.err.contains("is verified by the very same checks as F057"), "{}", twin.err);

    let mut parts = [feature(0, 1), feature(0, 2)];
    for (n, part) in parts.iter_mut().enumerate() {
        part["id"] = json!(format!("F20{}", 9 + n));
        part["checks"][1]["target"]["name"] = json!(format!("part {n}"));
        part["description"] = json!(["The trash is emptied by hand", "The trash is emptied at midnight"][n]);
    }
    let mut parts = json!(parts);
    parts[1]["id"] = json!("F210");
    stage.write("parts.json", &parts.to_string());
    let mut dependent = feature(1, 3);
    dependent["id"] = json!("F211");
    dependent["depends_on"] = json!(["F002"]);
    dependent["description"] = json!("What is in the trash is listed");
    dependent["checks"][1]["target"]["name"] = json!("list the trash");
    stage.write("more.json", &dependent.to_string());
    assert!(change(0, &["add", "more.json", "--reason", "asked for"]).out.contains("209 features in all"));
    assert!(change(2, &["retire", "F002", "--reason", "gone"]).err.contains("F211 depend on it"));
    let split = change(0, &["split", "F002", "parts.json", "--reason", "two things"]);
    assert!(
        split.out.contains("F002 is split into F209, F210; F211 now depend on the parts; 210 features in all"),
        "{}",
        split.out
    );
    change(0, &["retire", "F001", "--reason", "not wanted any more"]);
    stage.write("more.json", &dependent.to_string().replace("F211", "F001"));
    assert!(change(2, &["add", "more.json"]).err.contains("F001 is already planned"), "an id is never used again");

    let list = stage.json("app/feature_list.json");
    let ids: Vec<&str> = list.as_array().unwrap().iter().map(|f| f["id"].as_str().unwrap()).collect();
    assert_eq!((ids.len(), ids[0], ids[ids.len() - 1]), (209, "F003", "F210"));
    assert_eq!(stage.git(&["status", "--porcelain"]), "");
    let log = stage.git(&["log", "-3", "--format=%s"]);
    assert_eq!(log, "chore: F001 retired\nchore: F002 split\nchore: features added\n");
    let changes: Value = serde_json::from_str(&change(0, &["changes", "--json"]).out).unwrap();
    let told: Vec<_> =
        changes.as_array().unwrap().iter().map(|c| (&c["change"], &c["feature"], &c["reason"])).collect();
    assert_eq!(
        told,
        [
            (&json!("added"), &json!("F211"), &json!("asked for")),
            (&json!("split"), &json!("F002"), &json!("two things")),
            (&json!("retired"), &json!("F001"), &json!("not wanted any more")),
        ]
    );
    let events: Vec<usize> =
        ["feature.added", "feature.split", "feature.retired"].map(|kind| stage.log(kind).len()).into();
    assert_eq!(events, [1, 1, 1]);
}

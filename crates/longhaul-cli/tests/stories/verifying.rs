//! `longhaul verify` in folders that no store knows, as in CI: their own list, what is reported, and what is left alone.

use std::{collections::BTreeMap, fs, os::unix::fs::MetadataExt as _, path::Path};

use serde_json::json;

use crate::stage::{Stage, swap};

/// A copy of one of the applications that the verifier is tried out with.
fn application(stage: &Stage) {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../longhaul-harness/tests/faults/apps/notes");
    fs::create_dir(stage.path("notes")).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        fs::copy(entry.path(), stage.path("notes").join(entry.file_name())).unwrap();
    }
}

/// Names, contents, owners and times of what is in the folder.
fn state(dir: &Path) -> BTreeMap<String, (Vec<u8>, u32, i64)> {
    let entries = fs::read_dir(dir).unwrap().flatten();
    let state = entries.map(|entry| {
        let found = entry.metadata().unwrap();
        (entry.file_name().into_string().unwrap(), (fs::read(entry.path()).unwrap(), found.uid(), found.mtime_nsec()))
    });
    state.collect()
}

#[test]
fn a_folder_with_a_list_is_verified_and_left_as_it_is() {
    let stage = Stage::new();
    application(&stage);
    let before = state(&stage.path("notes"));
    let ended = stage.run_to(
        0,
        &["verify", "N01", "N06", "N07", "--dir", "notes", "--jobs", "3", "--junit", "junit.xml", "--evidence", "seen"],
    );
    assert!(ended.out.contains("3 of 3 features verified"), "{}", ended.out);
    assert!(fs::read_to_string(stage.path("junit.xml")).unwrap().contains("tests=\"3\" failures=\"0\""));
    assert_eq!(stage.json("seen/report.json")["passed"], 3);
    let pictures = fs::read_dir(stage.path("seen/N01")).unwrap().count();
    assert_eq!(pictures, 6, "a picture of each of five sentences, and the flow's log");
    assert!(fs::read_to_string(stage.path("seen/index.html")).unwrap().contains("src=\"N01/step-1.png\""));
    assert_eq!(fs::read_dir(stage.path("home")).unwrap().count(), 0, "no home was made");

    // What does not hold any more: exit code 3, with the sentence and the reason.
    swap(&stage.path("notes/app.js"), "await call(\"POST\", \"/api/notes\", { text });", "");
    let ended = stage.run_to(3, &["verify", "N01", "N07", "--dir", "notes", "--json", "--junit", "junit.xml"]);
    let lines = ended.lines();
    assert_eq!((&lines[0]["passed"], &lines[1]["passed"]), (&json!(false), &json!(true)), "{lines:?}");
    assert_eq!(lines[0]["refusal"]["sentence"], "Verify that the list has one note more, with that text");
    assert_eq!(lines.last().unwrap(), &json!({"passed": 1, "of": 2}));
    assert!(
        fs::read_to_string(stage.path("junit.xml")).unwrap().contains("<failure type=\"refused\" message=\"step 3")
    );

    let mut after = state(&stage.path("notes"));
    after.insert("app.js".to_owned(), before["app.js"].clone());
    assert_eq!(after, before, "nothing was written, and nothing changed hands");
}

#[test]
fn a_list_that_cannot_be_verified_says_what_to_do() {
    let stage = Stage::new();
    application(&stage);
    let said = |code: i32, args: &[&str]| {
        let ended = stage.run_to(code, &[&["verify", "--dir", "notes"], args].concat());
        format!("{}{}", ended.out, ended.err)
    };
    assert!(said(2, &["N99"]).contains("there is no feature N99; this project has N01, N02"));
    assert!(said(2, &["--jobs", "0"]).contains("--jobs 0: from 1 to"));

    // Only what the list says passes; a feature without checks never counts as verified.
    swap(&stage.path("notes/feature_list.json"), "\"id\": \"N07\",", "\"id\": \"N70\",");
    let unknown = said(2, &[]);
    assert!(unknown.contains("feature_checks.json: features[6]: N07 is not in feature_list.json"), "{unknown}");
    let checks = stage.json("notes/feature_checks.json");
    let kept: Vec<_> = checks["features"].as_array().unwrap().iter().filter(|f| f["id"] != "N07").cloned().collect();
    stage.write("notes/feature_checks.json", &json!({"features": kept}).to_string());
    let unchecked = said(3, &["N70"]);
    assert!(unchecked.contains("it has no checks, so nothing was verified"), "{unchecked}");
    let list = fs::read_to_string(stage.path("notes/feature_list.json")).unwrap();
    stage.write("notes/feature_list.json", &list.replace("\"passes\": true", "\"passes\": false"));
    assert!(said(0, &["--passing"]).contains("the list says of no feature that it passes"));

    // An application that does not start is waited for once.
    stage.write("notes/init.sh", "#!/bin/sh\necho no such module\nexit 1\n");
    let dead = said(3, &[]);
    assert_eq!(dead.matches("the application does not start").count(), 8, "{dead}");
    assert!(dead.contains("no such module"), "{dead}");
}

/// A financial model whose numbers come from a program, and a review that cites its sources: no page, no application.
#[test]
fn a_project_without_a_page_is_verified_by_its_files_and_programs() {
    let stage = Stage::new();
    fs::create_dir_all(stage.path("model/sources")).unwrap();
    stage.write("model/data.csv", "year,assets,liabilities,equity\n2025,1000,600,400\n2026,1500,800,700\n");
    stage.write(
        "model/check.py",
        "import csv\nrows = list(csv.DictReader(open('data.csv')))\nprint('years', len(rows))\nopen('out.json', 'w').write('{\"years\": %d}' % len(rows))\n",
    );
    stage.write("model/sources/kim2024.txt", "Agents forget what they wrote.");
    stage.write("model/review.md", "# Review\n\nKim says \"agents forget what they wrote\" [@kim2024].\n");
    let feature = |id: &str, text: &str| json!({"id": id, "category": "functional", "description": text, "steps": [text], "passes": false});
    stage.write(
        "model/feature_list.json",
        &json!([
            feature("F01", "The program counts the years"),
            feature("F02", "The balance holds"),
            feature("F03", "Claims are cited")
        ])
        .to_string(),
    );
    let checks = json!({"features": [
        {"id": "F01", "checks": [
            {"step": 1, "check": "command", "program": "python3", "arguments": ["check.py"], "output": "^years 2"},
            {"step": 1, "check": "file", "path": "out.json", "at": "years", "equals": 2},
        ]},
        {"id": "F02", "checks": [{"step": 1, "check": "table", "path": "data.csv", "formula": "assets == liabilities + equity"}]},
        {"id": "F03", "checks": [{"step": 1, "check": "citation", "path": "review.md", "sources": "sources"}]},
    ]});
    stage.write("model/feature_checks.json", &checks.to_string());
    let ended = stage.run_to(0, &["verify", "--dir", "model"]);
    assert!(ended.out.contains("3 of 3 features verified"), "{}", ended.out);
    assert!(!stage.path("model/out.json").exists(), "the folder itself is left as it is");

    swap(&stage.path("model/data.csv"), "1500", "1501");
    swap(&stage.path("model/check.py"), "print('years', len(rows))", "raise SystemExit('no years')");
    let lines = stage.run_to(3, &["verify", "--dir", "model", "--json"]).lines();
    let reason = |n: usize| lines[n]["refusal"]["reason"].as_str().unwrap_or_default().to_owned();
    assert!(
        reason(0).contains("`python3 check.py` ended with exit code 1, expected 0; it wrote \"no years"),
        "{}",
        reason(0)
    );
    assert!(reason(1).contains("does not hold in row 2: 1501 and 1500"), "{}", reason(1));
    assert_eq!(lines[2]["passed"], true);
}

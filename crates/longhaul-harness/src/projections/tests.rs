//! Whatever is done to the guarded files is undone and named.

use longhaul_core::{Scope, TaskScope};
use serde_json::json;

use super::*;
use crate::{features::Standing, planning::parse_batch, project::Brief};

fn rendered() -> Projections {
    let feature = |id: &str, words: &str| {
        json!({
            "id": id, "category": "functional", "description": words, "steps": ["Open it", "See it"],
            "checks": [
                {"step": 1, "check": "goto", "path": "/"},
                {"step": 2, "check": "expect", "target": {"role": "heading", "name": words}, "visible": true},
            ],
        })
    };
    let plan = json!({"features": [feature("F01", "greets"), feature("F02", "新建会话按钮")]});
    let features: Vec<Feature> = parse_batch(&plan, &[])
        .unwrap()
        .into_iter()
        .map(|definition| Feature { definition, standing: Standing::default(), proposal: None })
        .collect();
    let owner = TaskScope {
        scope: Scope::single_user(),
        session: "sess_1".parse().unwrap(),
        task: "task_1".parse().unwrap(),
        trace: "trace_1".parse().unwrap(),
    };
    let project = Project {
        owner,
        thread: "harness/1".parse().unwrap(),
        dir: "/nowhere".into(),
        request: "a page".into(),
        model: "cassette:demo".into(),
        base_url: None,
        agent: None,
        profile: crate::Profile::Software,
        adopted: None,
        brief: Brief::default(),
    };
    Projections::render(&project, &features, &[])
}

/// Lets something change the list, and gives what `restore` says of it.
fn undo(change: impl FnOnce(&Path)) -> String {
    let dir = tempfile::tempdir().unwrap();
    let projections = rendered();
    projections.write(dir.path()).unwrap();
    let list = dir.path().join("feature_list.json");
    let before = fs::read(&list).unwrap();
    change(&list);
    let undone = projections.restore(dir.path()).unwrap();
    assert_eq!(fs::read(&list).unwrap(), before);
    assert!(fs::symlink_metadata(&list).unwrap().is_file());
    assert_eq!(projections.restore(dir.path()).unwrap(), []);
    let only: Vec<String> = undone.into_iter().map(|u| format!("{}: {}", u.path, u.how)).collect();
    only.join("; ")
}

fn edit(list: &Path, change: impl FnOnce(&mut Vec<Value>)) {
    let mut entries: Vec<Value> = serde_json::from_slice(&fs::read(list).unwrap()).unwrap();
    change(&mut entries);
    fs::write(list, pretty(&Value::Array(entries))).unwrap();
}

#[test]
fn every_kind_of_edit_is_undone_and_named() {
    let flipped = undo(|list| edit(list, |e| e[1]["passes"] = json!(true)));
    assert_eq!(flipped, "feature_list.json: passes of F02 changed to true");
    assert_eq!(undo(|list| edit(list, |e| drop(e.remove(0)))), "feature_list.json: F01 deleted");
    let reworded = undo(|list| edit(list, |e| e[0]["steps"][0] = json!("Do nothing")));
    assert_eq!(reworded, "feature_list.json: F01 reworded");
    assert_eq!(undo(|list| edit(list, |e| e.swap(0, 1))), "feature_list.json: reordered or reformatted");
    assert_eq!(undo(|list| edit(list, |e| e.push(json!({"id": "F03"})))), "feature_list.json: entries added");
    assert_eq!(undo(|list| fs::write(list, "[{").unwrap()), "feature_list.json: no longer JSON");
    assert_eq!(undo(|list| fs::write(list, "{}").unwrap()), "feature_list.json: no longer a list");
}

#[test]
fn a_file_that_became_something_else_is_a_file_again() {
    let gone = "feature_list.json: removed, or replaced by something that is no file";
    assert_eq!(undo(|list| fs::remove_file(list).unwrap()), gone);
    assert_eq!(
        undo(|list| {
            fs::remove_file(list).unwrap();
            fs::create_dir(list).unwrap();
            fs::write(list.join("inside"), "x").unwrap();
        }),
        gone
    );
    let elsewhere = tempfile::NamedTempFile::new().unwrap();
    assert_eq!(
        undo(|list| {
            fs::remove_file(list).unwrap();
            std::os::unix::fs::symlink(elsewhere.path(), list).unwrap();
        }),
        gone
    );
    assert_eq!(fs::read(elsewhere.path()).unwrap(), b"", "a link's target was written to");
}

#[test]
fn the_list_has_the_documented_shape() {
    let dir = tempfile::tempdir().unwrap();
    rendered().write(dir.path()).unwrap();
    let list: Vec<Value> = serde_json::from_slice(&fs::read(dir.path().join("feature_list.json")).unwrap()).unwrap();
    let keys: Vec<&String> = list[0].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["id", "category", "description", "steps", "passes"]);
    assert_eq!(list[1]["description"], "新建会话按钮");
    assert_eq!(list[1]["passes"], false);
}

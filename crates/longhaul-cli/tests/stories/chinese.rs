//! A Chinese request simply works; and, on the project it leaves, whatever a person does to the list is put back.

use std::{fs, time::Duration};

use serde_json::{Value, json};

use crate::{
    processes,
    stage::{CHINESE, Running, Stage},
};

#[test]
fn a_chinese_request_works_and_its_list_cannot_be_edited() {
    let stage = Stage::new();
    stage.write("story.toml", CHINESE);
    let ended = stage.run_to(0, &["demo", "--cassette", "story.toml", "--dir", "app"]);
    assert!(ended.out.contains("可以添加待办事项"), "{}", ended.out);
    let status: Value = serde_json::from_str(&stage.run_to(0, &["status", "--dir", "app", "--json"]).out).unwrap();
    assert_eq!(
        (&status["passing"], &status["request"]),
        (&json!(2), &json!("做一个待办事项网页，只用 Python 标准库。"))
    );
    assert_eq!(stage.git(&["log", "--format=%s"]), "显示还有几件事\n添加待办事项\n骨架\n");

    a_browser_at_work_listens_on_no_port(&stage);
    edits_of_the_list_are_undone_and_told(&stage);
}

/// What a person or a program does to the list.
struct Tampering {
    /// How the log tells it.
    how: &'static str,
    /// The list's text afterwards.
    edit: fn(&str) -> String,
}

const TAMPERINGS: [Tampering; 5] = [
    Tampering {
        how: "passes of F02 changed to false",
        edit: |list| with(list, |list| list[1]["passes"] = json!(false)),
    },
    Tampering { how: "F01 deleted", edit: |list| with(list, |list| drop(list.remove(0))) },
    Tampering {
        how: "F01 reworded", edit: |list| with(list, |list| list[0]["steps"][2] = json!("什么都不用确认"))
    },
    Tampering { how: "reordered or reformatted", edit: |list| with(list, |list| list.reverse()) },
    Tampering { how: "no longer JSON", edit: |list| list.chars().take(list.chars().count() / 2).collect() },
];

fn with(list: &str, change: impl FnOnce(&mut Vec<Value>)) -> String {
    let mut list: Vec<Value> = serde_json::from_str(list).unwrap();
    change(&mut list);
    serde_json::to_string_pretty(&list).unwrap()
}

fn edits_of_the_list_are_undone_and_told(stage: &Stage) {
    let path = stage.app().join("feature_list.json");
    let canonical = fs::read_to_string(&path).unwrap();
    for (count, Tampering { how, edit }) in TAMPERINGS.iter().enumerate() {
        fs::write(&path, edit(&canonical)).unwrap();
        stage.run_to(0, &["run", "--dir", "app", "--model", "cassette:story.toml"]);
        assert_eq!(fs::read_to_string(&path).unwrap(), canonical, "{how}");
        let undone = stage.log("tamper.undone");
        assert_eq!(undone.len(), count + 1, "{how}: {undone:?}");
        assert_eq!(undone[count], json!({"path": "feature_list.json", "how": how}));
    }
    assert_eq!(stage.git(&["status", "--porcelain"]), "");
}

/// DevTools are spoken over a pipe, so that nothing else on the machine can steer the browser.
fn a_browser_at_work_listens_on_no_port(stage: &Stage) {
    let mut verifying = Running::start(&mut stage.command(&["verify", "--dir", "app", "--json"]));
    let mut arguments = Vec::new();
    while verifying.goes_on(Duration::from_millis(20)) {
        for process in processes::descendants(verifying.pid()) {
            let Some(line) = processes::command_line(process) else { continue };
            if line.contains("--remote-debugging") {
                assert_eq!(processes::listening_ports(process), Vec::<u16>::new(), "{line}");
                arguments.push(line);
            }
        }
    }
    assert_eq!(verifying.wait(), Some(0));
    assert!(!arguments.is_empty(), "no browser was seen at work");
    assert!(arguments.iter().all(|line| line.contains("--remote-debugging-pipe")), "{arguments:?}");
    assert!(!arguments.iter().any(|line| line.contains("--remote-debugging-port")), "{arguments:?}");
}

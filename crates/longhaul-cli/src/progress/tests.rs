//! A session as it appears: on a pipe, in ASCII, and within the columns of a terminal.

use serde_json::json;

use super::{
    style::{Style, duration, tokens},
    view::{Detail, View},
};

const PLAIN: Style = Style { colour: false, unicode: true, columns: None };

fn story() -> Vec<(&'static str, serde_json::Value)> {
    vec![
        (
            "session.started",
            json!({"session": 0, "mode": "initializer", "task": "", "feature": null, "description": "做一个聊天应用"}),
        ),
        ("project.initialized", json!({"features": 13, "sentences": 66, "commit": "1a2b3c4d5e6f"})),
        (
            "session.ended",
            json!({"session": 0, "outcome": "planned", "prompt_tokens": 3000, "answer_tokens": 1200, "ms": 900}),
        ),
        ("app.booted", json!({"ms": 412})),
        ("regression.checked", json!({"feature": "F01", "passed": true, "reason": "", "ms": 1240})),
        ("regression.checked", json!({"feature": "F03", "passed": false, "reason": "found 0 buttons", "ms": 3100})),
        ("feature.broken", json!({"feature": "F03", "reason": "found 0 buttons", "commit": "77aa77aa77aa"})),
        (
            "session.started",
            json!({"session": 1, "mode": "coding", "task": "feature", "feature": "F04", "description": "Delete a conversation"}),
        ),
        (
            "memory.recalled",
            json!({"query": "q", "mode": "hybrid", "elapsed_us": 4210, "hits": [
                {"id": "mem_1", "score": 0.831, "content": "F01 passed:\u{1b}[31m the page\nopens", "explain": {}}]}),
        ),
        (
            "model.answered",
            json!({"turn": 1, "prompt_tokens": 17000, "answer_tokens": 900, "tools": ["shell"], "retries": 2, "ms": 40}),
        ),
        ("tool.called", json!({"tool": "shell", "summary": "ls", "is_error": false, "ms": 12})),
        ("tamper.undone", json!({"path": "feature_list.json", "how": "edited"})),
        (
            "claim.refused",
            json!({"feature": "F04", "attempt": 1, "step": 4, "sentence": "Verify it is gone", "reason": "{\"check\":\"expect\",\"visible\":true} found 1 but not visible: opacity 0"}),
        ),
        ("feature.passed", json!({"feature": "F04", "commit": "99ff99ff99ff", "verdict": "vd", "ms": 2345})),
        (
            "session.ended",
            json!({"session": 1, "outcome": "verified", "prompt_tokens": 17000, "answer_tokens": 900, "ms": 9000}),
        ),
        (
            "run.finished",
            json!({"passing": 12, "total": 13, "parked": ["F09"], "sessions": 14, "prompt_tokens": 1_200_000, "answer_tokens": 90_000, "ms": 92_000}),
        ),
    ]
}

fn told(style: Style, detail: Detail) -> String {
    let mut view = View::new(style, detail);
    let lines: Vec<String> = story().iter().flat_map(|(kind, data)| view.apply(kind, data)).collect();
    lines.join("\n")
}

#[test]
fn a_run_reads_like_this() {
    let expected = "
● Initializer
  做一个聊天应用
  ✓ 13 features planned, 66 sentences to verify · commit 1a2b3c4d
    0 answers · 0 tool calls · 4.2k tokens · 900 ms

● Session 1
  ✓ the application answers after 412 ms
  ✓ F01 still passes (1.2 s)
  ✗ F03 passed before and no longer does
      found 0 buttons
  ! F03 is marked as failing and comes first now · commit 77aa77aa
  F04 Delete a conversation
  ↺ recalled 1 memory in 4.2 ms, hybrid search
      0.83 F01 passed: the page opens
  ! the model's service answered after 2 retries
  ! feature_list.json was changed (edited): undone, only a verdict changes it
  ✗ claim refused: F04 at step 4 \"Verify it is gone\"
      found 1 but not visible: opacity 0
  ✓ F04 passes, every step carried out in 2.3 s · commit 99ff99ff
    1 answer · 1 tool call · 17.9k tokens · 9.0 s

! 12 of 13 features verified · 14 sessions · 1.2M tokens · 1 min 32 s
      1 feature parked: F09";
    assert_eq!(told(PLAIN, Detail::Normal), expected);
}

#[test]
fn without_utf8_our_own_marks_are_ascii() {
    let mut view = View::new(Style { unicode: false, ..PLAIN }, Detail::Verbose);
    let lines: Vec<String> = story().iter().skip(3).flat_map(|(kind, data)| view.apply(kind, data)).collect();
    assert!(lines.iter().all(|line| line.is_ascii()), "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains("answer 1: 17.0k tokens in, 900 out, asks for shell")), "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains("shell: ls (12 ms)")), "{lines:#?}");
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    let mut view = View::new(Style { columns: Some(48), ..PLAIN }, Detail::Normal);
    let long = "聊天应用".repeat(40);
    let lines = [
        view.apply("session.started", &json!({"session": 2, "mode": "coding", "feature": "F02", "description": long})),
        view.apply("claim.refused", &json!({"feature": "F02", "step": 1, "sentence": long, "reason": long})),
        vec![view.now()],
    ]
    .concat();
    for line in lines {
        assert!(console::measure_text_width(&line) <= 48, "{} {line}", console::measure_text_width(&line));
    }
}

#[test]
fn the_status_line_tells_where_and_what_and_how_much() {
    let mut view = View::new(PLAIN, Detail::Normal);
    view.apply(
        "session.started",
        &json!({"session": 2, "mode": "coding", "task": "repair", "feature": "F02", "description": "x"}),
    );
    view.apply("model.answered", &json!({"prompt_tokens": 900, "answer_tokens": 650, "retries": []}));
    view.step("verify step 3: Click \"New chat\"");
    assert_eq!(view.now(), "Session 2 · repair F02 · verify step 3: Click \"New chat\" · 1.5k tokens");
}

#[test]
fn an_event_of_a_newer_release_is_passed_over() {
    let mut view = View::new(PLAIN, Detail::Verbose);
    assert!(view.apply("weather.changed", &json!({"session": {"nested": true}})).is_empty());
    assert!(!view.apply("session.started", &json!(["not", "an", "object"])).is_empty());
}

#[test]
fn numbers_are_short() {
    assert_eq!([tokens(999), tokens(1_000), tokens(18_250), tokens(1_999_999)], ["999", "1.0k", "18.2k", "1.9M"]);
    assert_eq!(
        [duration(5), duration(59_999), duration(60_000), duration(7_500_000)],
        ["5 ms", "59.9 s", "1 min 0 s", "2 h 5 min"]
    );
}

//! Recall, a refusal's reason and a tool's result matter: taken out of the requests, the story stops with an error that
//! names the entry and the missing text; put back, it goes on to its end.

use serde_json::Value;

use crate::{
    proxy::{Edit, Proxy, untouched},
    stage::{Ended, Running, Stage, TINY},
};

/// Takes the section out of the first user message.
fn without_recall(request: &mut Value) {
    let messages = request["messages"].as_array_mut().unwrap();
    let prompt = messages.iter_mut().find(|message| message["role"] == "user").unwrap();
    let text = prompt["content"].as_str().unwrap();
    if let Some((before, rest)) = text.split_once("## Recalled from memory") {
        let after = rest.find("\n## ").map_or("", |next| &rest[next..]);
        prompt["content"] = format!("{before}{after}").into();
    }
}

/// Leaves of a refusal only that it is one.
fn without_reasons(request: &mut Value) {
    for result in tool_results(request) {
        if result.as_str().is_some_and(|text| text.starts_with("REFUSED: ")) {
            *result = "REFUSED: try again".into();
        }
    }
}

/// Takes out what commands printed.
fn without_output(request: &mut Value) {
    for result in tool_results(request) {
        if result.as_str().is_some_and(|text| text.starts_with("exit 0")) {
            *result = "exit 0".into();
        }
    }
}

fn tool_results(request: &mut Value) -> impl Iterator<Item = &mut Value> {
    let messages = request["messages"].as_array_mut().unwrap().iter_mut();
    messages.filter(|message| message["role"] == "tool").map(|message| &mut message["content"])
}

#[test]
fn a_prompt_without_what_the_story_needs_stops_it() {
    let stage = Stage::new();
    stage.write("tiny.toml", TINY);
    let server = Running::start(&mut stage.command(&["cassette", "serve", "tiny.toml", "--json"]));
    let base_url = server.line(|line| line["base_url"].is_string())["base_url"].as_str().unwrap().to_owned();
    let address = base_url.trim_start_matches("http://").trim_end_matches("/v1");
    let proxy = Proxy::to(address.parse().unwrap());
    let url = proxy.base_url();
    let run = |edit: Edit, args: &[&str]| {
        proxy.edit(edit);
        let mut command = stage.command(args);
        command.args(["--dir", "app", "--model", "openai:cassette-tiny", "--base-url", &url]);
        Ended::of(command.env("OPENAI_API_KEY", "sk-of-the-story"))
    };

    let planned = run(untouched, &["init", "Build a page that counts clicks and keeps notes"]);
    assert_eq!(planned.code, Some(0), "{planned:#?}");
    let stops: [(Edit, &str, &str); 3] = [
        (without_recall, "f02-1-build", "after each change call refresh(); never patch the list"),
        (without_reasons, "f02-3-mend", "Verify that the list shows 'buy milk'"),
        (without_output, "f03-2-build", "NOTICE: feature_list.json was changed and has been restored"),
    ];
    for (edit, entry, missing) in stops {
        let stopped = run(edit, &["run"]);
        assert_eq!(stopped.code, Some(1), "{stopped:#?}");
        for part in [entry, missing, "longhaul run --dir"] {
            assert!(stopped.err.contains(part), "{part} is not in: {}", stopped.err);
        }
        assert!(!stopped.err.contains("sk-of-the-story"), "{}", stopped.err);
    }
    let finished = run(untouched, &["run"]);
    assert_eq!(finished.code, Some(0), "{finished:#?}");
    assert!(finished.out.contains("3 of 3 features verified"), "{}", finished.out);
}

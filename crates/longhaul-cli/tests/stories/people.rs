//! A person works along with a run, and the model is asked over Anthropic's protocol: a word for the agent, a pause, the
//! folder taken over and given back.

use serde_json::json;

use crate::stage::{Running, Stage, TINY};

#[test]
fn a_person_steers_pauses_takes_over_and_gives_back() {
    let stage = Stage::new();
    stage.write("tiny.toml", TINY);
    let service = Running::start(&mut stage.command(&["cassette", "serve", "tiny.toml", "--json"]));
    let served = service.line(|line| line["anthropic_url"].is_string());
    let (url, model) = (served["anthropic_url"].as_str().unwrap(), served["model"].as_str().unwrap());
    let request = longhaul::Cassette::parse(TINY, "tiny.toml").unwrap().request().unwrap().to_owned();
    let spec = format!("anthropic:{model}");
    stage.run_to(0, &["init", &request, "--dir", "app", "--model", &spec, "--base-url", url]);

    stage.run_to(0, &["steer", "keep the page plain", "--dir", "app", "--by", "Ada"]);
    stage.run_to(0, &["pause", "--dir", "app", "--by", "Ada"]);
    let paused = stage.run_to(3, &["run", "--dir", "app"]);
    assert!(paused.out.contains("paused") && paused.out.contains("longhaul resume"), "{}", paused.out);
    let asked = |stage: &Stage| stage.log("model.answered").len();
    let planned = asked(&stage);
    stage.run_to(0, &["resume", "--dir", "app", "--by", "Ada"]);
    stage.run_to(3, &["run", "--dir", "app", "--sessions", "1"]);
    assert_eq!(stage.log("run.steered")[0]["text"], "keep the page plain");
    let told: Vec<_> = stage.log("model.answered")[planned..].iter().map(|event| event["told"].clone()).collect();
    assert_eq!(told[0], json!([{"news": true}]), "the word reached the session's first request");
    assert!(told[1..].iter().all(|told| *told == json!([])), "and was said once: {told:?}");

    let before = asked(&stage);
    let taken = stage.run_to(0, &["take-over", "--dir", "app", "--by", "Ada L", "--reason", "docs: a note by hand"]);
    assert!(taken.out.contains("the folder is yours"), "{}", taken.out);
    assert_eq!(asked(&stage), before, "no session began");
    stage.run_to(3, &["run", "--dir", "app"]);
    stage.write("app/NOTE.md", "written by a person\n");
    stage.write("app/feature_list.json", "[]\n");
    let resumed = stage.run_to(0, &["resume", "--dir", "app", "--by", "Ada L"]);
    assert!(resumed.out.contains("1 verified again, 0 broken"), "{}", resumed.out);
    assert_eq!(stage.git(&["log", "-1", "--format=%an|%s"]).trim(), "Ada L|docs: a note by hand");
    assert_eq!(stage.git(&["show", "--format=", "--name-only", "HEAD"]).trim(), "NOTE.md");

    let done = stage.run_to(0, &["run", "--dir", "app"]);
    assert!(done.out.contains("3 of 3 features verified"), "{}", done.out);
    assert_eq!(stage.git(&["show", "HEAD:NOTE.md"]), "written by a person\n");
    let kinds = ["run.paused", "run.taken_over", "run.resumed"].map(|kind| stage.log(kind).len());
    assert_eq!(kinds, [1, 1, 2]);
}

//! The tiny story within limits: a window of 8,000 tokens, a budget that ends in the middle, a feature that is parked and
//! taken up again, and what costs nothing because nothing can be done.

use std::fs;

use serde_json::Value;

use crate::stage::{Ended, Stage, TINY, swap};

const PRICES: &str = "[prices.\"cassette-tiny\"]\ninput = 1\noutput = 2.5\n";

/// The entry that mends what was refused, as one that gives up.
const MENDS: &str = "tool = \"edit_file\"\narguments.path = \"style.css\"\narguments.old = \"li { opacity: 0; animation: \
                     fade 0.2s; }\\n\"\narguments.new = \"li { padding: 2px; }\\n\"\n";
const GIVES_UP: &str = "tool = \"hand_over\"\narguments.note = \"the list stays invisible, whatever I try\"\n";

#[test]
fn a_window_of_8000_tokens_is_enough() {
    let stage = Stage::new();
    let model = "model = \"cassette-tiny\"\n";
    assert!(TINY.contains(model));
    stage.write("tiny.toml", &TINY.replace(model, &format!("{model}window_tokens = 8000\n")));
    let window = ["--set", "model.window_tokens=8000"];
    let ended = stage.run_to(0, &[&["demo", "--cassette", "tiny.toml", "--dir", "app"][..], &window].concat());
    assert!(ended.out.contains("3 of 3 features verified"), "{}", ended.out);
    let answers = stage.log("model.answered");
    let most = answers.iter().filter_map(|answer| answer["prompt_tokens"].as_u64()).max().unwrap();
    assert!(most <= 8_000, "{most} tokens in one request");
    let aside: u64 = answers.iter().filter_map(|answer| answer["put_aside"].as_u64()).sum();
    assert!(aside > 0, "the window was large enough for everything: {answers:?}");
    assert!(answers.iter().all(|answer| answer["told"].as_array().unwrap().is_empty()), "nobody had to hand over");
}

/// A project with the tiny plan, and the requests that were served for it.
struct Project {
    stage: Stage,
}

impl Project {
    fn planned() -> Self {
        let stage = Stage::new();
        assert_eq!(TINY.matches(MENDS).count(), 1);
        stage.write("tiny.toml", &TINY.replace(MENDS, GIVES_UP));
        let project = Self { stage };
        let request = "Build a page that counts clicks and keeps notes";
        let planned = project.run(&["init", request, "--model", "cassette:tiny.toml"]);
        assert_eq!(planned.code, Some(0), "{planned:#?}");
        project
    }

    fn run(&self, args: &[&str]) -> Ended {
        let settings = ["--dir", "app", "--set", "model.answer_tokens_max=1000", "--set", "budget.attempts=1"];
        let mut command = self.stage.command(&[args, &settings].concat());
        Ended::of(command.env("LONGHAUL_CASSETTE_LOG", self.stage.path("served.jsonl")))
    }

    fn run_to(&self, code: i32, args: &[&str]) -> Ended {
        let ended = self.run(args);
        assert_eq!(ended.code, Some(code), "{ended:#?}");
        ended
    }

    /// Requests that reached the model.
    fn served(&self) -> usize {
        fs::read_to_string(self.stage.path("served.jsonl")).unwrap().lines().count()
    }

    fn status(&self) -> Value {
        serde_json::from_str(&self.run_to(0, &["status", "--json"]).out).unwrap()
    }
}

#[test]
fn a_budget_ends_a_run_and_a_parked_feature_waits_for_a_person() {
    let project = Project::planned();
    let stage = &project.stage;
    money_needs_a_price(&project);
    tokens_are_never_exceeded(&project);

    let parked = project.run_to(3, &["run"]);
    assert!(parked.out.contains("F02 is parked") && parked.out.contains("1 feature parked"), "{}", parked.out);
    let status = project.status();
    assert_eq!(status["parked"], serde_json::json!(["F02"]));
    let why = &status["parked_because"][0];
    assert!(why["suspected"].as_str().unwrap().contains("step"), "{why}");
    let diagnosis = project.stage.run_to(0, &["show", why["diagnosis"].as_str().unwrap()]).out;
    for part in ["# Why F02 is parked", "the list stays invisible, whatever I try", "opacity", "features unpark F02"] {
        assert!(diagnosis.contains(part), "{part} is not in {diagnosis}");
    }
    assert!(project.run_to(0, &["features"]).out.contains("parked after 1 attempt"));
    project.run_to(0, &["report", "--out", "report.html"]);
    assert!(fs::read_to_string(stage.path("report.html")).unwrap().contains("<b>Parked.</b>"));

    idle_costs_nothing(&project);

    assert_eq!(project.run_to(2, &["features", "unpark", "F01"]).out, "");
    project.run_to(0, &["features", "unpark", "F02", "--reason", "the animation is the matter"]);
    let progress = stage.json("app/progress.json");
    assert_eq!(progress["parked"], serde_json::json!([]), "the files follow at once");
    swap(&stage.path("tiny.toml"), GIVES_UP, MENDS);
    let done = project.run_to(0, &["run", "--until", "done"]);
    assert!(done.out.contains("3 of 3 features verified"), "{}", done.out);
    assert_eq!(stage.log("feature.unparked")[0]["reason"], "the animation is the matter");
    let undone = stage.log("tamper.undone");
    assert_eq!(undone.len(), 1, "only the story's own attempt: {undone:?}");
    let spent = &project.status()["spent"];
    assert_eq!(spent["unsettled"], 0, "{spent}");
    assert!(spent["money"].as_str().unwrap().parse::<f64>().unwrap() > 0.01, "{spent}");
}

fn money_needs_a_price(project: &Project) {
    let refused = project.run_to(2, &["run", "--max-cost", "1"]);
    assert!(refused.err.contains("[prices.\"cassette-tiny\"]"), "{}", refused.err);
    let config = project.stage.path(".config/longhaul");
    fs::create_dir_all(&config).unwrap();
    fs::write(config.join("longhaul.toml"), PRICES).unwrap();
    let before = project.served();
    let refused = project.run_to(3, &["run", "--max-cost", "0.000001"]);
    assert!(refused.out.contains("of this run's 0.000001 of money are used"), "{}", refused.out);
    assert_eq!(project.served(), before, "not one request was made");
}

fn tokens_are_never_exceeded(project: &Project) {
    let before = project.status()["spent"]["tokens"].as_u64().unwrap();
    let limited = project.run_to(3, &["run", "--max-tokens", "11000", "--json"]);
    let report: Value = serde_json::from_str(limited.out.lines().last().unwrap()).unwrap();
    let report = &report["report"];
    assert_eq!((&report["ending"], &report["passing"]), (&"budget".into(), &1.into()), "{report}");
    assert!(report["limit"].as_str().unwrap().contains("of this run's 11,000 tokens are used"), "{report}");
    let used = report["spent"]["tokens"].as_u64().unwrap() - before;
    assert!(used <= 11_000 && used > 4_000, "{used}");
    assert_eq!(project.stage.git(&["status", "--porcelain"]), "", "the folder is as a session leaves it");
}

/// What is left is parked: a run asks nobody, starts nothing, and says so.
fn idle_costs_nothing(project: &Project) {
    let (served, events) =
        (project.served(), project.stage.run_to(0, &["log", "--dir", "app", "--json"]).lines().len());
    let idle = project.run_to(3, &["run", "--until", "done"]);
    assert!(idle.out.contains("1 feature parked, and nothing else can be done"), "{}", idle.out);
    assert_eq!(project.served(), served);
    assert_eq!(project.stage.run_to(0, &["log", "--dir", "app", "--json"]).lines().len(), events);
}

//! A repository that is there is taken over: read, planned on top of, and left as it was; then built on.

use std::{fs, process::Command};

use serde_json::{Value, json};

use crate::{cassette, stage::Stage};

const REQUEST: &str = "Add a page that greets the visitor by name";
const README: &str = "# Greeter\n\nServes static pages; run `python3 serve.py`.\n";
const SERVE: &str = "import http.server, os, sys\nsys.exit(http.server.test(http.server.SimpleHTTPRequestHandler, bind='127.0.0.1', port=int(os.environ.get('PORT', '8000'))))\n";
const PAGE: &str = "<!doctype html><title>Greeter</title><link rel=icon href=\"data:,\"><h1>Greeter</h1>\n";
const GREETING: &str = "<!doctype html><title>Hello</title><link rel=icon href=\"data:,\"><h1>Hello Ada</h1>\n";

fn story() -> String {
    let init = vec![
        (
            "describe_project",
            json!({"summary": "Greeter, static pages served by serve.py.", "test": "python3 -m py_compile serve.py"}),
        ),
        (
            "write_file",
            json!({"path": "init.sh", "content": "#!/bin/sh\ncd \"$(dirname \"$0\")\"\nexec python3 serve.py\n"}),
        ),
        // What planning must not do.
        ("write_file", json!({"path": "README.md", "content": "# Rewritten\n"})),
        ("write_file", json!({"path": "pages/extra.html", "content": "extra"})),
        ("shell", json!({"command": "chmod +x init.sh; rm tests/test_serve.py"})),
        (
            "plan_features",
            json!({"features": [{
                "id": "F01", "category": "functional", "description": "The page 'hello' greets the visitor by name",
                "steps": ["Open the page 'hello'", "Verify that the heading says 'Hello Ada'"],
                "checks": [
                    {"step": 1, "check": "goto", "path": "/hello.html"},
                    {"step": 2, "check": "expect", "target": {"role": "heading", "name": "Hello Ada"}, "visible": true},
                ],
            }]}),
        ),
    ];
    let done = |summary: &str| ("claim_done", json!({"summary": summary, "commit_message": summary}));
    // What the harness read of the repository is in the first prompt.
    let select = [
        "# Initializer",
        "## The repository",
        "3 commits",
        "Serve pages",
        "serve.py",
        "Serves static pages; run `python3 serve.py`.",
        "Tests: tests/test_serve.py",
        "Makefile begins:",
        "python3 -m unittest",
    ];
    let back =
        ["REFUSED: planning leaves the repository as it is", "README.md", "tests/test_serve.py", "pages/extra.html"];
    let build = [("write_file", json!({"path": "hello.html", "content": GREETING})), done("feat: greet by name")];
    cassette::whole(
        "A greeter, adopted",
        REQUEST,
        &[
            cassette::entry("init-1", &select, 0, &[], &init),
            cassette::entry("init-2", &select, 1, &["planned 1 features"], &[done("a plan on top")]),
            cassette::entry("init-3", &select, 2, &back, &[done("a plan on top")]),
            cassette::entry("one-1", &["# Coding session 1\n"], 0, &[], &build),
        ],
    )
}

fn repository(stage: &Stage) {
    let app = stage.app();
    fs::create_dir_all(app.join("tests")).unwrap();
    let files = [
        ("index.html", PAGE),
        ("serve.py", SERVE),
        ("README.md", README),
        ("Makefile", "test:\n\tpython3 -m unittest\n"),
        ("tests/test_serve.py", "import unittest\n"),
        (".gitignore", "__pycache__/\n"),
    ];
    let git = |args: &[&str]| {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "init.defaultBranch=trunk"])
            .args(args);
        let output = git.current_dir(&app).env("HOME", stage.path("home")).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    git(&["init", "--quiet"]);
    for (n, pair) in files.chunks(2).enumerate() {
        for (name, content) in pair {
            fs::write(app.join(name), content).unwrap();
        }
        git(&["add", "--all"]);
        git(&["commit", "--quiet", "-m", ["Serve pages", "Say how", "Test it"][n]]);
    }
}

#[test]
fn a_repository_is_taken_over_as_it_is() {
    let stage = Stage::new();
    stage.write("story.toml", &story());
    let adopt = |code: i32| stage.run_to(code, &["init", REQUEST, "--adopt", "app", "--model", "cassette:story.toml"]);
    fs::create_dir(stage.app()).unwrap();
    assert!(adopt(2).err.contains("is not a git repository"));
    fs::remove_dir(stage.app()).unwrap();
    repository(&stage);
    what_stands_in_the_way_is_said(&stage);

    let (tip, files) = (stage.git(&["rev-parse", "HEAD"]), stage.git(&["ls-tree", "-r", "HEAD"]));
    let planned = adopt(0);
    assert!(planned.out.contains("1 feature planned"), "{}", planned.out);
    assert_eq!(stage.git(&["rev-parse", "HEAD~1"]), tip, "the history is as it was");
    assert_eq!(stage.git(&["symbolic-ref", "--short", "HEAD"]), "trunk\n");
    let after = stage.git(&["ls-tree", "-r", "HEAD"]);
    assert!(files.lines().all(|line| after.lines().any(|kept| kept == line)), "{after}");
    let added = stage.git(&["diff", "--name-status", "HEAD~1", "HEAD"]);
    let added: Vec<&str> = added.lines().collect();
    let expected =
        ["A\tfeature_checks.json", "A\tfeature_list.json", "A\tinit.sh", "A\tprogress.json", "A\tprogress.md"];
    assert_eq!(added, expected);
    assert_eq!(stage.git(&["status", "--porcelain"]), "");
    let undone: Vec<Value> = stage.log("tamper.undone").iter().map(|event| event["path"].clone()).collect();
    assert_eq!(undone.len(), 3, "{undone:?}");

    stage.run_to(0, &["run", "--dir", "app", "--model", "cassette:story.toml"]);
    assert_eq!(stage.git(&["log", "-1", "--format=%s"]), "feat: greet by name\n");
    assert_eq!(stage.git(&["rev-list", "--count", "HEAD"]), "5\n");
}

fn what_stands_in_the_way_is_said(stage: &Stage) {
    let adopt = || stage.run_to(2, &["init", REQUEST, "--adopt", "app", "--model", "cassette:story.toml"]).err;
    let before = stage.git(&["rev-parse", "HEAD"]);
    stage.write("app/left.txt", "not committed");
    let dirty = adopt();
    assert!(dirty.contains("not committed (?? left.txt)") && dirty.contains("stash -u"), "{dirty}");
    fs::remove_file(stage.path("app/left.txt")).unwrap();

    stage.git(&["checkout", "--quiet", "--detach"]);
    let detached = adopt();
    assert!(detached.contains("detached head") && detached.contains("switch"), "{detached}");
    stage.git(&["checkout", "--quiet", "trunk"]);

    fs::create_dir_all(stage.path("app/vendored/.git")).unwrap();
    assert!(adopt().contains("has repositories inside (vendored)"));
    fs::remove_dir_all(stage.path("app/vendored")).unwrap();

    stage.write("app/progress.md", "mine");
    assert!(adopt().contains("(progress.md)"));
    fs::remove_file(stage.path("app/progress.md")).unwrap();
    assert_eq!(stage.git(&["rev-parse", "HEAD"]), before);
    assert!(!stage.path("app/feature_list.json").exists(), "nothing was written");
}

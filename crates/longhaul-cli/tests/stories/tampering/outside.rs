//! What a person or a program does to the folder between two runs: mended by the next one, and told.

use std::{fs, process::Command};

use serde_json::json;

use crate::stage::Stage;

/// Runs on a project that is done, after two features' worth of commits.
pub(crate) fn tampering_from_outside_is_mended(stage: &Stage) {
    let tip = stage.git(&["rev-parse", "HEAD"]);
    let told = stage.log("tamper.undone").len();

    // A history that lost its last commit, work that nobody committed, what a killed git leaves, programs to be run.
    stage.git(&["reset", "--quiet", "--hard", "HEAD~1"]);
    fs::write(stage.path("app/index.html"), "<h1>Mine</h1>").unwrap();
    fs::write(stage.path("app/stray.txt"), "stray").unwrap();
    fs::write(stage.path("app/.gitattributes"), "* filter=planted diff=planted\n").unwrap();
    for lock in ["index.lock", "HEAD.lock", "refs/heads/main.lock"] {
        fs::write(stage.path("app/.git").join(lock), "").unwrap();
    }
    let planted = stage.path("planted");
    let program = format!("touch {}", planted.display());
    for hook in ["pre-commit", "post-checkout", "post-index-change", "reference-transaction"] {
        let hook = stage.path("app/.git/hooks").join(hook);
        fs::create_dir_all(hook.parent().unwrap()).unwrap();
        fs::write(&hook, format!("#!/bin/sh\n{program}\n")).unwrap();
        fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    let keys = ["core.fsmonitor", "filter.planted.clean", "filter.planted.smudge", "diff.planted.command"];
    for key in keys {
        let args = ["config", "--file", ".git/config", key, &program];
        assert!(Command::new("git").args(args).current_dir(stage.app()).status().unwrap().success());
    }
    stage.run_to(0, &["run", "--dir", "app", "--model", "cassette:story.toml"]);
    assert!(!planted.exists(), "a planted program was run");
    for key in keys {
        let args = ["config", "--file", ".git/config", "--unset", key];
        assert!(Command::new("git").args(args).current_dir(stage.app()).status().unwrap().success());
    }
    fs::remove_dir_all(stage.path("app/.git/hooks")).unwrap();
    assert_eq!(stage.git(&["rev-parse", "HEAD"]), tip);
    assert_eq!(stage.git(&["status", "--porcelain"]), "");
    let undone = stage.log("tamper.undone");
    let lost = json!({"path": ".git", "how": "the history no longer held the last verified commit"});
    assert!(undone[told..].contains(&lost), "{undone:?}");
    assert_eq!(stage.log("changes.set_aside").len(), 1, "nobody's work is lost");

    // HEAD on no branch with a commit of somebody's, an index and snapshots that cannot be read.
    let told = undone.len();
    stage.git(&["checkout", "--quiet", "--detach"]);
    let who = ["-c", "user.name=p", "-c", "user.email=p@q"];
    stage.git(&[&who[..], &["commit", "--quiet", "--allow-empty", "-m", "off every branch"]].concat());
    let own = stage.git(&["rev-parse", "HEAD"]);
    fs::write(stage.path("app/.git/index"), "no index").unwrap();
    for task in fs::read_dir(stage.path("home/work")).unwrap().flatten() {
        fs::write(task.path().join("snapshots.git/index"), "no index").unwrap();
    }
    stage.run_to(0, &["run", "--dir", "app", "--model", "cassette:story.toml"]);
    assert_eq!(stage.git(&["symbolic-ref", "HEAD"]), "refs/heads/main\n");
    assert_eq!(stage.git(&["rev-parse", "HEAD"]), tip);
    assert_eq!(stage.git(&["for-each-ref", "--format=%(objectname)", "refs/longhaul/aside"]), own, "it can be found");
    let attached = json!({"path": ".git", "how": "HEAD was on no branch; it is on one again"});
    assert!(stage.log("tamper.undone")[told..].contains(&attached));

    // The commit itself is gone: nothing can bring it back but a copy.
    let object = format!("app/.git/objects/{}/{}", &tip[..2], tip[2..].trim());
    let kept = fs::read(stage.path(&object)).unwrap();
    fs::remove_file(stage.path(&object)).unwrap();
    let ended = stage.run_to(1, &["run", "--dir", "app", "--model", "cassette:story.toml"]);
    assert!(ended.err.contains(tip.trim()) && ended.err.contains("from a backup"), "{ended:?}");
    fs::write(stage.path(&object), kept).unwrap();
    stage.run_to(0, &["run", "--dir", "app", "--model", "cassette:story.toml"]);
}

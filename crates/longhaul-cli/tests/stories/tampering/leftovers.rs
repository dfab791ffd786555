//! What an agent leaves in its folder for git on the host to stumble over, and what it makes happen at other moments
//! than its own: by the application, while that is tried out and verified, and by the project's own checks.

use std::{collections::BTreeMap, process::Command};

use serde_json::{Value, json};

use super::story::{Story, Turn};
use crate::stage::Stage;

/// Something left behind: how it is made, and the path that has to be told as undone.
const LEFTOVERS: [(&str, Option<&str>); 19] = [
    (
        "git init -q sub && cd sub && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x \
      && git config core.fsmonitor 'touch /tmp/escaped'",
        Some("sub/.git"),
    ),
    ("mkdir -p deep/a/.GIT && echo x > deep/a/.GIT/config", Some("deep/a/.GIT")),
    ("mkdir lib && echo 'gitdir: ../data/elsewhere' > lib/.git", Some("lib/.git")),
    ("mkdir -p data && git init -q --separate-git-dir=data/apart apart", Some("apart/.git")),
    ("ln -s init.sh .gitmodules", Some(".gitmodules")),
    ("echo x > git~1", Some("git~1")),
    ("rm server.py && mkfifo server.py", Some("server.py")),
    (
        ": pit; python3 -c 'import os\nos.mkdir(\"pit\")\nfor _ in range(1200):\n  os.chdir(\"pit\" if _ == 0 else \"d\")\n  os.mkdir(\"d\")'",
        Some("pit"),
    ),
    ("(setsid sh -c 'sleep 0.2; echo [] > feature_list.json' >/dev/null 2>&1 &)", None),
    ("rm index.html && python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"index.html\")'", None),
    ("git init -q --bare bare && git -C bare config core.fsmonitor 'touch /tmp/escaped'", None),
    ("printf '* working-tree-encoding=UTF-16 eol=crlf ident filter=evil\\n[attr]x -diff\\n' > .gitattributes", None),
    ("printf '[submodule \"x\"]\\n path = x\\n url = ext::sh -c touch%%20/tmp/escaped\\n' > .gitmodules", None),
    ("ln -s /etc/shadow shadow; ln -s .git/config config; ln -s ../home home; ln -s . round", None),
    ("mkdir locked && echo x > locked/file && chmod 000 locked/file locked", None),
    (
        ": names; python3 -c 'import os\nfor n in [b\"a\\nb\", b\"\\xff\\xfe\", b\"-rf\", b\":(exclude)x\", b\"a\\\\b\", b\" end \", b\"x\" * 255]:\n  \
      open(n, \"w\").write(\"$Id$\\r\\n\")'",
        None,
    ),
    ("echo 'gitdir: /tmp' > .gitfile; echo '[alias]' > gitconfig; mkdir hooks; echo exit 1 > hooks/pre-commit", None),
    ("touch -d 2100-01-01 init.sh; touch -d 1960-01-01 index.html; TZ=Asia/Tokyo date > zone.txt", None),
    ("ln init.sh boot.sh", None),
];

/// Writes into the folder for as long as it runs, as the trial and while it is verified.
const RESTLESS: &str = "#!/bin/sh\ncd \"$(dirname \"$0\")\"\n\
    (i=0; while :; do i=$((i+1)); echo \"[$i]\" > feature_list.json; echo \"$i $$\" > swapped.html; \
    rm -f progress.md; mkdir -p nested/.git; sleep 0.05; done) &\nexec python3 server.py\n";

#[test]
fn what_is_left_for_git_and_what_runs_at_other_moments_changes_nothing() {
    let stage = Stage::new();
    // Rules that would keep the list and the boot script out of every commit, and a check that edits the list.
    let ignore = "cat > .gitignore <<E\ndata/\n__pycache__/\n*.json\n*.md\ninit.sh\nE";
    let lint = "rm -f feature_checks.json; echo '[]' > feature_list.json; true";
    let first = Turn::first().shell(ignore);
    let mut story = Story::with_plan_and(first, json!({"summary": "A page that greets.", "lint": lint}), None);
    let mut turn = Turn::of("F01");
    for (command, _) in LEFTOVERS {
        turn = turn.shell(command);
    }
    story.add(turn.shell("truncate -s 150M large.bin").claim("too large"));
    let mend = "rm -f large.bin index.html server.py";
    let mended = Turn::of("F01").shell(mend).file("server.py", super::story::SERVER).page("Hello");
    story.add(mended.file("init.sh", RESTLESS).shell("sleep 0.3").claim("the page greets"));
    stage.write("story.toml", &story.cassette());
    let ended = stage.run_to(0, &["demo", "--cassette", "story.toml", "--dir", "app"]);
    assert!(ended.out.contains("1 of 1 feature verified"), "{}", ended.out);

    let refused = stage.log("claim.refused");
    assert!(refused[0]["reason"].as_str().unwrap().contains("large.bin has 150 MiB"), "{refused:?}");
    each_is_told(&stage);
    the_commit_is_what_was_verified(&stage);
    plain_git_stumbles(&stage);
}

fn each_is_told(stage: &Stage) {
    let undone = super::what_was_undone(stage);
    let mut at: BTreeMap<&str, usize> = BTreeMap::new();
    for paths in undone.values() {
        for path in paths {
            *at.entry(path).or_default() += 1;
        }
    }
    for (command, path) in LEFTOVERS {
        let line: String = command.lines().next().unwrap().chars().take(100).collect();
        let paths = undone.get(&line).unwrap_or_else(|| panic!("{line} is not in the log"));
        match path {
            Some(path) => assert!(paths.iter().any(|told| told.starts_with(path)), "{command}: {paths:?}"),
            None => assert!(paths.is_empty(), "{command}: {paths:?}"),
        }
    }
    // The application at its trial and while it was verified, the project's own check.
    for path in ["feature_list.json", "feature_checks.json", "progress.md", "nested/.git", "."] {
        assert!(at.contains_key(path), "{path} was not told: {at:?}");
    }
}

fn the_commit_is_what_was_verified(stage: &Stage) {
    assert_eq!(stage.git(&["fsck", "--strict", "--no-progress", "--no-dangling"]), "");
    // As bytes, for one of the names is no text.
    let mut git = Command::new("git");
    git.args(["-c", "safe.directory=*", "ls-files", "--stage", "-z"]).current_dir(stage.app());
    let listed = git.output().unwrap().stdout;
    let listed = String::from_utf8_lossy(&listed);
    assert!(!listed.contains("160000 "), "a link to a repository was committed");
    let names: Vec<&str> =
        listed.split('\0').filter_map(|entry| entry.split_once('\t')).map(|(_, name)| name).collect();
    for name in ["feature_list.json", "feature_checks.json", "progress.json", "progress.md", "init.sh", "-rf", "a\nb"] {
        assert!(names.contains(&name), "{name} is not in the commit: {names:?}");
    }
    let list: Value = serde_json::from_str(&stage.git(&["show", "HEAD:feature_list.json"])).unwrap();
    assert_eq!((list.as_array().unwrap().len(), &list[0]["passes"]), (1, &Value::Bool(true)));
    assert_eq!(stage.json("app/feature_list.json"), list);
    assert_eq!(stage.git(&["show", "HEAD:-rf"]), "$Id$\r\n", "files are kept byte by byte");
    assert_eq!(stage.git(&["status", "--porcelain"]), "");
    assert!(!std::path::Path::new("/tmp/escaped").exists());
}

/// The control: git as anybody calls it does mind what was left.
fn plain_git_stumbles(stage: &Stage) {
    let plain = stage.path("plain");
    let git = |args: &[&str]| {
        let mut git = Command::new("git");
        git.arg("-C").arg(&plain).args(args).env("HOME", stage.path("."));
        git.output().unwrap()
    };
    std::fs::create_dir(&plain).unwrap();
    assert!(git(&["init", "--quiet"]).status.success());
    for (name, content) in [(".gitattributes", "* working-tree-encoding=UTF-16\n"), ("page", "text\n")] {
        std::fs::write(plain.join(name), content).unwrap();
    }
    assert!(!git(&["add", "--all"]).status.success(), "an encoding that does not fit");
    std::fs::remove_file(plain.join(".gitattributes")).unwrap();
    std::os::unix::fs::symlink("page", plain.join(".gitmodules")).unwrap();
    assert!(!git(&["add", "--all"]).status.success(), "a link for .gitmodules");
}

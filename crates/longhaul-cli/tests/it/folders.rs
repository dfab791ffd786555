//! Folders and files that are not what a command needs: one sentence, the next command to type, and nothing is touched.

use std::fs;

use crate::program::Account;

#[test]
fn a_folder_without_a_project_says_how_to_begin_one() {
    let account = Account::new();
    fs::create_dir(account.path("empty")).unwrap();
    for command in ["run", "status", "features", "log", "verify"] {
        let ended = account.run(&[command, "--dir", "empty"]);
        assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{command}: {ended:?}");
        assert!(ended.err.contains("longhaul init"), "{command}: {}", ended.err);
    }
    assert_eq!(fs::read_dir(account.path("empty")).unwrap().count(), 0);
}

#[test]
fn a_cassette_is_looked_over_with_lines() {
    let account = Account::new();
    account.write(
        "good.toml",
        "cassette = 1\ntitle = \"a greeting\"\n[[entry]]\nid = \"greet\"\nprompt = [\"hello\"]\nreply = \"hi\"\n",
    );
    let good = account.run(&["cassette", "lint", "good.toml"]);
    assert_eq!((good.code, good.out.as_str()), (Some(0), "✓ a greeting: 1 entry, nothing to mend\n"), "{good:?}");
    account.write("bad.toml", "cassette = 1\ntitle = \"x\"\nentrys = 3\n");
    let bad = account.run(&["cassette", "lint", "bad.toml"]);
    assert_eq!(bad.code, Some(2), "{bad:?}");
    assert!(bad.err.contains("bad.toml") && bad.err.contains("line 3"), "{}", bad.err);
}

#[test]
fn a_story_without_a_request_cannot_be_played_as_a_demo() {
    let account = Account::new();
    account
        .write("story.toml", "cassette = 1\ntitle = \"x\"\n[[entry]]\nid = \"a\"\nprompt = [\"b\"]\nreply = \"c\"\n");
    let ended = account.run(&["demo", "--cassette", "story.toml"]);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.err.contains("no `request` line"), "{}", ended.err);
}

#[test]
fn a_store_of_a_newer_release_or_a_damaged_one_is_left_alone() {
    let account = Account::new();
    account.write("home/longhaul.db", &"this is not a database ".repeat(400));
    let before = fs::read(account.path("home/longhaul.db")).unwrap();
    let ended = account.run(&["status", "--dir", ".", "--home", "home"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains("longhaul.db"), "{}", ended.err);
    assert_eq!(fs::read(account.path("home/longhaul.db")).unwrap(), before);
}

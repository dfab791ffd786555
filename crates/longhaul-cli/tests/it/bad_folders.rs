//! Folders in which nothing can begin, and folders that hold no project: told in one sentence, and left as they are.

use std::{ffi::OsStr, fs, os::unix::ffi::OsStrExt, process::Command};

use crate::program::Account;

/// A service that is never asked: the folder is looked at first.
const MODEL: [&str; 4] = ["--model", "openai:m", "--base-url", "http://127.0.0.1:9/v1"];

fn init<'a>(dir: &'a str, request: &'a str) -> Vec<&'a str> {
    [&["init", request, "--dir", dir][..], &MODEL].concat()
}

#[test]
fn an_empty_request_says_what_to_write() {
    let account = Account::new();
    for request in ["", " \n\t"] {
        let ended = account.run(&init("app", request));
        assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{ended:?}");
        assert!(ended.err.starts_with("longhaul: the request is empty; say in a sentence what to build"), "{ended:?}");
    }
    assert!(!account.path("app").exists());
}

#[test]
fn a_folder_with_files_is_not_built_in() {
    let account = Account::new();
    account.write("full/thesis.txt", "three years of work");
    let ended = account.run(&init("full", "a page"));
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert_eq!(ended.err, "longhaul: full is not empty; name a new folder, for example `--dir full-2`\n");
    assert_eq!(fs::read_to_string(account.path("full/thesis.txt")).unwrap(), "three years of work");
}

#[test]
fn somebody_elses_repository_is_not_built_in() {
    let account = Account::new();
    let made = Command::new("git").args(["init", "--quiet"]).arg(account.path("theirs")).status().unwrap();
    assert!(made.success());
    let ended = account.run(&init("theirs", "a page"));
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert_eq!(
        ended.err,
        "longhaul: theirs is a git repository already; name a new folder, for example `--dir theirs-app`\n"
    );
    assert_eq!(fs::read_dir(account.path("theirs")).unwrap().count(), 1, "only .git");
}

#[test]
fn a_file_is_no_folder() {
    let account = Account::new();
    account.write("file", "text");
    let begun = account.run(&init("file", "a page"));
    assert_eq!(begun.code, Some(2), "{begun:?}");
    assert!(begun.err.contains("cannot use the folder file (Not a directory"), "{}", begun.err);
    assert!(begun.err.contains("name a folder that you can write to"), "{}", begun.err);
    let asked = account.run(&["status", "--dir", "file"]);
    assert_eq!(asked.code, Some(2), "{asked:?}");
    assert!(asked.err.contains("file is not a longhaul project"), "{}", asked.err);
}

#[test]
fn every_command_tells_a_folder_without_a_project() {
    let account = Account::new();
    fs::create_dir(account.path("empty")).unwrap();
    for command in ["run", "status", "features", "log", "verify", "report"] {
        for dir in ["empty", "nowhere"] {
            let ended = account.run(&[command, "--dir", dir]);
            assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{command}: {ended:?}");
            assert!(ended.err.contains(&format!("{dir} is not a longhaul project; name its folder")), "{}", ended.err);
            assert!(ended.err.contains("`longhaul init"), "{}", ended.err);
        }
    }
    assert_eq!(fs::read_dir(account.path("empty")).unwrap().count(), 0);
    assert!(!account.path("nowhere").exists());
}

#[test]
fn names_that_are_not_text_are_refused_and_not_bent() {
    let account = Account::new();
    let bent = OsStr::from_bytes(b"\xff\xfe");
    let before = fs::read_dir(account.root()).unwrap().count();
    for (args, says) in [
        (
            &["init", "a page", "--model", "openai:m", "--base-url", "http://127.0.0.1:9/v1", "--dir"][..],
            "folder's name",
        ),
        (&["status", "--dir"], "folder's name"),
        (&["demo", "--cassette"], "--cassette: the path is not UTF-8"),
        (&["doctor", "--home"], "--home: the path is not UTF-8"),
    ] {
        let output = account.command(args).arg(bent).output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {err}");
        assert!(err.contains(says), "{args:?}: {err}");
    }
    let after: Vec<_> = fs::read_dir(account.root()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(after.len() <= before + 1, "only the home is new: {after:?}");
}

#[test]
fn cassettes_that_cannot_be_played_are_told_with_the_line() {
    let account = Account::new();
    account.write("bad.toml", "cassette = 1\ntitle = \"x\"\n[[entry]]\nid = 3\n");
    let missing = account.run(&["demo", "--cassette", "none.toml"]);
    assert_eq!(missing.code, Some(2), "{missing:?}");
    assert!(missing.err.contains("cannot read the cassette none.toml; check the path"), "{}", missing.err);
    let malformed = account.run(&["demo", "--cassette", "bad.toml"]);
    assert_eq!(malformed.code, Some(2), "{malformed:?}");
    assert!(malformed.err.contains("bad.toml") && malformed.err.contains("line 4"), "{}", malformed.err);
    let named = account.run(&["init", "a page", "--dir", "app", "--model", "cassette:none.toml"]);
    assert_eq!(named.code, Some(2), "{named:?}");
    assert!(named.err.contains("none.toml; check the path"), "{}", named.err);
    assert!(!account.path("app").exists());
}

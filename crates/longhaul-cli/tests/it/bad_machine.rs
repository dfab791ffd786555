//! Machines that lack something: exit 4, what is missing, how to get it, and no project is begun.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use crate::program::{Account, Ended, in_view};

/// Planning with the demo's story, which needs no network and no key.
const INIT: [&str; 6] = ["init", "a page", "--dir", "app", "--model", "cassette:demo"];

fn found(program: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(|path| path.is_file()).unwrap()
}

/// What `init` says where the PATH holds only these programs.
fn init_with(programs: &[&str]) -> Ended {
    let account = Account::new();
    fs::create_dir(account.path("bin")).unwrap();
    for program in programs {
        symlink(found(program), account.path("bin").join(program)).unwrap();
    }
    let mut command = account.command(&INIT);
    let output = command.env("PATH", account.path("bin")).env_remove("LONGHAUL_BROWSER_PROGRAM").output().unwrap();
    assert!(!account.path("app").exists(), "a project was begun");
    Ended::of(output, account.root())
}

#[test]
fn without_git_it_says_how_to_get_it() {
    let ended = init_with(&[]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(4), ""), "{ended:?}");
    assert!(ended.err.contains("git could not be started; install it (`apt-get install git`)"), "{}", ended.err);
}

#[test]
fn without_a_browser_nothing_is_begun_that_could_not_be_verified() {
    let ended = init_with(&["git"]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(4), ""), "{ended:?}");
    assert!(ended.err.contains("no Chromium found"), "{}", ended.err);
    assert!(ended.err.contains("`apt-get install chromium`"), "{}", ended.err);
}

#[test]
fn a_browser_setting_that_points_nowhere_is_named() {
    let account = Account::new();
    let ended = account.run(&[&INIT[..], &["--set", "browser.program=/nowhere/chrome"]].concat());
    assert_eq!(ended.code, Some(4), "{ended:?}");
    assert!(ended.err.contains("/nowhere/chrome") && ended.err.contains("browser.program"), "{}", ended.err);
}

#[test]
fn without_bubblewrap_nothing_runs_unprotected() {
    let account = Account::new();
    let bwrap = found("bwrap").canonicalize().unwrap();
    let hidden = [Path::new("--ro-bind"), Path::new("/dev/null"), &bwrap];
    let strict = [&INIT[..], &["--set", "sandbox.kind=bubblewrap"]].concat();
    let ended = Ended::of(in_view(&hidden, account.command(&strict)), account.root());
    assert_eq!((ended.code, ended.out.as_str()), (Some(4), ""), "{ended:?}");
    assert!(ended.err.contains("the sandbox needs bwrap, which is not installed"), "{}", ended.err);
    assert!(ended.err.contains("`sudo apt-get install bubblewrap`"), "{}", ended.err);
    assert!(!account.path("app").exists());
}

#[test]
fn without_the_embedding_model_setup_is_named() {
    let account = Account::new();
    let ended = account.run(&INIT);
    assert_eq!((ended.code, ended.out.as_str()), (Some(4), ""), "{ended:?}");
    assert!(ended.err.contains("the embedding model is not installed at ~/"), "{}", ended.err);
    assert!(ended.err.ends_with("run `longhaul setup`\n"), "{}", ended.err);
    assert!(!account.path("app").exists());
}

#[test]
fn an_embedding_folder_of_ones_own_that_holds_none_is_told_by_setup_too() {
    let account = Account::new();
    fs::create_dir(account.path("vectors")).unwrap();
    let path = format!("embedding.path={}", account.path("vectors").display());
    for command in [&["setup"][..], &INIT] {
        let ended = account.run(&[command, &["--set", path.as_str()]].concat());
        assert_eq!(ended.code, Some(4), "{ended:?}");
        assert!(ended.err.contains("~/vectors"), "{}", ended.err);
    }
}

#[test]
fn a_home_that_is_read_only_is_told_before_anything() {
    let account = Account::new();
    let root = account.root();
    let frozen = [Path::new("--ro-bind"), root, root];
    let ended = Ended::of(in_view(&frozen, account.command(&INIT)), root);
    assert_eq!((ended.code, ended.out.as_str()), (Some(4), ""), "{ended:?}");
    assert!(ended.err.contains(".local") && ended.err.contains("Read-only file system"), "{}", ended.err);
    assert!(ended.err.contains("this user may write"), "{}", ended.err);
}

//! Projects that were moved, copied, damaged, killed or are busy: each is told, and none is lost.

use std::{
    fs,
    process::{Command, Stdio},
};

use longhaul::{Cassette, DEMO_CASSETTE};

use crate::{
    program::{Account, Ended, embedding_model},
    service::{Manner, Service},
};

fn request() -> String {
    Cassette::parse(DEMO_CASSETTE, "the demo").unwrap().request().unwrap().to_owned()
}

/// Runs with everything a real run needs.
fn work(account: &Account, args: &[&str]) -> Ended {
    let mut command = account.command(args);
    Ended::of(command.env("LONGHAUL_EMBEDDING_PATH", embedding_model()).output().unwrap(), account.root())
}

/// An account with the demo's plan in `app`.
fn planned() -> Account {
    let account = Account::new();
    let ended = work(&account, &["init", &request(), "--dir", "app", "--model", "cassette:demo"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    account
}

#[test]
fn what_is_planned_is_not_planned_again_and_unknown_features_are_told() {
    let account = planned();
    let again = work(&account, &["init", "something else", "--dir", "app", "--model", "cassette:demo"]);
    assert_eq!(again.code, Some(2), "{again:?}");
    assert_eq!(again.err, "longhaul: app is already planned (15 features); go on with `longhaul run --dir app`\n");
    let unknown = account.run(&["verify", "F99", "--dir", "app"]);
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
    assert!(unknown.err.contains("there is no feature F99; this project has F01, F02"), "{}", unknown.err);
    let no_id = account.run(&["verify", "F 1", "--dir", "app"]);
    assert_eq!(no_id.code, Some(2), "{no_id:?}");
    assert!(no_id.err.contains("`longhaul features` lists the ids"), "{}", no_id.err);
}

#[test]
fn a_moved_folder_is_found_a_copy_is_refused_and_another_home_is_named() {
    let account = planned();
    let copied = Command::new("cp").arg("-r").args([account.path("app"), account.path("copy")]).status().unwrap();
    assert!(copied.success());
    for command in ["status", "run", "log"] {
        let copy = work(&account, &[command, "--dir", "copy"]);
        assert_eq!((copy.code, copy.out.as_str()), (Some(2), ""), "{copy:?}");
        assert_eq!(
            copy.err,
            "longhaul: ~/copy is a copy of the project in ~/app; go on there with `longhaul run --dir ~/app`\n"
        );
    }
    fs::rename(account.path("app"), account.path("moved")).unwrap();
    let gone = work(&account, &["run", "--dir", "app"]);
    assert_eq!(gone.code, Some(2), "{gone:?}");
    assert!(gone.err.contains("the project's folder ~/app is gone; put it back, or name the place"), "{}", gone.err);
    let moved = account.run(&["status", "--dir", "moved"]);
    assert_eq!(moved.code, Some(0), "{moved:?}");
    assert!(
        moved.out.contains("0 of 15 verified") && moved.out.contains("longhaul run --dir ~/moved"),
        "{}",
        moved.out
    );
    let elsewhere = account.run(&["status", "--dir", "moved", "--home", "other"]);
    assert_eq!(elsewhere.code, Some(2), "{elsewhere:?}");
    assert!(elsewhere.err.contains("name the home it was made with: `--home DIR`"), "{}", elsewhere.err);
}

#[test]
fn a_corrupt_feature_list_is_restored_and_told_and_the_run_goes_on() {
    let account = planned();
    let list = account.path("app/feature_list.json");
    let before = fs::read(&list).unwrap();
    fs::write(&list, "[{\"id\": \"F01\", \"pas").unwrap();
    let service = Service::start(Manner::WebPage); // ends the session when the model is asked
    let run = ["run", "--dir", "app", "--model", "openai:m", "--base-url", &service.base_url];
    let ended = work(&account, &run);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.out.contains("feature_list.json was changed (no longer JSON)"), "{}", ended.out);
    assert!(ended.out.contains("Session 1"), "{}", ended.out);
    assert_eq!(fs::read(&list).unwrap(), before);
    let log = account.run(&["log", "--dir", "app"]);
    assert!(log.out.contains("feature_list.json"), "{}", log.out);
}

#[test]
fn a_second_process_is_refused_and_planning_that_was_killed_goes_on() {
    let (account, service) = (Account::new(), Service::start(Manner::Silent));
    let request = request();
    let mut first = account.command(&["init", &request, "--dir", "app", "--model", "openai:m"]);
    first.args(["--base-url", &service.base_url]).env("LONGHAUL_EMBEDDING_PATH", embedding_model());
    let mut first = first.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    service.asked();
    let second = work(&account, &["run", "--dir", "app"]);
    let status = account.run(&["status", "--dir", "app"]);
    let pid = first.id();
    first.kill().unwrap();
    first.wait().unwrap();
    assert_eq!((second.code, second.out.as_str()), (Some(1), ""), "{second:?}");
    assert!(
        second.err.starts_with(&format!("longhaul: another longhaul works on this project (process {pid}")),
        "{}",
        second.err
    );
    assert!(second.err.ends_with("wait for it, or end it, then run the command again\n"), "{}", second.err);
    assert!(status.out.contains(&format!("process {pid} is working on it")), "{}", status.out);
    let other = work(&account, &["init", "another request", "--dir", "app", "--model", "cassette:demo"]);
    assert_eq!(other.code, Some(2), "{other:?}");
    assert!(other.err.contains("app was begun with another request"), "{}", other.err);
    let again = work(&account, &["init", &request, "--dir", "app", "--model", "cassette:demo"]);
    assert_eq!(again.code, Some(0), "{again:?}");
    assert!(again.out.contains("15 features planned"), "{}", again.out);
}

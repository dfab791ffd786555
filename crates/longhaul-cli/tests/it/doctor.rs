//! What doctor says about this machine, and about one that lacks things.

use std::os::unix::fs::symlink;

use serde_json::Value;

use crate::program::Account;

fn check<'a>(report: &'a Value, name: &str) -> &'a Value {
    report["checks"].as_array().unwrap().iter().find(|check| check["name"] == name).unwrap()
}

#[test]
fn a_key_is_said_to_be_set_and_never_shown() {
    let account = Account::new();
    let mut command = account.command(&["doctor", "--json", "-v"]);
    let output = command.env("OPENAI_API_KEY", "sk-very-secret").env("OPENAI_MODEL", "gpt-4o").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
    assert!(!text.contains("sk-very-secret"), "{text}");
    let report: Value = serde_json::from_str(&text).unwrap();
    let found = check(&report, "model")["found"].as_str().unwrap();
    assert_eq!(found, "gpt-4o at https://api.openai.com/v1, the key is set");
    assert!(account.path(".local/share/longhaul").is_dir(), "the home folder was tried");
}

#[test]
fn what_is_missing_comes_with_the_command_to_get_it_and_exit_4() {
    let account = Account::new();
    std::fs::create_dir(account.path("bin")).unwrap();
    symlink("/usr/bin/git", account.path("bin/git")).unwrap();
    let nowhere = account.path("no-browser");
    let mut command = account.command(&["doctor", "--json"]);
    let output = command.env("PATH", account.path("bin")).env("LONGHAUL_BROWSER_PROGRAM", &nowhere).output().unwrap();
    assert_eq!(output.status.code(), Some(4));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["ok"], false);
    assert_eq!(check(&report, "git")["state"], "ok");
    for (name, remedy_has) in [("embedding model", "longhaul setup"), ("browser", "chromium")] {
        assert_eq!(check(&report, name)["state"], "missing");
        let remedy = check(&report, name)["remedy"].as_str().unwrap();
        assert!(remedy.contains(remedy_has), "{remedy}");
    }
}

#[test]
fn a_home_that_cannot_be_written_is_named() {
    let account = Account::new();
    account.write("file", "in the way");
    let home = account.path("file/home");
    let output = account.command(&["doctor", "--json", "--home"]).arg(&home).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let home = check(&report, "home");
    assert_eq!(home["state"], "missing");
    assert!(home["found"].as_str().unwrap().contains("file/home cannot be written"), "{home}");
    assert!(home["remedy"].as_str().unwrap().contains("LONGHAUL_HOME"), "{home}");
}

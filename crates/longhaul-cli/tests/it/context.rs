//! `longhaul context` as a person meets it: what is chosen, what is left out, and mistakes told in a sentence.

use serde_json::Value;

use crate::program::Account;

/// What a command that must succeed prints.
fn printed(account: &Account, args: &[&str]) -> String {
    let ended = account.run(args);
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{args:?}: {ended:?}");
    ended.out
}

#[test]
fn what_is_kept_is_gathered_within_a_budget() {
    let account = Account::new();
    printed(&account, &["memory", "add", "Ada drinks tea while she reviews", "--kind", "preference"]);
    let long = "The review of the contract took a week. ".repeat(200);
    printed(&account, &["memory", "add", &long]);
    let goal = ["context", "what does Ada drink at the review"];
    let pack: Value = serde_json::from_str(&printed(&account, &[&goal[..], &["--json"]].concat())).unwrap();
    assert_eq!((pack["profile"].as_str(), pack["budget_tokens"].as_u64()), (Some("auto"), Some(12_000)));
    assert!(pack["used_tokens"].as_u64().unwrap() <= 12_000);
    assert_eq!(pack["items"].as_array().unwrap().len(), 2, "{pack}");

    let rendered = printed(&account, &[&goal[..], &["--render", "--budget", "200"]].concat());
    assert!(rendered.contains("Ada drinks tea while she reviews\n</item-"), "{rendered}");
    let lines = printed(&account, &[&goal[..], &["--budget", "0"]].concat());
    assert_eq!(lines.matches("left out").count(), 2, "{lines}");
    assert!(lines.contains("0 items") && lines.contains("0 of 0 tokens (estimate"), "{lines}");
}

#[test]
fn profiles_come_from_the_users_file_and_unknown_ones_are_told_which_there_are() {
    let account = Account::new();
    printed(&account, &["memory", "add", "Ada drinks tea", "--kind", "preference"]);
    let refused = |args: &[&str], said: &str| {
        let ended = account.run(&[&["context", "what does Ada drink"], args].concat());
        assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{args:?}: {ended:?}");
        assert!(ended.err.contains(said), "{args:?} should say {said:?}: {}", ended.err);
    };
    refused(&["--profile", "reviews"], "there are: auto, document_review, research, software_dev");
    refused(&["--task", "task_nobody"], "nothing is kept of task_nobody here");
    refused(&["--task", "exec_1"], "a task id");
    let own = "[context]\nprofile = \"mine\"\n[context.profiles.mine]\nkinds = { preference = 0 }\n";
    account.write(".config/longhaul/longhaul.toml", own);
    let lines = printed(&account, &["context", "what does Ada drink"]);
    assert!(lines.contains("the profile does not want its kind") && lines.contains("profile mine"), "{lines}");
    account.write(".config/longhaul/longhaul.toml", "[context.profiles.mine]\nrecent = 99\n");
    refused(&[], "recent of the context profile `mine` must be a number from 0 to 50");
}

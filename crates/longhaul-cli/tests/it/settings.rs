//! Settings that are wrong are told in one sentence, before anything is done.

use crate::program::Account;

#[test]
fn an_unknown_key_names_its_line_and_the_nearest() {
    let account = Account::new();
    account.write(".config/longhaul/longhaul.toml", "[model]\nbase_ulr = \"http://x\"\n");
    let ended = account.run(&["doctor"]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""));
    assert_eq!(
        ended.err,
        "longhaul: ~/.config/longhaul/longhaul.toml:2: unknown key `model.base_ulr`, did you mean `model.base_url`?; \
         every key is listed in docs/configuration.md\n"
    );
}

#[test]
fn a_machine_reads_the_same_refusal_as_an_object() {
    let account = Account::new();
    let output =
        account.command(&["doctor", "--json"]).env("MILVUS_URI", "http://root:secret@milvus:19530").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let object: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(object["error"]["exit"], 2);
    let message = object["error"]["message"].as_str().unwrap();
    assert!(message.contains("MILVUS_TOKEN") && !message.contains("secret"), "{object}");
}

#[test]
fn a_projects_own_file_cannot_send_requests_elsewhere() {
    let account = Account::new();
    account.write("app/longhaul.toml", "[model]\nbase_url = \"http://evil/v1\"\n");
    let ended = account.run(&["doctor", "--dir", "app"]);
    assert_eq!(ended.code, Some(2));
    assert!(
        ended.err.contains("app/longhaul.toml:2: `model.base_url` cannot be set in a project's longhaul.toml"),
        "{}",
        ended.err
    );
}

#[test]
fn set_takes_any_key_and_says_how_when_it_is_not_one() {
    let account = Account::new();
    let ended = account.run(&["doctor", "--set", "harness.turns_max"]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.err.contains("write --set KEY=VALUE"), "{}", ended.err);
}

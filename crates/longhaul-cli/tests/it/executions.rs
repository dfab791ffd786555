//! Seeing, answering, ending and settling executions of another program from the terminal.

use std::{process::Stdio, sync::atomic::Ordering};

use longhaul_store::StoreSettings;
use longhaul_testbed::PrivateCluster;
use rusqlite::Connection;
use serde_json::Value;

use crate::{
    program::{Account, Ended},
    shop::{Shop, block_on},
};

fn shop(account: &Account) -> StoreSettings {
    StoreSettings::new(account.path("shop"))
}

fn in_shop(account: &Account, args: &[&str]) -> Ended {
    account.run(&[args, &["--store", "shop"]].concat())
}

fn objects(ended: &Ended) -> Vec<Value> {
    ended.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_person_sees_a_question_answers_it_and_the_program_goes_on() {
    let account = Account::new();
    let wait = block_on(async { Shop::open(shop(&account)).await.ask("order-17").await });

    let listed = in_shop(&account, &["executions"]);
    assert_eq!(listed.code, Some(0), "{listed:?}");
    for part in ["waiting", "order-17 (post 1)", "at superstep 2: ask", "publish this post?", &wait] {
        assert!(listed.out.contains(part), "{part} is missing from:\n{}", listed.out);
    }
    let waits = in_shop(&account, &["waits"]);
    for part in ["approval", "publish this post?", &wait, r#"{"draft":"ten things"}"#, "approve WAIT --store shop"] {
        assert!(waits.out.contains(part), "{part} is missing from:\n{}", waits.out);
    }
    let machine = objects(&in_shop(&account, &["waits", "--json"]));
    assert_eq!(
        (machine.len(), &machine[0]["id"], &machine[0]["thread"]),
        (1, &wait.clone().into(), &"order-17".into())
    );

    // What does not fit is refused, and nothing has happened.
    let wrong = in_shop(&account, &["approve", &wait, "--value", "\"perhaps\""]);
    assert_eq!((wrong.code, wrong.out.as_str()), (Some(2), ""), "{wrong:?}");
    assert!(wrong.err.contains("boolean"), "{}", wrong.err);
    let no_json = in_shop(&account, &["approve", &wait, "--value", "perhaps"]);
    assert_eq!(no_json.code, Some(2));
    assert!(no_json.err.contains("--value is not JSON: expected value at line 1 column 1"), "{}", no_json.err);

    let approved = in_shop(&account, &["approve", &wait, "--note", "read it twice"]);
    assert_eq!((approved.code, approved.err.as_str()), (Some(0), ""), "{approved:?}");
    assert!(approved.out.contains("\"publish this post?\" on order-17 is answered\n  true, by "), "{}", approved.out);
    assert!(approved.out.contains("next: run the program of the graph \"post\" again"));
    // The same again is the same request, by the wait's name or the thread's.
    for name in [wait.as_str(), "order-17"] {
        let again = in_shop(&account, &["approve", name]);
        assert_eq!(again.code, Some(0), "{again:?}");
        assert!(
            again.out.contains("was answered already\n  true, by ") && again.out.contains("nothing was changed"),
            "{}",
            again.out
        );
    }
    let late = in_shop(&account, &["reject", &wait]);
    assert_eq!((late.code, late.out.as_str()), (Some(1), ""), "{late:?}");
    assert!(late.err.contains(&format!("{wait} was answered at ")), "{}", late.err);
    assert!(late.err.contains(": true; nothing was changed"), "{}", late.err);

    let notes = block_on(async { Shop::open(shop(&account)).await.notes("order-17").await });
    assert_eq!((notes.len(), notes[0].as_str()), (2, "ten things"));
    assert!(notes[1].ends_with(" said true"), "{notes:?}");
    let done = objects(&in_shop(&account, &["executions", "--json", "--status", "completed"]));
    assert_eq!((done.len(), &done[0]["status"]), (1, &"completed".into()));
    assert_eq!(in_shop(&account, &["waits"]).out, "nothing waits in shop\n");
}

#[test]
fn of_two_answers_at_the_same_time_one_counts_and_the_other_is_told() {
    let account = Account::new();
    let wait = block_on(async { Shop::open(shop(&account)).await.ask("order-17").await });
    let begin = |word: &str| {
        let mut command = account.command(&[word, &wait, "--store", "shop"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let both = [begin("approve"), begin("reject")];
    let ended = both.map(|child| Ended::of(child.wait_with_output().unwrap(), account.root()));
    let won = ended.iter().filter(|ended| ended.code == Some(0)).count();
    assert_eq!(won, 1, "{ended:?}");
    let lost = ended.iter().find(|ended| ended.code == Some(1)).unwrap();
    assert!(lost.err.contains("was answered at ") && lost.err.contains("nothing was changed"), "{lost:?}");

    // The same answer twice at once: one request.
    let wait = block_on(async { Shop::open(shop(&account)).await.ask("order-18").await });
    let begin = || {
        let mut command = account.command(&["approve", &wait, "--store", "shop", "--json"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let ended = [begin(), begin()].map(|child| Ended::of(child.wait_with_output().unwrap(), account.root()));
    let accepted: Vec<bool> = ended.iter().map(|ended| objects(ended)[0]["accepted"].as_bool().unwrap()).collect();
    assert_eq!(accepted.iter().filter(|accepted| **accepted).count(), 1, "{ended:?}");
}

#[test]
fn which_of_two_waits_is_meant_has_to_be_said() {
    let account = Account::new();
    let waits = block_on(async { Shop::open(shop(&account)).await.ask_twice("order-17").await });
    let unclear = in_shop(&account, &["approve", "order-17"]);
    assert_eq!((unclear.code, unclear.out.as_str()), (Some(2), ""), "{unclear:?}");
    for part in ["2 waits match \"order-17\"", "\"left?\"", "\"right?\"", &waits[0], &waits[1]] {
        assert!(unclear.err.contains(part), "{part} is missing from:\n{}", unclear.err);
    }
    assert_eq!(in_shop(&account, &["approve", &waits[0]]).code, Some(0));
    assert_eq!(in_shop(&account, &["approve", "order-17"]).code, Some(0), "one is left");
    let unknown = in_shop(&account, &["approve", "wait_nowhere"]);
    assert_eq!(unknown.code, Some(2));
    assert!(unknown.err.contains("nothing in shop is called \"wait_nowhere\": looked for waits"), "{}", unknown.err);
}

#[test]
fn a_failed_execution_says_why_and_how_it_goes_on() {
    let account = Account::new();
    let shop_now = block_on(async {
        let shop = Shop::open(shop(&account)).await;
        assert!(!shop.transfer("order-17").await);
        shop
    });
    let listed = in_shop(&account, &["executions", "--status", "failed"]);
    for part in ["failed", "order-17 (transfer 1)", "at superstep 2: send", "the bank does not answer"] {
        assert!(listed.out.contains(part), "{part} is missing from:\n{}", listed.out);
    }
    let ready = in_shop(&account, &["retry", "order-17"]);
    assert_eq!(ready.code, Some(0), "{ready:?}");
    assert!(ready.out.contains("order-17 is ready to go on at superstep 2: send"), "{}", ready.out);
    let settled = in_shop(&account, &["retry", "order-17", "--did-not-happen"]);
    assert_eq!(settled.code, Some(1));
    assert!(settled.err.contains("has no act of unknown outcome"), "{}", settled.err);

    shop_now.offline.store(false, Ordering::SeqCst);
    assert!(block_on(async { shop_now.transfer("order-17").await }));
    let over = in_shop(&account, &["retry", "order-17"]);
    assert_eq!(over.code, Some(1));
    assert!(over.err.contains("is completed: there is nothing to retry"), "{}", over.err);
}

#[test]
fn a_half_done_act_is_settled_by_what_a_person_found_out() {
    let account = Account::new();
    block_on(async {
        let shop = Shop::open(shop(&account)).await;
        assert!(!shop.charge("order-17").await);
        assert!(!shop.charge("order-18").await);
    });
    let asked = in_shop(&account, &["retry", "order-17"]);
    assert_eq!((asked.code, asked.out.as_str()), (Some(1), ""), "{asked:?}");
    let id = asked.err.split('\'').nth(1).unwrap();
    assert!(id.starts_with("exec_") && id.ends_with("/charge/1/charge card#1"), "{id}");
    assert!(asked.err.contains("--happened JSON") && asked.err.contains("--did-not-happen"), "{}", asked.err);

    let settled = in_shop(&account, &["retry", id, "--happened", "\"charged by hand\""]);
    assert_eq!(settled.code, Some(0), "{settled:?}");
    assert!(settled.out.contains("recorded as happened"), "{}", settled.out);
    assert!(settled.out.contains("order-17 is ready to go on at superstep 1: charge"), "{}", settled.out);
    let told = in_shop(&account, &["explain", id]);
    assert!(told.out.contains("charged by hand") && told.out.contains("does not happen again"), "{}", told.out);

    assert_eq!(in_shop(&account, &["retry", "order-18", "--did-not-happen"]).code, Some(0));
    block_on(async {
        let shop = Shop::open(shop(&account)).await;
        shop.offline.store(false, Ordering::SeqCst);
        assert!(shop.charge("order-17").await);
        assert!(shop.charge("order-18").await);
    });
}

#[test]
fn an_execution_is_ended_for_good() {
    let account = Account::new();
    let wait = block_on(async { Shop::open(shop(&account)).await.ask("order-17").await });
    let ended = in_shop(&account, &["cancel", "order-17", "--reason", "changed my mind"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.out.contains("order-17 is cancelled"), "{}", ended.out);
    let late = in_shop(&account, &["approve", &wait]);
    assert_eq!(late.code, Some(1));
    assert!(late.err.contains("was cancelled at "), "{}", late.err);
    let again = in_shop(&account, &["cancel", "order-17"]);
    assert_eq!(again.code, Some(1));
    assert!(again.err.contains("is cancelled: there is nothing to cancel"), "{}", again.err);
}

#[test]
fn what_workers_have_parked_is_put_back_and_what_was_not_begun_is_taken_out() {
    let account = Account::new();
    let entry = block_on(async { Shop::open(shop(&account)).await.enqueue("order-17").await });
    let listed = in_shop(&account, &["executions"]);
    for part in ["queued    order-17 (post)", &entry, "not begun yet"] {
        assert!(listed.out.contains(part), "{part} is missing from:\n{}", listed.out);
    }
    let database = Connection::open(account.path("shop/longhaul.db")).unwrap();
    database.execute("UPDATE queue SET status = 'parked', attempts = 5, error = 'out of paper'", []).unwrap();
    drop(database);
    let told = in_shop(&account, &["explain", &entry]);
    assert!(told.out.contains("parked after 5 of 5 attempts: out of paper"), "{told:?}");
    let back = in_shop(&account, &["retry", "order-17"]);
    assert_eq!(back.code, Some(0), "{back:?}");
    assert!(back.out.contains("order-17 is in the queue again, from its beginning"), "{}", back.out);
    assert!(in_shop(&account, &["executions"]).out.contains("queued    order-17 (post)"));
    let out = in_shop(&account, &["cancel", &entry]);
    assert_eq!(out.code, Some(0), "{out:?}");
    assert!(in_shop(&account, &["executions"]).out.contains("no executions like that"));
}

#[test]
fn a_folder_without_a_store_stays_one() {
    let account = Account::new();
    for command in ["executions", "waits"] {
        let ended = in_shop(&account, &[command]);
        assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{ended:?}");
        assert!(ended.err.contains("there is no store in shop"), "{}", ended.err);
    }
    assert!(!account.path("shop").exists());
    // The home's own is meant without --store.
    assert!(account.run(&["waits", "--home", "home"]).err.contains("there is no store in ~/home"));
}

#[test]
fn nothing_found_says_whose_there_are() {
    let account = Account::new();
    block_on(async { Shop::open(shop(&account)).await.ask("order-17").await });
    let ended = in_shop(&account, &["executions", "--tenant", "tenant_other"]);
    assert!(ended.out.contains("no executions like that in shop"), "{}", ended.out);
    assert!(ended.out.contains("--tenant tenant_default --user user_default has 1"), "{}", ended.out);
    assert_eq!(in_shop(&account, &["approve", "order-17", "--tenant", "tenant_other"]).code, Some(2));
}

#[test]
fn a_database_is_looked_at_and_answered_without_its_password_being_shown() {
    let cluster = PrivateCluster::shared().unwrap();
    let database = cluster.create_database().unwrap();
    let account = Account::new();
    let url = database.url();
    let settings = StoreSettings::from_url(&url, account.path("locks")).unwrap();
    let wait = block_on(async { Shop::open(settings).await.ask("order-17").await });
    let password = url.split(':').nth(2).unwrap().split('@').next().unwrap();
    for args in [&["executions"][..], &["waits"], &["explain", "order-17"], &["approve", &wait], &["store", "verify"]] {
        let output = account.command(args).env("LONGHAUL_STORE", &url).output().unwrap();
        let ended = Ended::of(output, account.root());
        assert_eq!(ended.code, Some(0), "{args:?} {}", ended.err);
        assert!(!ended.out.contains(password) && !ended.err.contains(password), "{args:?} shows the password");
    }
    let output = account.command(&["backup", "copy"]).env("LONGHAUL_STORE", &url).output().unwrap();
    let ended = Ended::of(output, account.root());
    assert_eq!(ended.code, Some(2), "{}", ended.err);
    assert!(ended.err.contains("pg_dump") && !ended.err.contains(password));
    let help = account.command(&["waits", "--help"]).env("LONGHAUL_STORE", &url).output().unwrap();
    assert!(!String::from_utf8(help.stdout).unwrap().contains(password));
}

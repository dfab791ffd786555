//! Pages, versions, proposals, locks, and two who change one page.

use std::time::Duration;

use serde_json::{Value, json};

use crate::hall::{Guest, Hall};

fn hall() -> Hall {
    Hall::new(&[("wiki", json!({}))])
}

async fn make(guest: &Guest, path: &str, content: &str) {
    let payload = json!({"page_path": path, "title": "Setup", "wiki_content": content, "tags": ["安装"]});
    guest.ask("wiki.page.create", payload).await;
}

async fn read(guest: &Guest, path: &str) -> Value {
    guest.ask("wiki.page.get", json!({"page_path": path})).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_keeps_every_version_and_goes_back_to_any() {
    let hall = hall();
    let open = hall.open().await;
    let (alice, bob) = (open.join("alice").await, open.join("bob").await);
    bob.heard().await;
    make(&alice, "guides/setup", "one\ntwo").await;
    assert_eq!(bob.names_heard().await, ["wiki.page.notification"]);
    let edited =
        alice.ask("wiki.page.edit", json!({"page_path": "/guides/setup/", "wiki_content": "one\nthree"})).await;
    assert_eq!(edited["version"], 2);
    assert!(edited["request_id"].is_string());
    let compared = bob.ask("wiki.page.compare", json!({"page_path": "guides/setup"})).await;
    assert_eq!(compared["changes"], json!(["- two", "+ three"]));
    let reverted = alice.ask("wiki.page.revert", json!({"page_path": "guides/setup", "target_version": 1})).await;
    assert_eq!(reverted["new_version"], 3);
    assert_eq!(read(&bob, "guides/setup").await["wiki_content"], "one\ntwo");
    let old = bob.ask("wiki.page.get", json!({"page_path": "guides/setup", "version": 2})).await;
    assert_eq!(old["wiki_content"], "one\nthree");
    let history = bob.ask("wiki.page.history", json!({"page_path": "guides/setup"})).await;
    let kinds: Vec<&str> =
        history["versions"].as_array().expect("a list").iter().filter_map(|v| v["edit_type"].as_str()).collect();
    assert_eq!(kinds, ["revert", "direct", "direct"]);
    assert_eq!(history["versions"][0]["parent_version"], 2);

    for query in ["SETUP", "安装", "two one", "three"] {
        let found = bob.ask("wiki.pages.search", json!({"query": query})).await;
        assert_eq!(found["total_found"], i32::from(query != "three"), "{query}");
    }
    let bad = bob.send("wiki.page.get", "", json!({"page_path": "a/../b"})).await.expect_err("no path");
    assert!(bad.message.contains("page_path"));
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_who_change_a_page_at_once_the_second_is_told() {
    let hall = Hall::new(&[("wiki", json!({"open_editing": true}))]);
    let open = hall.open().await;
    let (alice, bob) = (open.join("alice").await, open.join("bob").await);
    make(&alice, "page", "base").await;
    let edit = |text: &str| json!({"page_path": "page", "wiki_content": text, "base_version": 1});
    let (a, b) = tokio::join!(
        alice.send("wiki.page.edit", "", edit("by alice")),
        bob.send("wiki.page.edit", "", edit("by bob"))
    );
    let (a, b) = (a.expect("answered"), b.expect("answered"));
    let (winner, loser) = if a.success { (a, b) } else { (b, a) };
    assert!(winner.success && !loser.success);
    let told = loser.data.expect("what it is now");
    assert_eq!((&told["error_code"], &told["current_version"]), (&json!("VERSION_CONFLICT"), &json!(2)));
    assert_eq!(told["current_content"], read(&alice, "page").await["wiki_content"]);
    // Who states no base writes over the newest, which stays in the history.
    bob.ask("wiki.page.edit", json!({"page_path": "page", "wiki_content": "whatever"})).await;
    let history = bob.ask("wiki.page.history", json!({"page_path": "page"})).await;
    assert_eq!(history["total_versions"], 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn others_propose_and_the_owner_decides_once() {
    let hall = hall();
    let open = hall.open().await;
    let (alice, bob) = (open.join("alice").await, open.join("bob").await);
    make(&alice, "page", "base").await;
    let change = json!({"page_path": "page", "wiki_content": "better", "rationale": "typo"});
    assert_eq!(bob.refused("wiki.page.edit", change.clone()).await, "NOT_OWNER");
    alice.heard().await;
    let first = bob.ask("wiki.page.proposal.create", change.clone()).await;
    let heard = alice.heard().await;
    assert_eq!(heard[0].name.as_str(), "wiki.proposal.notification");
    let second = bob.ask("wiki.page.proposal.create", change).await;
    let listed = alice.ask("wiki.proposals.list", json!({})).await;
    assert_eq!(listed["total_listed"], 2);
    assert_eq!(listed["proposals"][0]["old_content"], "base");

    let decide = |id: &Value, action: &str| json!({"proposal_id": id, "action": action, "comments": "thanks"});
    assert_eq!(bob.refused("wiki.proposal.resolve", decide(&first["proposal_id"], "approve")).await, "NOT_OWNER");
    let decided = alice.ask("wiki.proposal.resolve", decide(&first["proposal_id"], "approve")).await;
    assert_eq!(decided["new_version"], 2);
    assert_eq!(bob.waits_for("wiki.proposal.notification").await[0].payload["status"], "approved");
    let again = alice.refused("wiki.proposal.resolve", decide(&first["proposal_id"], "reject")).await;
    assert_eq!(again, "RESOLVED_ALREADY");
    // The second was proposed for version 1, which is not what the page is now.
    let stale = alice.refused("wiki.proposal.resolve", decide(&second["proposal_id"], "approve")).await;
    assert_eq!(stale, "VERSION_CONFLICT");
    let mut seen = decide(&second["proposal_id"], "approve");
    seen["base_version"] = 2.into();
    alice.ask("wiki.proposal.resolve", seen).await;
    let approved = bob.ask("wiki.proposals.list", json!({"status": "approved"})).await;
    assert_eq!(approved["total_listed"], 2, "the proposer sees their own");
    assert_eq!(open.join("carol").await.ask("wiki.proposals.list", json!({"status": "all"})).await["total_listed"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_keeps_others_out_and_ends_by_itself() {
    let hall = Hall::new(&[("wiki", json!({"open_editing": true}))]);
    let open = hall.open().await;
    let (alice, bob) = (open.join("alice").await, open.join("bob").await);
    make(&alice, "page", "base").await;
    bob.ask("wiki.page.lock", json!({"page_path": "page", "seconds": 60, "reason": "rewriting"})).await;
    let edit = json!({"page_path": "page", "wiki_content": "x"});
    assert_eq!(alice.refused("wiki.page.edit", edit.clone()).await, "LOCKED");
    assert_eq!(read(&alice, "page").await["is_locked"], true);
    bob.ask("wiki.page.edit", json!({"page_path": "page", "wiki_content": "mine"})).await;
    hall.clock.advance(Duration::from_secs(61));
    alice.ask("wiki.page.edit", edit).await;
    assert_eq!(read(&alice, "page").await["is_locked"], false);
}

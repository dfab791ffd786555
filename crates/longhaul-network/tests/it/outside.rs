//! Many members, mods from outside, what is kept for how long, and who reads the log.

use std::time::Duration;

use longhaul_network::{Network, RefusalKind, Registered, Registration, settings::GroupSettings};
use serde_json::json;

use crate::ground::{Ground, admin, draft, guest, join, named, poll, says, send, settings, text_of};

#[tokio::test]
async fn a_post_to_a_thousand_members_is_one_row_and_reaches_each() {
    let ground = Ground::new();
    let network = ground.network().await;
    let mut members = Vec::new();
    for n in 0..1_000 {
        members.push(join(&network, &format!("agent-{n}")).await.member);
    }
    let head = network.view().head;
    for n in 0..3 {
        send(&network, &members[0], draft(&n.to_string(), "channel:general", &n.to_string())).await.expect("sent");
    }
    assert_eq!(network.view().head, head + 3);
    assert_eq!(poll(&network, &members[0]).await, Vec::<String>::new());
    for member in &members[1..] {
        assert_eq!(poll(&network, member).await, ["0", "1", "2"]);
    }
}

/// A network, and a mod from outside that has come in.
async fn calculating(ground: &Ground) -> (Network, Registered) {
    let mut with = settings();
    let mods = GroupSettings {
        permissions: vec!["mod".to_owned()],
        credential: Some("ab".repeat(32)),
        ..GroupSettings::default()
    };
    with.groups.insert("mods".to_owned(), mods);
    let network = ground.open(with, Vec::new()).await;
    let registration = Registration { credential: "ab".repeat(32), ..guest("calculator") };
    let calculator = network.register(registration).await.expect("a mod");
    (network, calculator)
}

#[tokio::test]
async fn a_mod_from_outside_is_asked_and_its_answer_is_the_reply() {
    let ground = Ground::new();
    let (network, calculator) = calculating(&ground).await;
    let ann = join(&network, "ann").await;
    let mallory = join(&network, "mallory").await.member;
    let (own, asked) = (network.clone(), calculator.member.clone());
    let answering = tokio::spawn(async move {
        let received = own.poll(&asked, 1, Duration::from_secs(10)).await.expect("asked");
        let question = received.events[0].clone();
        // Somebody who knows the id answers first: it is heard as what it is, and is not the mod's answer.
        let mut forged = named("forged", "sum.answer", "ann", says("666"));
        forged.response_to = Some(question.id.clone());
        own.send(&mallory, forged).await.expect("sent");
        let mut answer = named(
            "r",
            "sum.answer",
            &question.from.to_string(),
            json!({"data": {"sum": 3}}).as_object().cloned().expect("an object"),
        );
        answer.response_to = Some(question.id.clone());
        own.send(&asked, answer).await.expect("answered");
        text_of(&question)
    });
    let mut question = named("q", "sum.make", "mod:calculator", says("1 + 2"));
    question.requires_response = true;
    let reply = send(&network, &ann.member, question.clone()).await.expect("answered");
    assert_eq!(reply.data, Some(json!({"sum": 3})));
    assert_eq!(answering.await.expect("no panic"), "1 + 2");
    // Asked again it is answered the same, and nobody is asked.
    let again = send(&network, &ann.member, question).await.expect("answered again");
    assert!(again.repeated && again.data == reply.data, "{again:?}");
    assert_eq!(poll(&network, &calculator.member).await, Vec::<String>::new());
    // A guest of a mod's name is none.
    let fake = named("f", "sum.make", "mod:ann", says(""));
    assert_eq!(send(&network, &ann.member, fake).await.expect_err("no mod").kind, RefusalKind::Missing);
}

#[tokio::test]
async fn what_a_mod_answered_while_nobody_waited_is_the_reply_to_the_repetition() {
    let ground = Ground::new();
    let (network, calculator) = calculating(&ground).await;
    let (ann, calculator) = (join(&network, "ann").await.member, calculator.member);
    let mut question = named("q", "sum.make", "mod:calculator", says("1 + 2"));
    question.requires_response = true;
    let (own, asker, asked) = (network.clone(), ann.clone(), question.clone());
    let asking = tokio::spawn(async move { send(&own, &asker, asked).await });
    let received = network.poll(&calculator, 1, Duration::from_secs(10)).await.expect("asked");
    // The asker's connection breaks, and then the mod answers.
    asking.abort();
    asking.await.expect_err("it was ended");
    let mut answer = named("r", "sum.answer", "ann", json!({"data": 3}).as_object().cloned().expect("an object"));
    answer.response_to = Some(received.events[0].id.clone());
    network.send(&calculator, answer).await.expect("answered");
    let reply = send(&network, &ann, question).await.expect("told what was answered");
    assert_eq!(reply.data, Some(json!(3)));
}

#[tokio::test]
async fn what_has_been_kept_for_long_enough_goes_and_no_number_comes_twice() {
    let ground = Ground::new();
    let mut with = settings();
    with.retention = Some(Duration::from_secs(3600));
    let network = ground.open(with.clone(), Vec::new()).await;
    let (ann, bob) = (join(&network, "ann").await, join(&network, "bob").await);
    send(&network, &ann.member, draft("old", "bob", "old")).await.expect("sent");
    let head = network.view().head;
    ground.clock.advance(Duration::from_secs(7200));
    network.forget_old().await.expect("removed");
    network.close().await;
    drop(network);
    let network = ground.open(with, Vec::new()).await;
    assert_eq!(network.view().head, head);
    let (ann, bob) = (
        network.authenticate(&crate::ground::id("ann"), &ann.secret).expect("in"),
        network.authenticate(&crate::ground::id("bob"), &bob.secret).expect("in"),
    );
    send(&network, &ann, draft("new", "bob", "new")).await.expect("sent");
    assert_eq!(poll(&network, &bob).await, ["new"]);
    assert_eq!(network.view().head, head + 1);
}

#[tokio::test]
async fn only_those_who_govern_read_the_log_and_how_others_stand() {
    let ground = Ground::new();
    let network = ground.network().await;
    let (ann, bob) = (join(&network, "ann").await, join(&network, "bob").await);
    send(&network, &ann.member, draft("1", "bob", "between us")).await.expect("sent");
    let boss = network.register(admin("boss")).await.expect("in");
    for command in ["system.read_log", "system.status"] {
        let ask = named("r", command, "", json!({"last": 10}).as_object().cloned().expect("an object"));
        assert_eq!(send(&network, &bob.member, ask.clone()).await.expect_err("no right").kind, RefusalKind::Forbidden);
        let data = send(&network, &boss.member, ask).await.expect("told").data.expect("data").to_string();
        assert!(!data.contains(&ann.secret) && data.contains("bob"), "{data}");
    }
    let list = named("l", "system.list_agents", "", serde_json::Map::new());
    let data = send(&network, &ann.member, list).await.expect("told").data.expect("data");
    assert_eq!(data["agents"].as_array().map(Vec::len), Some(3));
    assert!(!data.to_string().contains(&bob.secret));
}

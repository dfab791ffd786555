//! Events reach those they are for: in order, once, whether these are there or not, before and after a restart.

use std::time::Duration;

use longhaul_network::{RefusalKind, Visibility};

use crate::ground::{Ground, draft, id, join, named, poll, says, send, settings, text_of};

#[tokio::test]
async fn each_receives_what_is_for_it_in_order_and_never_its_own() {
    let ground = Ground::new();
    let network = ground.network().await;
    let (ann, bob, eve) = (join(&network, "ann").await, join(&network, "bob").await, join(&network, "eve").await);
    for (n, to) in ["bob", "channel:general", "all", "group:guest", "agent:eve", "ann"].into_iter().enumerate() {
        let reply = send(&network, &ann.member, draft(&format!("e{n}"), to, to)).await.expect("sent");
        assert!(reply.success && !reply.repeated, "{to}: {reply:?}");
    }
    assert_eq!(poll(&network, &bob.member).await, ["bob", "channel:general", "all", "group:guest"]);
    assert_eq!(poll(&network, &eve.member).await, ["channel:general", "all", "group:guest", "agent:eve"]);
    assert_eq!(poll(&network, &ann.member).await, Vec::<String>::new());
    assert_eq!(poll(&network, &bob.member).await, Vec::<String>::new());
}

#[tokio::test]
async fn the_same_id_is_one_event_with_one_answer_and_other_content_is_refused() {
    let ground = Ground::new();
    let network = ground.network().await;
    let (ann, bob) = (join(&network, "ann").await, join(&network, "bob").await);
    let first = send(&network, &ann.member, draft("1", "bob", "hello")).await.expect("sent");
    let again = send(&network, &ann.member, draft("1", "bob", "hello")).await.expect("answered again");
    assert!(again.repeated && again.success && again.message == first.message, "{again:?}");
    let other = send(&network, &ann.member, draft("1", "bob", "another")).await.expect_err("another event");
    assert_eq!(other.kind, RefusalKind::Conflict);
    // Somebody else's id is somebody else's event.
    send(&network, &bob.member, draft("1", "ann", "from bob")).await.expect("sent");
    assert_eq!(poll(&network, &bob.member).await, ["hello"]);
    assert_eq!(poll(&network, &ann.member).await, ["from bob"]);

    // At once, it is one too.
    let race = |_| send(&network, &ann.member, draft("2", "bob", "raced"));
    let replies = futures::future::join_all((0..8).map(race)).await;
    assert_eq!(replies.iter().filter(|reply| reply.as_ref().is_ok_and(|reply| !reply.repeated)).count(), 1);
    assert_eq!(poll(&network, &bob.member).await, ["raced"]);
}

#[tokio::test]
async fn what_was_answered_survives_and_agents_go_on_without_registering() {
    let ground = Ground::new();
    let network = ground.network().await;
    let (ann, bob) = (join(&network, "ann").await, join(&network, "bob").await);
    for n in 0..50 {
        send(&network, &ann.member, draft(&format!("{n}"), "bob", &n.to_string())).await.expect("sent");
    }
    let mut inbox = network.inbox(&bob.member, None).expect("an inbox");
    let some = inbox.next(20, Duration::ZERO).await.expect("received");
    assert!(some.events.len() == 20 && some.more);
    inbox.acknowledge(some.cursor);
    drop(inbox);
    // As after a crash: nothing is closed in order, but for the cursor that had its quarter of a second.
    network.close().await;
    drop(network);

    let network = ground.network().await;
    let bob = network.authenticate(&id("bob"), &bob.secret).expect("the secret is still good");
    let ann = network.authenticate(&id("ann"), &ann.secret).expect("the secret is still good");
    let rest: Vec<String> = (20..50).map(|n: i32| n.to_string()).collect();
    assert_eq!(poll(&network, &bob).await, rest);
    assert!(send(&network, &ann, draft("7", "bob", "7")).await.expect("answered").repeated);
    send(&network, &ann, draft("new", "channel:general", "new")).await.expect("sent");
    assert_eq!(poll(&network, &bob).await, ["new"]);
}

#[tokio::test]
async fn a_poll_that_is_held_is_answered_by_what_comes_and_acknowledges_with_the_next() {
    let ground = Ground::new();
    let network = ground.network().await;
    let (ann, bob) = (join(&network, "ann").await, join(&network, "bob").await);
    let (waiting, own) = (network.clone(), bob.member.clone());
    let held = tokio::spawn(async move { waiting.poll(&own, 10, Duration::from_secs(20)).await });
    tokio::task::yield_now().await;
    send(&network, &ann.member, draft("1", "bob", "at last")).await.expect("sent");
    let received = held.await.expect("no panic").expect("received");
    assert_eq!(received.events.iter().map(|event| text_of(event)).collect::<Vec<_>>(), ["at last"]);
    // Not acknowledged: whoever comes with the place it has stored sees it again.
    let mut inbox = network.inbox(&bob.member, None).expect("an inbox");
    assert_eq!(inbox.next(10, Duration::ZERO).await.expect("received").events.len(), 1);
    assert_eq!(poll(&network, &bob.member).await, Vec::<String>::new());
    let mut inbox = network.inbox(&bob.member, None).expect("an inbox");
    assert_eq!(inbox.next(10, Duration::ZERO).await.expect("received").events.len(), 0);
}

#[tokio::test]
async fn there_is_an_honest_answer_for_receivers_that_do_not_exist_and_for_full_queues() {
    let ground = Ground::new();
    let network = ground
        .open(
            {
                let mut some = settings();
                some.queue_max = 3;
                some
            },
            Vec::new(),
        )
        .await;
    let (ann, bob) = (join(&network, "ann").await, join(&network, "bob").await);
    for to in ["nobody", "channel:nowhere", "group:none", "mod:none", "", "system"] {
        let refusal = send(&network, &ann.member, draft("x", to, "")).await.expect_err(to);
        assert_eq!(refusal.kind, RefusalKind::Missing, "{to}: {refusal}");
    }
    for n in 0..3 {
        send(&network, &ann.member, draft(&n.to_string(), "bob", "")).await.expect("sent");
    }
    let refusal = send(&network, &ann.member, draft("3", "bob", "")).await.expect_err("the queue is full");
    assert!(refusal.kind == RefusalKind::TooMany && refusal.retry_after_ms.is_some(), "{refusal:?}");
    // What has been acknowledged leaves room.
    assert_eq!(poll(&network, &bob.member).await.len(), 3);
    assert_eq!(poll(&network, &bob.member).await.len(), 0);
    send(&network, &ann.member, draft("3", "bob", "")).await.expect("there is room again");
}

#[tokio::test]
async fn subscriptions_and_restricted_events_narrow_what_is_received() {
    let ground = Ground::new();
    let network = ground.network().await;
    let (ann, bob, eve) = (join(&network, "ann").await, join(&network, "bob").await, join(&network, "eve").await);
    let wants = serde_json::json!({"event_patterns": ["task.*"]}).as_object().cloned().expect("an object");
    let subscribe = named("s", "system.subscribe_events", "system:system", wants);
    let reply = send(&network, &bob.member, subscribe.clone()).await.expect("subscribed");
    let again = send(&network, &bob.member, subscribe).await.expect("answered again");
    assert_eq!(reply.data, again.data);
    let mut secret = draft("1", "all", "only for bob and eve");
    secret.visibility = Visibility::Restricted;
    secret.allowed_agents = Some(vec![id("eve"), id("bob")]);
    send(&network, &ann.member, secret).await.expect("sent");
    send(&network, &ann.member, named("2", "task.done", "all", says("done"))).await.expect("sent");
    let mut other = draft("3", "all", "only for ann");
    (other.visibility, other.allowed_agents) = (Visibility::Restricted, Some(vec![id("ann")]));
    send(&network, &bob.member, other).await.expect("sent");
    assert_eq!(poll(&network, &bob.member).await, ["done"]);
    assert_eq!(poll(&network, &eve.member).await, ["only for bob and eve", "done"]);
    assert_eq!(poll(&network, &ann.member).await, ["only for ann"]);
}

#[tokio::test]
async fn who_joins_a_channel_hears_what_is_said_from_then_on() {
    let ground = Ground::new();
    let network = ground.network().await;
    let ann = join(&network, "ann").await;
    send(&network, &ann.member, draft("1", "channel:general", "before")).await.expect("sent");
    let bob = join(&network, "bob").await;
    send(&network, &ann.member, draft("2", "channel:general", "after")).await.expect("sent");
    assert_eq!(poll(&network, &bob.member).await, ["after"]);
    let leave = named(
        "3",
        "system.remove_channel_member",
        "",
        serde_json::json!({"channel_id": "general"}).as_object().cloned().expect("an object"),
    );
    send(&network, &bob.member, leave).await.expect("left");
    send(&network, &ann.member, draft("4", "channel:general", "without bob")).await.expect("sent");
    assert_eq!(poll(&network, &bob.member).await, Vec::<String>::new());
    let refusal =
        send(&network, &bob.member, draft("5", "channel:general", "from outside")).await.expect_err("no member");
    assert_eq!(refusal.kind, RefusalKind::Forbidden);
}

#[tokio::test]
async fn rows_give_what_the_tail_gives() {
    let ground = Ground::new();
    let network = ground.network().await;
    let (ann, bob) = (join(&network, "ann").await, join(&network, "bob").await);
    let routes = ["bob", "channel:general", "all", "group:guest"];
    for n in 0..120 {
        send(&network, &ann.member, draft(&n.to_string(), routes[n % 4], &n.to_string())).await.expect("sent");
    }
    let mut from_tail = Vec::new();
    let mut inbox = network.inbox(&bob.member, None).expect("an inbox");
    loop {
        let some = inbox.next(7, Duration::ZERO).await.expect("received");
        from_tail.extend(some.events.iter().map(|event| (**event).clone()));
        if some.events.is_empty() {
            break;
        }
    }
    drop(inbox);
    network.close().await;
    drop(network);
    let network = ground.network().await;
    let bob = network.authenticate(&id("bob"), &bob.secret).expect("the secret is still good");
    let mut from_rows = Vec::new();
    let mut inbox = network.inbox(&bob, None).expect("an inbox");
    loop {
        let some = inbox.next(7, Duration::ZERO).await.expect("received");
        from_rows.extend(some.events.iter().map(|event| (**event).clone()));
        if some.events.is_empty() {
            break;
        }
    }
    assert_eq!(from_tail.len(), 120);
    assert_eq!(from_tail, from_rows);
}

#[tokio::test]
async fn a_second_poll_ends_the_first_and_gets_what_comes() {
    let ground = Ground::new();
    let network = ground.network().await;
    let (ann, bob) = (join(&network, "ann").await, join(&network, "bob").await);
    let held = |wait| {
        let (waiting, own) = (network.clone(), bob.member.clone());
        tokio::spawn(async move { waiting.poll(&own, 10, Duration::from_secs(wait)).await.expect("a poll") })
    };
    let first = held(20);
    tokio::task::yield_now().await;
    let second = held(20);
    assert!(first.await.expect("no panic").events.is_empty());
    send(&network, &ann.member, draft("1", "bob", "for the second")).await.expect("sent");
    assert_eq!(second.await.expect("no panic").events.len(), 1);
}

//! Channels by gossip: once in the log, once to everybody, and to nobody else.

use std::time::Duration;

use longhaul_libp2p::{Heard, Peer};
use longhaul_network::{Address, Draft, RefusalKind};
use serde_json::{Value, json};

use crate::support::{draft, gossip, hear, join, received, refused, serve};

/// A post for a topic.
fn post(id: &str, n: u64) -> Draft {
    let payload = json!({"n": n});
    let mut post = draft(id, "thread.channel_message.post", "system:system", payload);
    post.to = Address::System;
    post
}

/// Publishes as soon as the node is known to take part.
async fn publish(peer: &Peer, topic: &str, post: Draft) {
    let give_up = tokio::time::Instant::now() + crate::support::LONG;
    while let Err(error) = peer.publish(topic, post.clone()).await {
        assert!(tokio::time::Instant::now() < give_up, "{error}");
        tokio::task::yield_now().await;
    }
}

/// Numbers of the posts that `ear` gets, up to this one.
async fn numbers_until(served: &crate::support::Served, last: u64) -> Vec<Value> {
    let (mut inbox, mut numbers) = (served.inbox(), Vec::new());
    while numbers.last() != Some(&json!(last)) {
        let events = received(&mut inbox).await.events;
        numbers.extend(events.iter().filter_map(|event| event.payload.get("n").cloned()));
    }
    numbers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gossiped_post_is_in_the_log_once_and_reaches_everybody() {
    let served = serve().await;
    let (alice, topic) = served.in_general("alice").await;
    let (bob, same) = served.in_general("bob").await;
    assert_eq!(topic, same);
    assert!(!topic.contains("general"));
    publish(&alice, &topic, post("p0", 0)).await;
    let heard = gossip(&bob).await;
    assert_eq!((heard["source_id"].as_str(), heard["payload"]["n"].as_u64()), (Some("alice"), Some(0)));
    assert_eq!(heard["destination_id"], "channel:general");
    // The same event in another message, as somebody would play it again, and then another event.
    publish(&alice, &topic, post("p0", 0)).await;
    publish(&alice, &topic, post("p1", 1)).await;
    assert_eq!(gossip(&bob).await["payload"]["n"], 1);
    assert_eq!(numbers_until(&served, 1).await, [json!(0), json!(1)]);
    // The author hears its own post as everybody does, from the node.
    match hear(&alice).await {
        Heard::Gossip { author, frame, .. } => {
            assert_eq!(author, Some(served.node.peer_id()));
            assert_eq!(frame["event"]["source_id"], "alice");
        }
        Heard::Event { .. } => panic!("alice receives nothing on her stream"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_said_elsewhere_is_gossiped_in_order() {
    let served = serve().await;
    let (bob, _) = served.in_general("bob").await;
    bob.receive(None).await.unwrap();
    // Both ways to the same event.
    served.say("first", json!({"n": 0})).await;
    let (mut pushed, mut gossiped) = (None, None);
    while pushed.is_none() || gossiped.is_none() {
        match hear(&bob).await {
            Heard::Event { event, .. } if event["payload"]["n"] == 0 => pushed = Some(event),
            Heard::Gossip { frame, .. } => gossiped = Some(frame["event"].clone()),
            Heard::Event { .. } => {}
        }
    }
    assert_eq!(pushed, gossiped);
    for n in 1..50 {
        served.say(&format!("s{n}"), json!({"n": n})).await;
    }
    for n in 1..50 {
        assert_eq!(gossip(&bob).await["payload"]["n"], n);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_not_in_the_channel_hears_nothing() {
    let served = serve().await;
    let (alice, topic) = served.in_general("alice").await;
    let (mallory, _) = served.peer("mallory").await;
    assert_eq!(refused(mallory.gossip("general").await), RefusalKind::Missing);
    let stranger = Peer::connect(served.address(false), None).await.unwrap();
    for peer in [&mallory, &stranger] {
        peer.subscribe(&topic).await.unwrap();
    }
    // Answered behind the subscriptions on the same connection, though not on the same stream.
    assert_eq!(refused(mallory.gossip("general").await), RefusalKind::Missing);
    for n in 0..20 {
        served.say(&format!("s{n}"), json!({"n": n})).await;
    }
    for n in 0..20 {
        assert_eq!(gossip(&alice).await["payload"]["n"], n);
    }
    for peer in [&mallory, &stranger] {
        assert!(tokio::time::timeout(Duration::from_millis(300), peer.next()).await.is_err(), "it heard something");
    }
    // Once it is in, what it subscribed to long ago comes.
    join(&mallory, "mallory").await;
    mallory.gossip("general").await.unwrap();
    served.say("now", json!({"n": 99})).await;
    assert_eq!(gossip(&mallory).await["payload"]["n"], 99);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_posts_as_somebody_else() {
    let served = serve().await;
    let (alice, topic) = served.in_general("alice").await;
    let (mallory, _) = served.in_general("mallory").await;
    let (outside, _) = served.peer("outside").await;
    let stranger = Peer::connect(served.address(false), None).await.unwrap();
    for peer in [&outside, &stranger] {
        peer.subscribe(&topic).await.unwrap();
    }
    // As itself, mallory may; to another place than the channel, nobody may by gossip.
    let mut elsewhere = post("elsewhere", 1);
    elsewhere.to = Address::parse(Some("agent:ear")).unwrap();
    publish(&mallory, &topic, elsewhere).await;
    let mut group = post("group", 2);
    group.to = Address::Everybody;
    publish(&mallory, &topic, group).await;
    publish(&outside, &topic, post("outside", 3)).await;
    publish(&stranger, &topic, post("stranger", 4)).await;
    publish(&mallory, &topic, post("fine", 5)).await;
    // Each connection is in order; another one's last word comes after its first ones.
    for peer in [&outside, &mallory] {
        let _ = peer.send(draft("sync", "agent.message", "agent:ear", json!({}))).await;
    }
    publish(&alice, &topic, post("last", 6)).await;
    assert_eq!(numbers_until(&served, 6).await.last(), Some(&json!(6)));
    let all: Vec<Value> = numbers_until_again(&served).await;
    assert!(!all.contains(&json!(1)) && !all.contains(&json!(2)), "{all:?}");
    assert!(!all.contains(&json!(3)) && !all.contains(&json!(4)), "{all:?}");
}

/// All posts there are, from the beginning.
async fn numbers_until_again(served: &crate::support::Served) -> Vec<Value> {
    let mut inbox = served.network.inbox(&served.ear, Some(0)).unwrap();
    let events = inbox.next(1_000, crate::support::LONG).await.unwrap().events;
    events.iter().filter_map(|event| event.payload.get("n").cloned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_leaves_the_channel_hears_nothing_more() {
    let served = serve().await;
    let (alice, _) = served.in_general("alice").await;
    served.say("before", json!({"n": 0})).await;
    assert_eq!(gossip(&alice).await["payload"]["n"], 0);
    let payload = json!({"channel_id": "general", "agent_id": "alice"});
    let left = alice.send(draft("leaves", "system.remove_channel_member", "system:system", payload)).await.unwrap();
    assert!(left.success, "{left:?}");
    served.say("after", json!({"n": 1})).await;
    // Its subscription cannot be taken back, so its connection is.
    while let Some(heard) = tokio::time::timeout(crate::support::LONG, alice.next()).await.unwrap() {
        match heard {
            Heard::Gossip { frame, .. } => assert_ne!(frame["event"]["payload"]["n"], 1),
            Heard::Event { .. } => {}
        }
    }
}

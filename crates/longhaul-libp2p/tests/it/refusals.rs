//! What is refused: strangers, false names, stolen secrets, too much of everything.

use longhaul_libp2p::{Keypair, Peer};
use longhaul_network::{RefusalKind, settings::GroupSettings};
use serde_json::json;

use crate::{
    raw::Wire,
    support::{draft, refused, serve, serve_with},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_can_only_come_in() {
    let served = serve().await;
    let peer = Peer::connect(served.address(false), None).await.unwrap();
    let sent = peer.send(draft("x", "agent.message", "agent:ear", json!({}))).await;
    assert_eq!(refused(sent), RefusalKind::Unauthenticated);
    assert_eq!(refused(peer.receive(None).await), RefusalKind::Unauthenticated);
    assert_eq!(refused(peer.gossip("general").await), RefusalKind::Unauthenticated);
    assert_eq!(refused(peer.hello("ear", &"a".repeat(64)).await), RefusalKind::Unauthenticated);
    assert_eq!(refused(peer.register("not a name!", None, None).await), RefusalKind::Invalid);
    // That was the fifth attempt on this stream.
    assert!(tokio::time::timeout(crate::support::LONG, peer.next()).await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_takes_a_name_that_is_held() {
    let served = serve().await;
    let (owner, secret) = served.peer("alice").await;
    let thief = Peer::connect(served.address(false), None).await.unwrap();
    assert_eq!(refused(thief.register("alice", None, None).await), RefusalKind::Conflict);
    assert_eq!(refused(thief.register("ear", None, Some(&secret)).await), RefusalKind::Conflict);
    owner.send(draft("x", "agent.message", "agent:ear", json!({}))).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_speaks_for_one_agent() {
    let served = serve().await;
    let wire = Wire::to(served.address(false));
    let mut stream = wire.open().await;
    let registered = stream.ask(&json!({"type": "register", "request_id": "1", "agent_id": "mallory"})).await;
    assert_eq!(registered["type"], "registered");
    for source in ["ear", "agent:ear", "mod:rooms", "system:system", "mallory2"] {
        let event = json!({
            "event_id": source, "event_name": "agent.message", "source_id": source, "source_agent_group": "admin",
            "destination_id": "ear", "payload": {},
        });
        let answer = stream.ask(&json!({"type": "send", "request_id": source, "event": event})).await;
        assert_eq!((&answer["code"], &answer["request_id"]), (&json!("forbidden"), &json!(source)));
    }
    let other = stream.ask(&json!({"type": "register", "request_id": "2", "agent_id": "second"})).await;
    assert_eq!(other["code"], "invalid");
    let nonsense = stream.ask(&json!({"type": "become_admin"})).await;
    assert_eq!(nonsense["code"], "invalid");
    stream.say_bytes(b"{\"type\":").await;
    assert_eq!(stream.hear().await.unwrap()["code"], "invalid");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_large_frames_end_their_stream_and_nothing_else() {
    let served = serve_with(|network| network.message_bytes_max = 10_000, |_| {}).await;
    let wire = Wire::to(served.address(false));
    let mut stranger = wire.open().await;
    // Announced, and not even sent.
    stranger.write(&[0xff, 0xff, 0x7f]).await;
    assert_eq!(stranger.hear().await, None);
    let mut stream = wire.open().await;
    stream.ask(&json!({"type": "register", "agent_id": "large"})).await;
    let event = json!({
        "event_id": "1", "event_name": "agent.message", "destination_id": "ear", "payload": {"text": "x".repeat(20_000)},
    });
    let answer = stream.ask(&json!({"type": "send", "request_id": "1", "event": event})).await;
    assert_eq!(answer["code"], "too_large");
    stream.say_bytes(&vec![b' '; 200_000]).await;
    assert_eq!(stream.hear().await, None);
    let mut next = wire.open().await;
    assert_eq!(next.ask(&json!({"type": "register", "agent_id": "after"})).await["type"], "registered");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_and_connections_are_counted() {
    let served = serve_with(
        |_| {},
        |node| {
            node.streams_per_peer_max = 2;
            node.connections_max = 2;
        },
    )
    .await;
    let wire = Wire::to(served.address(false));
    let (mut first, mut second) = (wire.open().await, wire.open().await);
    for (stream, name) in [(&mut first, "one"), (&mut second, "two")] {
        assert_eq!(stream.ask(&json!({"type": "register", "agent_id": name})).await["type"], "registered");
    }
    let mut third = wire.open().await;
    third.say(&json!({"type": "register", "agent_id": "three"})).await;
    assert_eq!(third.hear().await, None);
    let _peer = served.peer("another").await;
    assert!(Peer::connect(served.address(false), None).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guessing_is_slowed_down() {
    let served = serve_with(|_| {}, |node| node.failures_burst = 3).await;
    let peer = Peer::connect(served.address(false), None).await.unwrap();
    for _ in 0..3 {
        assert_eq!(refused(peer.hello("ear", &"b".repeat(64)).await), RefusalKind::Unauthenticated);
    }
    let other = Peer::connect(served.address(false), None).await.unwrap();
    assert_eq!(refused(other.hello("ear", &"c".repeat(64)).await), RefusalKind::TooMany);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_strict_network_an_agent_speaks_from_its_peer_only() {
    let served = serve_with(|network| network.strict = true, |_| {}).await;
    let key = Keypair::generate_ed25519();
    let home = Peer::connect(served.address(false), Some(key.clone())).await.unwrap();
    let secret = home.register("alice", None, None).await.unwrap();
    // Whoever has stolen the secret has not stolen the key.
    let thief = Peer::connect(served.address(false), None).await.unwrap();
    assert_eq!(refused(thief.hello("alice", &secret).await), RefusalKind::Forbidden);
    assert_eq!(refused(thief.register("alice", None, Some(&secret)).await), RefusalKind::Forbidden);
    drop(home);
    let back = Peer::connect(served.address(false), Some(key)).await.unwrap();
    back.hello("alice", &secret).await.unwrap();
    assert!(back.send(draft("x", "agent.message", "agent:ear", json!({}))).await.unwrap().success);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replaced_secret_ends_the_old_stream() {
    let (kept, credential) = longhaul_network::of_password("crew's word", &longhaul_core::Ambient::system());
    let group = GroupSettings { credential: Some(kept), ..GroupSettings::default() };
    let served = serve_with(|network| drop(network.groups.insert("crew".to_owned(), group)), |_| {}).await;
    let old = Peer::connect(served.address(false), None).await.unwrap();
    let secret = old.register("alice", Some(("crew", &credential)), None).await.unwrap();
    old.receive(None).await.unwrap();
    // Who lost the secret comes back with the group's credential, and gets a new one.
    let new = Peer::connect(served.address(false), None).await.unwrap();
    let newer = new.register("alice", Some(("crew", &credential)), None).await.unwrap();
    assert_ne!(newer, secret);
    let late = old.send(draft("late", "agent.message", "agent:ear", json!({}))).await;
    assert!(late.is_err(), "{late:?}");
    new.send(draft("x", "agent.message", "agent:ear", json!({}))).await.unwrap();
}

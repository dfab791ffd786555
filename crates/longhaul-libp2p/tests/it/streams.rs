//! The event stream: in, out, back again.

use std::time::Duration;

use longhaul_libp2p::Peer;
use longhaul_network::RefusalKind;
use serde_json::json;

use crate::support::{draft, event, hear, received, refused, serve, serve_with};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_go_both_ways_over_tcp_and_over_quic() {
    let served = serve().await;
    let mut inbox = served.inbox();
    for quic in [false, true] {
        let agent = if quic { "over-quic" } else { "over-tcp" };
        let peer = Peer::connect(served.address(quic), None).await.unwrap();
        let secret = peer.register(agent, None, None).await.unwrap();
        assert_eq!(secret.len(), 64);
        let reply = peer.send(draft("hello", "agent.message", "agent:ear", json!({"text": "안녕"}))).await.unwrap();
        assert!(reply.success && !reply.repeated, "{reply:?}");
        let events = loop {
            let mut events = received(&mut inbox).await.events;
            events.retain(|event| event.name.as_str() == "agent.message");
            if !events.is_empty() {
                break events;
            }
        };
        assert_eq!(events[0].from.to_string(), agent);
        assert_eq!(events[0].payload["text"], "안녕");
        let view = served.network.agent(&agent.parse().unwrap()).unwrap();
        assert_eq!(view.via.as_str(), "libp2p");
        assert_eq!(view.metadata["libp2p_peer"], peer.peer_id().to_string());

        peer.receive(None).await.unwrap();
        let back = draft(&format!("back-{agent}"), "agent.message", agent, json!({"text": "hej"}));
        assert!(served.network.send(&served.ear, back).await.unwrap().success);
        let (_, heard) = event(&peer).await;
        assert_eq!((heard["source_id"].as_str(), heard["payload"]["text"].as_str()), (Some("ear"), Some("hej")));
        assert_eq!(heard["secret"], json!(null));
    }
    served.node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_event_is_answered_the_same_and_not_done_again() {
    let served = serve().await;
    let (peer, secret) = served.peer("alice").await;
    let mut inbox = served.inbox();
    let once = || draft("once", "agent.message", "agent:ear", json!({"n": 1}));
    assert!(!peer.send(once()).await.unwrap().repeated);
    assert!(peer.send(once()).await.unwrap().repeated);
    drop(peer);
    // Also on another connection, which is what a client does that never got its answer.
    let again = Peer::connect(served.address(false), None).await.unwrap();
    again.hello("alice", &secret).await.unwrap();
    let reply = again.send(once()).await.unwrap();
    assert!(reply.success && reply.repeated);
    let other = again.send(draft("once", "agent.message", "agent:ear", json!({"n": 2}))).await;
    assert_eq!(refused(other), RefusalKind::Conflict);
    again.send(draft("twice", "agent.message", "agent:ear", json!({"n": 3}))).await.unwrap();
    let mut numbers = Vec::new();
    while numbers.last() != Some(&json!(3)) {
        let events = received(&mut inbox).await.events;
        numbers.extend(events.iter().filter_map(|event| event.payload.get("n").cloned()));
    }
    assert_eq!(numbers, [json!(1), json!(3)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_comes_back_gets_what_was_not_acknowledged() {
    let served = serve().await;
    let (peer, secret) = served.peer("bob").await;
    peer.receive(None).await.unwrap();
    for n in 0..4 {
        let sent = draft(&format!("m{n}"), "agent.message", "bob", json!({"n": n}));
        served.network.send(&served.ear, sent).await.unwrap();
    }
    for n in 0..4 {
        let (seq, heard) = event(&peer).await;
        assert_eq!(heard["payload"]["n"], n);
        if n < 2 {
            peer.acknowledge(seq).await.unwrap();
        }
    }
    // Answered behind the acknowledgements, so they have arrived.
    peer.send(draft("sync", "agent.message", "agent:ear", json!({}))).await.unwrap();
    drop(peer);
    served.network.send(&served.ear, draft("m4", "agent.message", "bob", json!({"n": 4}))).await.unwrap();
    let back = Peer::connect(served.address(true), None).await.unwrap();
    back.hello("bob", &secret).await.unwrap();
    back.receive(None).await.unwrap();
    for n in 2..5 {
        assert_eq!(event(&back).await.1["payload"]["n"], n);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pushing_waits_for_whoever_acknowledges_nothing() {
    let served = serve_with(|_| {}, |node| node.unacknowledged_max = 3).await;
    let (peer, _) = served.peer("slow").await;
    peer.receive(None).await.unwrap();
    for n in 0..6 {
        let sent = draft(&format!("m{n}"), "agent.message", "slow", json!({"n": n}));
        served.network.send(&served.ear, sent).await.unwrap();
    }
    let mut last = 0;
    for n in 0..3 {
        let (seq, heard) = event(&peer).await;
        assert_eq!(heard["payload"]["n"], n);
        last = seq;
    }
    assert!(tokio::time::timeout(Duration::from_millis(200), peer.next()).await.is_err(), "a fourth was pushed");
    peer.acknowledge(last).await.unwrap();
    for n in 3..6 {
        assert_eq!(event(&peer).await.1["payload"]["n"], n);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_the_node_stops_its_streams_end_and_its_key_stays() {
    let served = serve().await;
    let (peer, secret) = served.peer("carol").await;
    let id = served.node.peer_id();
    served.node.stop().await;
    assert!(tokio::time::timeout(crate::support::LONG, peer.next()).await.unwrap().is_none());
    let settings = longhaul_libp2p::Libp2pSettings::on_loopback(served.folder.path(), 0);
    let node = longhaul_libp2p::Libp2p::start(served.network.clone(), settings).await.unwrap();
    assert_eq!(node.peer_id(), id);
    let back = Peer::connect(&node.addresses()[0], None).await.unwrap();
    back.hello("carol", &secret).await.unwrap();
    back.receive(None).await.unwrap();
    served.network.send(&served.ear, draft("m", "agent.message", "carol", json!({}))).await.unwrap();
    hear(&back).await;
}

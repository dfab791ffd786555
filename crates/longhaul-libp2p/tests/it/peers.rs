//! Peers written with py-libp2p and js-libp2p: `tests/peers/join.py` and `join.mjs`.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    process::Command,
};

use crate::support::serve;

/// The long form gossips a thousand messages each way with each peer.
fn count() -> u64 {
    if std::env::var_os("LONGHAUL_TEST_LONG").is_some() { 1_000 } else { 100 }
}

/// With `LONGHAUL_TEST_LIBP2P` set to the folder in which `scripts/peers.sh libp2p` has put them, both join a network.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn peers_in_python_and_javascript_take_part() {
    let Some(folder) = std::env::var_os("LONGHAUL_TEST_LIBP2P").map(PathBuf::from) else {
        println!("not tried: `scripts/peers.sh libp2p` installs them, LONGHAUL_TEST_LIBP2P names their folder");
        return;
    };
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers");
    let mut python = Command::new(folder.join("bin/python"));
    python.arg(scripts.join("join.py"));
    take_part("peer-in-python", python, false).await;
    for quic in [false, true] {
        let script = std::fs::read_to_string(scripts.join("join.mjs")).unwrap();
        let mut node = Command::new(folder.join("node_modules/.bin/node"));
        node.current_dir(&folder).args(["--input-type=module", "-e", &script, "--"]);
        take_part(if quic { "peer-in-js-quic" } else { "peer-in-js" }, node, quic).await;
    }
}

async fn take_part(agent: &str, mut program: Command, quic: bool) {
    let (served, count) = (serve().await, count());
    let (address, number) = (served.address(quic).to_string(), count.to_string());
    program.args([address.as_str(), agent, number.as_str()]).kill_on_drop(true);
    let mut peer = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(peer.stdout.take().unwrap()).lines();
    let long = Duration::from_secs(if count > 100 { 300 } else { 60 });
    let began = std::time::Instant::now();
    let said: Value = tokio::time::timeout(long, async {
        let ready = lines.next_line().await.unwrap().expect("the peer ended before it was ready");
        assert_eq!(ready, r#"{"ready": true}"#.replace(' ', if ready.contains(' ') { " " } else { "" }));
        for n in 0..count {
            served.say(&format!("post-{n}"), json!({"number": n})).await;
        }
        let (mut inbox, mut numbers, mut direct) = (served.inbox(), Vec::new(), 0);
        while (numbers.len() as u64) < count || direct == 0 {
            let received = inbox.next(100, long).await.unwrap();
            inbox.acknowledge(received.cursor);
            for event in received.events {
                match event.name.as_str() {
                    "thread.channel_message.post" => numbers.push(event.payload["number"].as_u64().unwrap()),
                    "agent.message" => direct += 1,
                    _ => {}
                }
            }
        }
        assert_eq!(direct, 1);
        assert!(numbers.iter().copied().eq(0..count), "in another order, or not each once: {numbers:?}");
        peer.stdin.take().unwrap().write_all(b"all\n").await.unwrap();
        serde_json::from_str(&lines.next_line().await.unwrap().expect("the peer ended without a word")).unwrap()
    })
    .await
    .expect("the peer took too long");
    println!("{agent}: {count} posts each way in {:?}: {said}", began.elapsed());
    let agent_version = said["agent_version"].as_str().unwrap();
    assert!(agent_version.starts_with("longhaul/"), "{agent_version}");
    for word in ["speaks_events", "pinged", "pushed_in_order", "sent", "repeated", "left"] {
        assert_eq!(said[word], true, "{word}: {said}");
    }
    assert_eq!((&said["gossiped"], &said["gossip_twice"]), (&json!(count), &json!(0)), "{said}");
    assert_eq!((&said["pushed"], &said["spoof"]), (&json!(count), &json!("forbidden")), "{said}");
    assert!(served.network.agent(&agent.parse().unwrap()).is_none());
    served.node.stop().await;
}

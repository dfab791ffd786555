//! A process that serves a network is killed in the middle: nothing that it answered is lost, agents go on.

use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader},
    process::{Command, Stdio},
    time::Duration,
};

use longhaul_core::{Ambient, Scope};
use longhaul_network::Network;
use longhaul_store::{Store, StoreSettings};

use crate::ground::{draft, id, join, settings};

const DIR: &str = "LONGHAUL_TEST_NETWORK_DIR";

async fn open(dir: &str) -> Network {
    let store = Store::open(StoreSettings::new(dir), Ambient::system(), &[longhaul_network::MIGRATIONS]).await;
    Network::open(store.expect("the store opens"), Scope::single_user(), settings(), Vec::new()).await.expect("opens")
}

/// The process that is killed: sends as fast as it can, and says what was answered. Does nothing in an ordinary run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn served_until_killed() {
    let Ok(dir) = std::env::var(DIR) else { return };
    let network = open(&dir).await;
    let (ann, bob) = (join(&network, "ann").await, join(&network, "bob").await);
    println!("secret {}", bob.secret);
    let mut senders = tokio::task::JoinSet::new();
    for n in 0..4 {
        let (network, member) = (network.clone(), ann.member.clone());
        senders.spawn(async move {
            for m in 0.. {
                let to = if m % 2 == 0 { "bob" } else { "channel:general" };
                network.send(&member, draft(&format!("{n}-{m}"), to, &format!("{n}-{m}"))).await.expect("sent");
                println!("answered {n}-{m}");
            }
        });
    }
    senders.join_all().await;
}

#[tokio::test]
async fn killed_in_the_middle_nothing_answered_is_lost_and_agents_go_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().to_str().expect("a path").to_owned();
    let program = std::env::current_exe().expect("this program");
    let mut child = Command::new(program)
        .args(["--exact", "crash::served_until_killed", "--nocapture", "--test-threads", "1"])
        .env(DIR, &dir)
        .env_remove("LONGHAUL_TEST_STORE")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("a process");
    let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    let (mut secret, mut answered) = (String::new(), BTreeSet::new());
    while answered.len() < 300 {
        let line = lines.next().expect("it goes on").expect("a line");
        if let Some((_, said)) = line.split_once("secret ") {
            secret = said.to_owned();
        } else if let Some((_, event)) = line.split_once("answered ") {
            answered.insert(event.to_owned());
        }
    }
    child.kill().expect("killed");
    child.wait().expect("ended");
    // What it said before it heard of its end was answered too.
    for line in lines.map_while(Result::ok) {
        answered.extend(line.strip_prefix("answered ").map(str::to_owned));
    }

    let network = open(&dir).await;
    let bob = network.authenticate(&id("bob"), &secret).expect("it goes on without registering");
    let mut inbox = network.inbox(&bob, None).expect("an inbox");
    let (mut received, mut order) = (BTreeSet::new(), std::collections::HashMap::new());
    loop {
        let some = inbox.next(100, Duration::ZERO).await.expect("received");
        if some.events.is_empty() {
            break;
        }
        for event in &some.events {
            let (sender, n) = event.id.split_once('-').expect("n-m");
            let n: i64 = n.parse().expect("a number");
            let before = order.insert(sender.to_owned(), n);
            assert_eq!(before.map_or(0, |before| before + 1), n, "in the order of each sender, each once");
            received.insert(event.id.clone());
        }
    }
    let lost: Vec<_> = answered.difference(&received).collect();
    assert!(lost.is_empty(), "of {} answered, lost: {lost:?}", answered.len());
}

//! Mods: their order, their answers, their rows and events, in one transaction with the event.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use longhaul_network::settings::NetworkSettings;
use longhaul_network::{
    Address, Backstage, Event, Manifest, Mod, ModEvent, Outcome, Pattern, Prepared, Refusal, RefusalKind, Reply,
    Sender, Stage,
};
use longhaul_store::values;
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;

use crate::ground::{Ground, draft, id, join, named, poll, says, send, settings};

/// Turns posts into notices, counts them in a row of its own, refuses what says so.
#[derive(Debug, Default)]
struct Posts {
    observed: Arc<Mutex<Vec<String>>>,
}

fn answers(pattern: &str, reads_only: bool) -> ModEvent {
    ModEvent {
        pattern: Pattern::new(pattern),
        description: "for the test".to_owned(),
        payload: json!({"type": "object"}),
        reads_only,
        tool: None,
    }
}

#[async_trait::async_trait]
impl Mod for Posts {
    fn manifest(&self) -> Manifest {
        Manifest {
            name: "test.posts".to_owned(),
            aliases: vec!["posts".to_owned()],
            answers: vec![
                answers("post.make", false),
                answers("post.count", true),
                answers("post.count_wrongly", true),
            ],
            emits: vec![("post.made".to_owned(), "somebody has posted".to_owned())],
            observes: vec![Pattern::new("post.*")],
            ..Manifest::default()
        }
    }

    async fn prepare(&self, _backstage: &Backstage, event: &Event) -> Result<Prepared, Refusal> {
        Ok(Prepared::with(event.payload.len()))
    }

    fn apply(&self, stage: &mut Stage<'_, '_>, event: &Event, prepared: Prepared) -> Result<Outcome, Refusal> {
        let tenant = stage.place().0.tenant.clone();
        let count = "SELECT count(*) FROM network_channels WHERE tenant_id = ?1 AND channel LIKE 'post-%'";
        if event.name.as_str() == "post.count" {
            let posts: i64 = stage.rows().query_one(count, &values![&tenant], |row| row.get(0))?;
            return Ok(Outcome::Answer(Reply::done("counted", Some(json!(posts)))));
        }
        let channel = format!("post-{}", event.id);
        stage.open_channel(&channel, "", &[id("ann"), id("bob")])?;
        if event.payload.contains_key("refuse") {
            return Err(Refusal::invalid("refused as asked"));
        }
        let mut payload: Map<String, Value> = event.payload.clone();
        payload.insert("prepared".to_owned(), json!(prepared.take::<usize>()));
        stage.publish("post.made", Address::Channel(channel), payload)?;
        stage.emit(Sender::Network, "post.noted", Address::Agent(id("eve")), says("noted"))?;
        Ok(Outcome::Answer(Reply::done("posted", None)))
    }

    async fn observe(&self, _backstage: &Backstage, event: &Arc<Event>) -> Result<(), Refusal> {
        self.observed.lock().expect("no panic").push(event.name.to_string());
        Ok(())
    }
}

#[tokio::test]
async fn a_mod_answers_writes_and_emits_in_the_events_transaction() {
    let ground = Ground::new();
    let posts = Posts::default();
    let observed = posts.observed.clone();
    let network = ground.open(settings(), vec![Arc::new(posts)]).await;
    let (ann, bob, eve) = (join(&network, "ann").await, join(&network, "bob").await, join(&network, "eve").await);
    let count = |n: &str| named(n, "post.count", "mod:posts", Map::new());

    let reply = send(&network, &ann.member, named("1", "post.make", "", says("hello"))).await.expect("posted");
    assert_eq!(reply.message, "posted");
    assert!(send(&network, &ann.member, named("1", "post.make", "", says("hello"))).await.expect("again").repeated);
    assert_eq!(poll(&network, &bob.member).await, ["hello"]);
    assert_eq!(poll(&network, &eve.member).await, ["noted"]);
    assert_eq!(poll(&network, &ann.member).await, Vec::<String>::new());

    // What it refuses leaves nothing behind, and may be sent anew.
    let refused = named("2", "post.make", "", json!({"refuse": true}).as_object().cloned().expect("an object"));
    assert_eq!(send(&network, &ann.member, refused).await.expect_err("refused").message, "refused as asked");
    assert_eq!(send(&network, &ann.member, count("c")).await.expect("counted").data, Some(json!(1)));
    assert!(network.channels().iter().all(|channel| channel.channel != "post-2"));

    // What only reads cannot write, and leaves no row.
    let head = network.view().head;
    let wrong = send(&network, &ann.member, named("3", "post.count_wrongly", "", Map::new())).await;
    assert_eq!(wrong.expect_err("it writes").kind, RefusalKind::Unavailable);
    send(&network, &ann.member, count("c")).await.expect("counted");
    assert_eq!(network.view().head, head);

    // Nobody says what only the mod says.
    let forged = named("4", "post.made", "bob", says("ann said so"));
    assert_eq!(send(&network, &eve.member, forged).await.expect_err("forged").kind, RefusalKind::Forbidden);
    let unknown = named("5", "post.unknown", "mod:test.posts", Map::new());
    assert_eq!(send(&network, &eve.member, unknown).await.expect_err("unknown").kind, RefusalKind::Missing);

    // The observer has seen what was committed, in order.
    let mut head = network.head();
    send(&network, &ann.member, draft("6", "bob", "the last")).await.expect("sent");
    while observed.lock().expect("no panic").len() < 2 {
        tokio::task::yield_now().await;
    }
    head.borrow_and_update();
    assert_eq!(*observed.lock().expect("no panic"), ["post.made", "post.noted"]);
}

/// Sees messages, one for each permit.
#[derive(Debug)]
struct Watcher {
    seen: Arc<Mutex<Vec<usize>>>,
    permits: Arc<Semaphore>,
}

#[async_trait::async_trait]
impl Mod for Watcher {
    fn manifest(&self) -> Manifest {
        let observes = vec![Pattern::new("agent.message")];
        Manifest { name: "test.watcher".to_owned(), observes, ..Manifest::default() }
    }

    fn apply(&self, _stage: &mut Stage<'_, '_>, _event: &Event, _prepared: Prepared) -> Result<Outcome, Refusal> {
        Ok(Outcome::Pass)
    }

    async fn observe(&self, _backstage: &Backstage, event: &Arc<Event>) -> Result<(), Refusal> {
        self.permits.acquire().await.expect("never closed").forget();
        self.seen.lock().expect("no panic").push(event.id.parse().expect("a number"));
        Ok(())
    }
}

#[tokio::test]
async fn an_observer_that_lags_behind_misses_nothing_also_over_a_restart() {
    const MESSAGES: usize = 600;
    let ground = Ground::new();
    let settings = || NetworkSettings { events_per_second: 1_000_000, events_burst: 1_000_000, ..settings() };
    let watcher = || {
        let (seen, permits) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Semaphore::new(0)));
        (Watcher { seen: seen.clone(), permits: permits.clone() }, seen, permits)
    };
    let until = async |seen: &Arc<Mutex<Vec<usize>>>, enough: &dyn Fn(&[usize]) -> bool| {
        let coming = async {
            while !enough(&seen.lock().expect("no panic")) {
                tokio::task::yield_now().await;
            }
        };
        let came = tokio::time::timeout(Duration::from_secs(30), coming).await;
        assert!(came.is_ok(), "it has seen only {:?}", seen.lock().expect("no panic"));
    };
    let (first, seen, permits) = watcher();
    let network = ground.open(settings(), vec![Arc::new(first)]).await;
    let (ann, _bob) = (join(&network, "ann").await, join(&network, "bob").await);
    for n in 0..MESSAGES {
        send(&network, &ann.member, draft(&n.to_string(), "bob", "hello")).await.expect("sent");
        let noise = named(&format!("noise-{n}"), "agent.noise", "bob", says("nothing for it"));
        send(&network, &ann.member, noise).await.expect("sent");
    }
    permits.add_permits(MESSAGES / 2);
    until(&seen, &|seen| seen.len() == MESSAGES / 2).await;
    assert_eq!(*seen.lock().expect("no panic"), (0..MESSAGES / 2).collect::<Vec<_>>());
    network.close().await;
    drop(network);

    // From the rows it goes on where it was noted to be, which is not behind what it has seen.
    let (second, seen, permits) = watcher();
    permits.add_permits(MESSAGES);
    let _network = ground.open(settings(), vec![Arc::new(second)]).await;
    until(&seen, &|seen| seen.last() == Some(&(MESSAGES - 1))).await;
    let again = seen.lock().expect("no panic").clone();
    assert!(again[0] <= MESSAGES / 2, "{} were skipped", again[0] - MESSAGES / 2);
    assert_eq!(again, (again[0]..MESSAGES).collect::<Vec<_>>());
}

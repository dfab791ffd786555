//! What a network does in this process, without a transport: events a second, delivery, memory, start.
//!
//! `cargo run --release -p longhaul-network --example network_figures [FOLDER]` prints one JSON object.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use longhaul_core::{Ambient, Scope};
use longhaul_network::{Address, Draft, Network, Registered, Registration, Via, settings::NetworkSettings};
use longhaul_store::{Store, StoreError, StoreSettings, values};
use serde_json::{Map, Value, json};

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn main() -> Outcome<()> {
    let folder = tempfile::tempdir()?;
    let place = std::env::args().nth(1).map_or_else(|| folder.path().to_owned(), PathBuf::from);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let found = runtime.block_on(measure(&place))?;
    println!("{found:#}");
    Ok(())
}

async fn measure(place: &Path) -> Outcome<Value> {
    let network = open(place).await?;
    let mut members = Vec::new();
    for n in 0..10 {
        members.push(join(&network, &format!("agent-{n}")).await?);
    }
    let direct = direct(&network, &members, 2_000).await?;
    let posts = posts(&network, &members, 1_000).await?;
    let delivery = delivery(&network, &members).await?;
    for n in 10..1_000 {
        members.push(join(&network, &format!("agent-{n}")).await?);
    }
    let with_agents = memory_mb();
    let bare = bare(network.store()).await?;
    network.close().await;
    drop(network);
    let begun = Instant::now();
    let network = open(place).await?;
    let start_ms = begun.elapsed().as_secs_f64() * 1000.0;
    let head = network.view().head;
    Ok(json!({
        "direct_per_second": direct, "bare_rows_per_second": bare, "channel_posts_per_second": posts,
        "delivery_ms": delivery, "memory_mb_1000_agents": with_agents, "start_ms": start_ms, "events": head,
    }))
}

async fn open(place: &Path) -> Outcome<Network> {
    let store = Store::open(StoreSettings::new(place), Ambient::system(), &[longhaul_network::MIGRATIONS]).await?;
    let mut settings = NetworkSettings::named("figures");
    settings.channels = vec![("general".to_owned(), String::new())];
    (settings.events_per_second, settings.events_burst) = (100_000, 100_000);
    settings.queue_max = 100_000;
    Ok(Network::open(store, Scope::single_user(), settings, Vec::new()).await?)
}

async fn join(network: &Network, name: &str) -> Outcome<Registered> {
    Ok(network.register(Registration::new(name.parse()?, Via::InProcess)).await?)
}

fn draft(id: String, to: &str) -> Outcome<Draft> {
    let content = json!({"content": {"text": "x".repeat(100)}});
    let payload: Map<String, Value> = content.as_object().cloned().unwrap_or_default();
    Ok(Draft::new(id, "agent.message".parse()?, Address::parse(Some(to))?, payload))
}

/// Ten senders, one event in flight each, to the next one.
async fn direct(network: &Network, members: &[Registered], each: usize) -> Outcome<f64> {
    let begun = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..10 {
        let (network, member, to) = (network.clone(), members[n].member.clone(), format!("agent-{}", (n + 1) % 10));
        tasks.spawn(async move {
            for m in 0..each {
                network.send(&member, draft(format!("d-{n}-{m}"), &to)?).await?;
            }
            Outcome::Ok(())
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(per_second(10 * each, begun))
}

/// Ten senders, ten members who receive everything.
async fn posts(network: &Network, members: &[Registered], each: usize) -> Outcome<f64> {
    let begun = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..10 {
        let (sender, member) = (network.clone(), members[n].member.clone());
        tasks.spawn(async move {
            for m in 0..each {
                sender.send(&member, draft(format!("c-{n}-{m}"), "channel:general")?).await?;
            }
            Outcome::Ok(())
        });
        let mut inbox = network.inbox(&members[n].member, Some(network.view().head))?;
        tasks.spawn(async move {
            let mut received = 0;
            while received < 9 * each {
                let some = inbox.next(100, Duration::from_secs(10)).await?;
                received += some.events.len();
                inbox.acknowledge(some.cursor);
            }
            Outcome::Ok(())
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(per_second(10 * each, begun))
}

/// From before it is sent until a waiting receiver has it.
async fn delivery(network: &Network, members: &[Registered]) -> Outcome<Value> {
    let (ann, bob) = (members[0].member.clone(), members[1].member.clone());
    let mut inbox = network.inbox(&bob, Some(network.view().head))?;
    let mut took = Vec::new();
    for n in 0..1_000 {
        let (sender, ann) = (network.clone(), ann.clone());
        let draft = draft(format!("l-{n}"), "agent-1")?;
        let waiting = tokio::spawn(async move {
            let received = inbox.next(1, Duration::from_secs(10)).await;
            (inbox, received, Instant::now())
        });
        tokio::task::yield_now().await;
        let begun = Instant::now();
        sender.send(&ann, draft).await?;
        let (back, received, at) = waiting.await?;
        inbox = back;
        inbox.acknowledge(received?.cursor);
        took.push(at.duration_since(begun).as_secs_f64() * 1000.0);
    }
    took.sort_by(f64::total_cmp);
    Ok(json!({"p50": took[500], "p99": took[990], "max": took[999]}))
}

/// The same rows, ten at a time, by nobody but the store.
async fn bare(store: &Store) -> Outcome<f64> {
    let begun = Instant::now();
    let payload = json!({"content": {"text": "x".repeat(100)}}).to_string();
    for group in 0..1_000_i64 {
        let payload = payload.clone();
        let writing = store.write(move |tx| {
            for n in 0..10 {
                let seq = group * 10 + n;
                tx.execute(
                    "INSERT INTO network_events (tenant_id, network_id, seq, v, event_id, origin_id, answered, name,
                         sender, route, at, payload) VALUES (?1, ?2, ?3, 1, ?4, ?4, 1, ?5, ?6, ?7, ?8, ?9)",
                    &values![
                        "tenant_default",
                        "bare",
                        seq,
                        format!("b-{seq}"),
                        "agent.message",
                        "a:x",
                        "a:y",
                        0_i64,
                        &payload
                    ],
                )?;
            }
            Ok::<_, StoreError>(())
        });
        writing.await?;
    }
    Ok(per_second(10_000, begun))
}

#[expect(clippy::cast_precision_loss, reason = "thousands of events")]
fn per_second(events: usize, begun: Instant) -> f64 {
    (events as f64 / begun.elapsed().as_secs_f64()).round()
}

#[expect(clippy::cast_precision_loss, reason = "megabytes")]
fn memory_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()).and_then(|text| text.parse::<u64>().ok());
    (kib.unwrap_or(0) as f64 / 102.4).round() / 10.0
}

//! What is measured, mode by mode.

use std::{
    io::Read as _,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    Failure, Flags,
    client::{Agent, fresh},
};

/// A receiver that has had nothing asks again after this; a server that holds its polls is asked less.
const EMPTY_PAUSE: Duration = Duration::from_millis(5);
/// Text of a message, bytes.
const TEXT: usize = 100;

fn text() -> Value {
    json!({ "text": "x".repeat(TEXT) })
}

fn post(channel: &str) -> Value {
    json!({ "message_type": "channel_message", "channel": channel, "content": text() })
}

/// Takes until it has this many of the name, or until told to stop.
async fn take(mut agent: Agent, name: &'static str, wanted: usize, over: Arc<AtomicBool>) -> Result<usize, Failure> {
    let mut had = 0;
    while had < wanted && !over.load(Ordering::Relaxed) {
        let came = agent.poll().await?;
        if came.is_empty() {
            tokio::time::sleep(EMPTY_PAUSE).await;
        }
        had += came.iter().filter(|event| event["event_name"] == name).count();
    }
    Ok(had)
}

/// Senders with one request in flight each, to as many receivers.
pub(crate) async fn direct(address: SocketAddr, flags: &Flags) -> Result<Value, Failure> {
    let (senders, events) = (flags.number("senders", 10)?, flags.number("events", 2_000)?);
    let over = Arc::new(AtomicBool::new(false));
    let (mut receiving, mut sending) = (Vec::new(), Vec::new());
    for _ in 0..senders {
        let receiver = Agent::join(address, "receiver").await?;
        let (to, mut sender) = (format!("agent:{}", receiver.name), Agent::join(address, "sender").await?);
        receiving.push(tokio::spawn(take(receiver, "agent.message", events, over.clone())));
        sending.push(async move {
            for _ in 0..events {
                sender.send(&fresh("event"), "agent.message", &to, json!({ "content": text() })).await?;
            }
            Ok::<_, Failure>(())
        });
    }
    let begun = Instant::now();
    for one in sending.into_iter().map(tokio::spawn).collect::<Vec<_>>() {
        one.await??;
    }
    let sent = begun.elapsed();
    let mut arrived = 0;
    for one in receiving {
        arrived += tokio::time::timeout(Duration::from_secs(30), one).await???;
    }
    over.store(true, Ordering::Relaxed);
    Ok(json!({
        "per_second": (senders * events) as f64 / sent.as_secs_f64(), "sent": senders * events, "arrived": arrived,
    }))
}

/// Senders post in one channel; it is over when every member has every post.
pub(crate) async fn channel(address: SocketAddr, flags: &Flags) -> Result<Value, Failure> {
    let (senders, members) = (flags.number("senders", 10)?, flags.number("members", 10)?);
    let events = flags.number("events", 500)?;
    let over = Arc::new(AtomicBool::new(false));
    let (mut receiving, mut sending) = (Vec::new(), Vec::new());
    for _ in 0..members {
        let name = "thread.channel_message.notification";
        let member = Agent::join(address, "member").await?;
        receiving.push(tokio::spawn(take(member, name, senders * events, over.clone())));
    }
    for _ in 0..senders {
        let mut sender = Agent::join(address, "sender").await?;
        sending.push(async move {
            for _ in 0..events {
                let name = "thread.channel_message.post";
                sender.send(&fresh("post"), name, "channel:general", post("general")).await?;
            }
            Ok::<_, Failure>(())
        });
    }
    let begun = Instant::now();
    for one in sending.into_iter().map(tokio::spawn).collect::<Vec<_>>() {
        one.await??;
    }
    let mut arrived = 0;
    for one in receiving {
        arrived += tokio::time::timeout(Duration::from_secs(60), one).await???;
    }
    over.store(true, Ordering::Relaxed);
    let took = begun.elapsed().as_secs_f64();
    Ok(
        json!({ "per_second": (senders * events) as f64 / took, "arrived": arrived, "wanted": senders * events * members }),
    )
}

/// Paced direct events: from just before the request to the receiver's having read it.
pub(crate) async fn latency(address: SocketAddr, flags: &Flags) -> Result<Value, Failure> {
    let (events, pause) = (flags.number("events", 500)?, flags.number("pause-ms", 5)?);
    let mut receiver = Agent::join(address, "receiver").await?;
    let mut sender = Agent::join(address, "sender").await?;
    let (to, started) = (format!("agent:{}", receiver.name), Instant::now());
    let receiving = tokio::spawn(async move {
        let mut took = Vec::new();
        while took.len() < events {
            let came = receiver.poll().await?;
            let now = started.elapsed().as_micros();
            if came.is_empty() {
                tokio::time::sleep(Duration::from_millis(pause as u64)).await;
            }
            let sent = came.iter().filter_map(|event| event["payload"]["sent_us"].as_u64());
            took.extend(sent.map(|sent| now.saturating_sub(u128::from(sent)) as f64 / 1_000.0));
        }
        Ok::<_, Failure>(took)
    });
    for number in 0..events {
        let sent_us = started.elapsed().as_micros() as u64;
        sender.send(&fresh("event"), "agent.message", &to, json!({ "content": text(), "sent_us": sent_us })).await?;
        // Not a rhythm that a timer of the server could fall into.
        tokio::time::sleep(Duration::from_micros(3_000 + (number as u64 * 7_919) % 8_000)).await;
    }
    let mut took = tokio::time::timeout(Duration::from_secs(30), receiving).await???;
    took.sort_by(f64::total_cmp);
    let at = |part: f64| took[((took.len() as f64 * part) as usize).min(took.len() - 1)];
    Ok(json!({ "p50_ms": at(0.5), "p99_ms": at(0.99), "max_ms": at(1.0), "events": took.len() }))
}

/// Agents that wait in a held poll, until the input ends.
pub(crate) async fn idle(address: SocketAddr, flags: &Flags) -> Result<Value, Failure> {
    let agents = flags.number("agents", 1_000)?;
    let waiting = Arc::new(AtomicUsize::new(0));
    let mut polling = Vec::new();
    for _ in 0..agents {
        let mut agent = Agent::join(address, "idle").await?;
        let waiting = waiting.clone();
        polling.push(tokio::spawn(async move {
            waiting.fetch_add(1, Ordering::Relaxed);
            while agent.poll().await.is_ok() {}
        }));
    }
    println!("{}", json!({ "waiting": waiting.load(Ordering::Relaxed), "joined": agents }));
    tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await??;
    polling.iter().for_each(tokio::task::JoinHandle::abort);
    Ok(json!({ "agents": agents }))
}

/// Fills the channel `archive`, then asks for its newest messages.
pub(crate) async fn fill(address: SocketAddr, flags: &Flags) -> Result<Value, Failure> {
    let (events, senders) = (flags.number("events", 1_000_000)?, flags.number("senders", 32)?);
    let mut sending = Vec::new();
    for _ in 0..senders {
        let mut sender = Agent::join(address, "writer").await?;
        sending.push(tokio::spawn(async move {
            for _ in 0..events / senders {
                let name = "thread.channel_message.post";
                sender.send(&fresh("post"), name, "channel:archive", post("archive")).await?;
            }
            Ok::<_, Failure>(())
        }));
    }
    for one in sending {
        one.await??;
    }
    let mut reader = Agent::join(address, "reader").await?;
    let mut took = Vec::new();
    let mut total = Value::Null;
    for _ in 0..50 {
        let begun = Instant::now();
        let question = json!({ "action": "retrieve_channel_messages", "channel": "archive", "limit": 50, "offset": 0 });
        let answer = reader.send(&fresh("list"), "thread.channel_messages.retrieve", "", question).await?;
        took.push(begun.elapsed().as_secs_f64() * 1_000.0);
        total = answer["data"]["total_count"].clone();
    }
    took.sort_by(f64::total_cmp);
    Ok(json!({ "list_ms": took[took.len() / 2], "list_max_ms": took[took.len() - 1], "stored": total }))
}

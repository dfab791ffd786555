//! Load until the server dies, and what of the answered events arrives afterwards.

use std::{collections::BTreeSet, fs, net::SocketAddr, time::Duration};

use serde_json::{Value, json};

use crate::{
    Failure, Flags,
    client::{Agent, fresh},
};

/// Nothing more comes when so many polls in a row brought nothing.
const EMPTY_POLLS: usize = 3;

/// Sends direct events and channel posts until the server no longer answers; writes down what it has answered.
pub(crate) async fn acked(address: SocketAddr, flags: &Flags) -> Result<Value, Failure> {
    let receiver = Agent::join(address, "receiver").await?;
    let (mut sending, to) = (Vec::new(), format!("agent:{}", receiver.name));
    for number in 0..flags.number("senders", 4)? {
        let mut sender = Agent::join(address, "sender").await?;
        let to = to.clone();
        sending.push(tokio::spawn(async move {
            let (mut answered, secret) = (Vec::new(), (sender.name.clone(), sender.secret.clone()));
            loop {
                let id = fresh("kept");
                let sent = if number % 2 == 0 {
                    sender.send(&id, "agent.message", &to, json!({ "kept": id })).await
                } else {
                    let payload = json!({ "channel": "general", "content": { "text": "kept" }, "kept": id });
                    sender.send(&id, "thread.channel_message.post", "channel:general", payload).await
                };
                match sent {
                    Ok(_) => answered.push(id),
                    Err(_) => return (answered, secret),
                }
            }
        }));
    }
    println!("{}", json!({ "sending": true }));
    let (mut answered, mut senders) = (Vec::new(), Vec::new());
    for one in sending {
        let (ids, secret) = one.await?;
        answered.extend(ids);
        senders.push(secret);
    }
    let noted = json!({ "receiver": [receiver.name, receiver.secret], "senders": senders, "answered": answered });
    fs::write(flags.text("file")?, noted.to_string())?;
    Ok(json!({ "answered": answered.len() }))
}

/// What never arrives; and whether the agents of before can go on with the secrets of before.
pub(crate) async fn missed(address: SocketAddr, flags: &Flags) -> Result<Value, Failure> {
    let noted: Value = serde_json::from_slice(&fs::read(flags.text("file")?)?)?;
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut wanted: BTreeSet<String> = noted["answered"].as_array().into_iter().flatten().map(|id| word(id)).collect();
    let answered = wanted.len();
    let mut receiver = Agent::with(address, word(&noted["receiver"][0]), word(&noted["receiver"][1])).await?;
    let mut empty = 0;
    let mut seen = 0;
    while empty < EMPTY_POLLS && !wanted.is_empty() {
        let came = tokio::time::timeout(Duration::from_secs(3), receiver.poll()).await;
        // A poll that is held has nothing.
        let Ok(came) = came else { break };
        let came = came?;
        empty = if came.is_empty() { empty + 1 } else { 0 };
        for event in came {
            seen += 1;
            let payload = &event["payload"];
            for id in [&payload["kept"], &payload["original_event_id"], &event["event_id"]] {
                wanted.remove(id.as_str().unwrap_or_default());
            }
        }
    }
    let mut going_on = 0;
    for sender in noted["senders"].as_array().into_iter().flatten() {
        let mut sender = Agent::with(address, word(&sender[0]), word(&sender[1])).await?;
        let to = format!("agent:{}", word(&noted["receiver"][0]));
        going_on += usize::from(sender.send(&fresh("after"), "agent.message", &to, json!({})).await.is_ok());
    }
    let senders = noted["senders"].as_array().map_or(0, Vec::len);
    Ok(json!({ "answered": answered, "lost": wanted.len(), "seen": seen, "going_on": going_on, "senders": senders }))
}

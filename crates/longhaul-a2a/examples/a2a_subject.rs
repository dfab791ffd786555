//! A network with one agent that does what the compatibility kit of A2A asks for (its `scenarios/*.feature`): the
//! beginning of a message's id says what is to become of its task.
//!
//! `a2a_subject HTTP_PORT GRPC_PORT [full|bare|extension] [1.0.0|1.0.1] [TOKEN]`: everything is offered, or nothing that
//! is optional, or an extension is required; errors follow the table of that release; with a token only those are let in
//! who show it. Everything else is as in any network: the agent has its events from its inbox and says what becomes of
//! its tasks with events.

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use longhaul_a2a::{A2a, A2aSettings, MOD, Statuses, Tasks};
use longhaul_core::{Ambient, Scope};
use longhaul_network::{Address, Draft, Event, Member, Network, Registration, Sender, Via, settings::NetworkSettings};
use longhaul_store::{Store, StoreSettings};
use serde_json::{Map, Value, json};
use tokio::net::TcpListener;

const AGENT: &str = "subject";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let port = |at: usize| args.get(at).and_then(|text| text.parse::<u16>().ok()).context("HTTP_PORT GRPC_PORT");
    let (http, grpc) = (port(0)?, port(1)?);
    let mut settings = settings(args.get(2).map_or("full", String::as_str))?;
    settings.grpc_port = Some(grpc);
    settings.statuses = match args.get(3).map(String::as_str) {
        None | Some("1.0.1") => Statuses::V1_0_1,
        Some("1.0.0") => Statuses::V1_0_0,
        Some(other) => anyhow::bail!("{other}: write 1.0.0 or 1.0.1"),
    };

    if let Some(token) = args.get(4) {
        (settings.token, settings.anybody) = (Some(token.clone()), false);
    }

    let folder = tempfile::tempdir()?;
    let migrations = [longhaul_network::MIGRATIONS, longhaul_a2a::MIGRATIONS];
    let store = Store::open(StoreSettings::new(folder.path()), Ambient::system(), &migrations).await?;
    let network =
        Network::open(store, Scope::single_user(), NetworkSettings::named("a2a-subject"), vec![Arc::new(Tasks::new())])
            .await?;
    let mut agent = Registration::new(AGENT.parse()?, Via::InProcess);
    agent.capabilities = vec!["testing".to_owned()];
    agent.metadata = object(json!({ "name": "Subject", "description": "Does what the compatibility kit asks for" }));
    let agent = network.register(agent).await?.member;
    tokio::spawn(work(network.clone(), agent));

    let a2a = A2a::new(network, settings);
    let (routes, listener) = (a2a.grpc(), TcpListener::bind(("127.0.0.1", http)).await?);
    let grpc = tonic::transport::Server::builder().add_routes(routes).serve(([127, 0, 0, 1], grpc).into());
    println!("ready at http://{}", listener.local_addr()?);
    tokio::select! {
        served = axum::serve(listener, a2a.http()) => served?,
        served = grpc => served?,
    }
    Ok(())
}

fn settings(profile: &str) -> anyhow::Result<A2aSettings> {
    let open = A2aSettings {
        coordinator: Some(AGENT.parse()?),
        anybody: true,
        push_to_this_machine: true,
        ..A2aSettings::default()
    };
    Ok(match profile {
        "full" => open,
        "bare" => A2aSettings { streaming: false, push: false, extended_card: false, ..open },
        "extension" => A2aSettings { required_extensions: vec!["urn:a2a:tck:required-extension".to_owned()], ..open },
        other => anyhow::bail!("{other}: write full, bare or extension"),
    })
}

fn object(value: Value) -> Map<String, Value> {
    if let Value::Object(map) = value { map } else { Map::new() }
}

/// The agent: every message is worked on beside the others.
async fn work(network: Network, agent: Member) -> anyhow::Result<()> {
    let mut inbox = network.inbox(&agent, None)?;
    loop {
        let received = inbox.next(100, Duration::from_secs(20)).await?;
        for event in &received.events {
            let (network, agent, event) = (network.clone(), agent.clone(), event.clone());
            tokio::spawn(async move { answer(&network, &agent, &event).await });
        }
        if !received.events.is_empty() {
            inbox.acknowledge(received.cursor);
        }
    }
}

/// What is to become of a task: artifacts and states, one event each.
fn script(message: &str) -> Vec<Value> {
    let working = || json!({ "state": "working" });
    let completed = || json!({ "state": "completed" });
    let text = |text: &str| json!({ "artifact": { "parts": [{ "text": text }] }, "last_chunk": true });
    let part = |part: Value| json!({ "artifact": { "parts": [part] }, "last_chunk": true });
    let file = || part(json!({ "raw": "dGNr", "filename": "output.txt", "mediaType": "text/plain" }));
    let chunk = |text: &str, last: bool| {
        json!({
            "artifact": { "artifactId": "chunked", "parts": [{ "text": text }] }, "append": true, "last_chunk": last,
        })
    };
    let table: [(&str, Vec<Value>); 16] = [
        ("tck-stream-artifact-chunked", vec![working(), chunk("chunk-1 ", false), chunk("chunk-2", true), completed()]),
        ("tck-stream-artifact-text", vec![working(), text("Streamed text content"), completed()]),
        ("tck-stream-artifact-file", vec![working(), file(), completed()]),
        ("tck-stream-ordering-001", vec![working(), text("Ordered output"), completed()]),
        ("tck-stream-001", vec![working(), text("Stream hello from TCK"), completed()]),
        ("tck-stream-002", vec![completed()]),
        ("tck-stream-003", vec![working(), text("Stream task lifecycle"), completed()]),
        (
            "tck-artifact-file-url",
            vec![
                part(
                    json!({ "url": "https://example.com/output.txt", "filename": "output.txt", "mediaType": "text/plain" }),
                ),
                completed(),
            ],
        ),
        ("tck-artifact-text", vec![text("Generated text content"), completed()]),
        ("tck-artifact-file", vec![file(), completed()]),
        ("tck-artifact-data", vec![part(json!({ "data": { "key": "value", "count": 42 } })), completed()]),
        ("tck-message-response", vec![json!({ "direct": true, "text": "Direct message response" })]),
        ("tck-input-required", vec![json!({ "state": "input_required" })]),
        ("tck-reject-task", vec![json!({ "state": "rejected", "text": "rejected" })]),
        ("tck-complete-task", vec![json!({ "state": "completed", "text": "Hello from TCK" })]),
        ("test-resubscribe-message-id", vec![working(), json!({ "pause": true }), completed()]),
    ];
    let found = table.into_iter().find(|(prefix, _)| message.starts_with(prefix));
    found.map_or_else(
        || vec![json!({ "state": "completed", "text": format!("no scenario for {message}") })],
        |(_, steps)| steps,
    )
}

async fn answer(network: &Network, agent: &Member, event: &Event) {
    let Some(told) = event.payload.get("a2a").filter(|_| matches!(event.from, Sender::Agent(_))) else { return };
    let message = told["message_id"].as_str().unwrap_or_default();
    for (at, step) in script(message).into_iter().enumerate() {
        if step["pause"] == true {
            // Twice as long as the kit waits for a stream.
            tokio::time::sleep(Duration::from_secs(4)).await;
            continue;
        }
        let mut payload = object(step);
        payload.insert("task_id".to_owned(), told["task_id"].clone());
        let name = "a2a.task.update".parse();
        let Ok(name) = name else { return };
        let draft = Draft::new(format!("{}-{at}", event.id), name, Address::Mod(MOD.to_owned()), payload);
        if let Err(refusal) = network.send(agent, draft).await {
            eprintln!("{message}: {refusal}");
        }
    }
}

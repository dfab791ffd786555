//! What happened to others, tried over every transport: taking a name, acting for another, sending away, listening in.

use longhaul_core::{Scope, TenantId, UserId};
use longhaul_libp2p::{Peer, PeerError};
use longhaul_network::{Network, RefusalKind, Registration, Via, settings::NetworkSettings};
use serde_json::{Value, json};

use crate::town::{Answer, SESAME, Said, Socket, Town, next_of};

/// Somebody who has come in once, and speaks over every transport.
struct Everywhere<'t> {
    town: &'t Town,
    agent: &'static str,
    secret: String,
    socket: Socket,
    peer: Peer,
}

impl<'t> Everywhere<'t> {
    async fn join(town: &'t Town, agent: &'static str) -> Self {
        let secret = town.join(agent).await;
        let socket = Socket::hello(town, agent, &secret).await;
        let peer = Peer::connect(&town.node.addresses()[0], None).await.unwrap();
        peer.hello(agent, &secret).await.unwrap();
        Self { town, agent, secret, socket, peer }
    }

    /// The event under another id over each transport; what each answered.
    async fn send(&mut self, event: &Said) -> Vec<(&'static str, Answer)> {
        let named = |over: &str| Said { id: format!("{}-{over}", event.id), ..event.clone() };
        vec![
            ("http", self.town.send_http(self.agent, &self.secret, &named("http")).await),
            ("grpc", self.town.send_grpc(self.agent, &self.secret, &named("grpc")).await),
            ("websocket", self.socket.send(None, &named("ws")).await),
            ("libp2p", of_peer(self.peer.send(named("p2p").draft()).await)),
        ]
    }
}

fn of_peer(sent: Result<longhaul_network::Reply, PeerError>) -> Answer {
    match sent {
        Ok(reply) => Answer { success: reply.success, data: reply.data.unwrap_or_default() },
        Err(PeerError::Refused(_)) => Answer { success: false, data: Value::Null },
        Err(error) => panic!("{error}"),
    }
}

fn refusal<T: std::fmt::Debug>(result: Result<T, PeerError>) -> RefusalKind {
    match result {
        Err(PeerError::Refused(refusal)) => refusal.kind,
        other => panic!("it was not refused: {other:?}"),
    }
}

/// A register frame or body for this name, with nothing to show.
fn bare(agent: &str) -> Value {
    json!({"agent_id": agent, "metadata": {}, "password_hash": ""})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_takes_a_name_that_is_held() {
    let town = Town::open().await;
    let (victim, mallory) = (town.join("victim").await, town.join("mallory").await);
    // With nothing, with another's secret, and with the word that makes the reference give it away.
    for body in [
        bare("victim"),
        json!({"agent_id": "victim", "secret": mallory}),
        json!({"agent_id": "victim", "force_reconnect": true}),
    ] {
        let told = town.post("/api/register", &body).await;
        assert!(told["secret"].is_null() && told["success"] != true, "{told}");
    }
    let request = longhaul_transports::grpc::proto::RegisterAgentRequest {
        agent_id: "victim".to_owned(),
        force_reconnect: true,
        ..Default::default()
    };
    // Refused with an answer or with a status, and without a secret in both.
    if let Ok(told) = town.grpc_client().await.register_agent(request).await {
        let told = told.into_inner();
        assert!(!told.success && told.secret.is_empty(), "{told:?}");
    }
    let mut socket = Socket::open(&town).await;
    let told = socket.ask(&json!({"type": "register", "agent_id": "victim", "metadata": {}})).await;
    assert!(told.is_none_or(|told| told["secret"].is_null() && told["type"] != "welcome"));
    let peer = Peer::connect(&town.node.addresses()[0], None).await.unwrap();
    assert_eq!(refusal(peer.register("victim", None, None).await), RefusalKind::Conflict);
    assert_eq!(refusal(peer.hello("victim", &mallory).await), RefusalKind::Unauthenticated);
    let said = town.a2a(&format!("victim:{mallory}"), "mallory", "ListTasks", json!({})).await;
    assert_eq!(said["status"], 401, "{said}");
    // The owner goes on as if nothing had been.
    let hello = Said::new("hello", "agent.message", "agent:mallory", json!({"text": "still me"}));
    assert!(town.send_http("victim", &victim, &hello).await.success);
    town.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_acts_for_another_or_reads_for_another() {
    let town = Town::open().await;
    let (victim, receiver) = (town.join("victim").await, town.join("receiver").await);
    let mut mallory = Everywhere::join(&town, "mallory").await;
    let forged =
        |over: &str| Said::new(&format!("forged-{over}"), "agent.message", "agent:receiver", json!({"text": "forged"}));
    let secret = mallory.secret.clone();
    for source in ["victim", "agent:victim", "mod:openagents.mods.workspace.messaging", "system:system"] {
        assert!(!town.send_http(source, &secret, &forged("http")).await.success, "{source}");
        assert!(!town.send_grpc(source, &secret, &forged("grpc")).await.success, "{source}");
        assert!(!mallory.socket.send(Some(source), &forged("ws")).await.success, "{source}");
    }
    // Without any secret at all.
    assert!(!town.send_http("victim", "", &forged("none")).await.success);
    assert!(!town.send_grpc("victim", "", &forged("none")).await.success);
    // What is for others is read with their secret only.
    let private = Said::new("private", "agent.message", "agent:receiver", json!({"text": "between us"}));
    assert!(town.send_http("victim", &victim, &private).await.success);
    assert_eq!(town.poll("receiver", &secret).await["messages"], json!([]));
    let polled = town.poll_grpc("receiver", &secret).await;
    assert!(!polled.success && !polled.data.to_string().contains("between us"), "{polled:?}");
    let mut socket = Socket::open(&town).await;
    let told = socket.ask(&json!({"type": "hello", "agent_id": "receiver", "secret": secret})).await;
    assert!(told.is_none_or(|told| told["type"] != "welcome"));
    // And what a member asks of the network for somebody else.
    for command in ["system.poll_messages", "system.unregister_agent", "system.subscribe_events"] {
        let asked = Said::new(
            command,
            command_name(command),
            "system:system",
            json!({"agent_id": "receiver", "event_patterns": ["*"]}),
        );
        for (over, answer) in mallory.send(&asked).await {
            assert!(!answer.success, "{command} over {over}: {answer:?}");
        }
    }
    let mut texts = Vec::new();
    while texts.is_empty() {
        let polled = town.poll("receiver", &receiver).await;
        let all = polled["messages"].as_array().unwrap().clone();
        texts.extend(all.into_iter().filter(|event| event["event_name"] == "agent.message"));
    }
    assert_eq!((texts.len(), &texts[0]["source_id"]), (1, &json!("victim")), "{texts:?}");
    town.close().await;
}

fn command_name(command: &str) -> &'static str {
    match command {
        "system.poll_messages" => "system.poll_messages",
        "system.unregister_agent" => "system.unregister_agent",
        _ => "system.subscribe_events",
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_who_may_sends_others_away() {
    let town = Town::open().await;
    let victim = town.join("victim").await;
    let mut mallory = Everywhere::join(&town, "mallory").await;
    let kick = Said::new("kick", "system.kick_agent", "system:system", json!({"target_agent_id": "victim"}));
    for (over, answer) in mallory.send(&kick).await {
        assert!(!answer.success, "{over}: {answer:?}");
    }
    // Saying to be of another group changes nothing, and a group is not had without its credential.
    let claimed = json!({
        "event_id": "claimed", "event_name": "system.kick_agent", "source_id": "mallory", "source_agent_group": "admin",
        "target_agent_id": "system:system", "payload": {"target_agent_id": "victim"}, "secret": mallory.secret,
    });
    assert_eq!(town.post("/api/send_event", &claimed).await["success"], false);
    let told =
        town.post("/api/register", &json!({"agent_id": "boss", "agent_group": "admin", "password_hash": ""})).await;
    assert!(told["secret"].is_null(), "{told}");
    let peer = Peer::connect(&town.node.addresses()[0], None).await.unwrap();
    assert_eq!(refusal(peer.register("boss", Some(("admin", "")), None).await), RefusalKind::Forbidden);
    let still = Said::new("still", "agent.message", "agent:mallory", json!({}));
    assert!(town.send_http("victim", &victim, &still).await.success);
    // Who has the right has it, and then nothing of the victim's works over anything.
    let boss = town.join_as_admin("boss").await;
    assert!(town.send_http("boss", &boss, &kick).await.success);
    let late = Said::new("late", "agent.message", "agent:mallory", json!({}));
    assert!(!town.send_http("victim", &victim, &late).await.success);
    assert!(!town.send_grpc("victim", &victim, &late).await.success);
    let peer = Peer::connect(&town.node.addresses()[0], None).await.unwrap();
    assert_eq!(refusal(peer.hello("victim", &victim).await), RefusalKind::Unauthenticated);
    assert_eq!(town.a2a(&format!("victim:{victim}"), "mallory", "ListTasks", json!({})).await["status"], 401);
    town.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_answer_holds_a_secret() {
    let town = Town::open().await;
    let victim = town.join("victim").await;
    let boss = town.join_as_admin("boss").await;
    let mut mallory = Everywhere::join(&town, "mallory").await;
    let secrets = [victim.as_str(), boss.as_str(), SESAME];
    let mut shown = vec![
        ("health", town.get("/api/health").await),
        ("card", town.get("/.well-known/agent-card.json").await),
        ("metrics", town.get("/metrics").await),
        ("openapi", town.get("/openapi.json").await),
    ];
    for name in [
        "system.list_agents",
        "system.get_network_info",
        "system.list_channels",
        "system.list_mods",
        "system.health_check",
    ] {
        let asked = Said::new(name, name, "system:system", json!({"agent_id": "mallory"}));
        for (over, answer) in mallory.send(&asked).await {
            shown.push((over, answer.data));
        }
    }
    for name in ["thread.channel_messages.retrieve", "thread.direct_messages.retrieve", "thread.conversations.list"] {
        let asked = Said::new(
            name,
            name,
            "mod:openagents.mods.workspace.messaging",
            json!({"channel": "general", "target_agent_id": "victim"}),
        );
        for (over, answer) in mallory.send(&asked).await {
            shown.push((over, answer.data));
        }
    }
    for (place, value) in &shown {
        let text = value.to_string();
        for secret in secrets {
            assert!(!text.contains(secret), "{place} shows a secret");
        }
    }
    assert!(shown.iter().any(|(_, value)| value.to_string().contains("victim")), "nothing was asked for");
    town.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn direct_messages_are_for_the_two_they_are_between() {
    let town = Town::open().await;
    let alice = town.join("alice").await;
    town.join("bob").await;
    let mut mallory = Everywhere::join(&town, "mallory").await;
    mallory.peer.receive(None).await.unwrap();
    let payload = json!({"target_agent_id": "bob", "content": {"text": "the word is heron"}});
    let said = Said::new("said", "thread.direct_message.send", "agent:bob", payload);
    assert!(town.send_http("alice", &alice, &said).await.success);
    for name in ["thread.direct_messages.retrieve", "thread.conversations.list", "thread.channel_messages.retrieve"] {
        for with in ["alice", "bob"] {
            let payload = json!({"target_agent_id": with, "channel": "general", "agent_id": "bob"});
            let asked = Said::new(&format!("{name}-{with}"), name, "mod:openagents.mods.workspace.messaging", payload);
            for (over, answer) in mallory.send(&asked).await {
                assert!(!answer.data.to_string().contains("heron"), "{name} over {over}");
            }
        }
    }
    // What comes to mallory afterwards comes without anything before it.
    let open = Said::new("open", "agent.message", "agent:mallory", json!({"text": "for all to see"}));
    assert!(town.send_http("alice", &alice, &open).await.success);
    let heard = next_of(&mallory.peer, |event| {
        assert!(!event.to_string().contains("heron"), "{event}");
        event["event_name"] == "agent.message"
    });
    assert_eq!(heard.await["payload"]["text"], "for all to see");
    let polled = town.poll("mallory", &mallory.secret).await;
    assert!(!polled.to_string().contains("heron"));
    town.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_large_is_refused_over_every_transport_and_the_next_event_is_taken() {
    let town = Town::with(|settings| settings.message_bytes_max = 20_000).await;
    town.join("bob").await;
    let mut alice = Everywhere::join(&town, "alice").await;
    let large = Said::new("large", "agent.message", "agent:bob", json!({"text": "x".repeat(30_000)}));
    for (over, answer) in alice.send(&large).await {
        assert!(!answer.success, "{over}");
    }
    let small = Said::new("small", "agent.message", "agent:bob", json!({"text": "x"}));
    for (over, answer) in alice.send(&small).await {
        assert!(answer.success, "{over}: {answer:?}");
    }
    town.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_strict_network_gives_no_name_back_without_its_secret() {
    let town = Town::with(|settings| {
        settings.strict = true;
        settings.lease = std::time::Duration::from_millis(1);
    })
    .await;
    let victim = town.join("victim").await;
    // The lease has ended, and a credential is no secret.
    let told = town
        .post("/api/register", &json!({"agent_id": "victim", "password_hash": SESAME, "agent_group": "admin"}))
        .await;
    assert!(told["secret"].is_null(), "{told}");
    assert!(town.post("/api/register", &bare("victim")).await["secret"].is_null());
    let back = town.post("/api/register", &json!({"agent_id": "victim", "secret": victim})).await;
    assert!(back["secret"].is_string(), "{back}");
    town.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tenants_of_one_store_hear_nothing_of_each_other() {
    let town = Town::open().await;
    let alice = town.join("alice").await;
    let other = Scope { tenant: TenantId::from_body("other"), user: UserId::from_body("other") };
    let mut settings = NetworkSettings::named("town");
    settings.channels = vec![("general".to_owned(), String::new())];
    let network = Network::open(town.network.store().clone(), other, settings, Vec::new()).await.unwrap();
    let bob = network.register(Registration::new("bob".parse().unwrap(), Via::InProcess)).await.unwrap();
    // The same network id, the same channel, and another tenant: alice is nobody there, and bob nobody here.
    assert!(network.authenticate(&"alice".parse().unwrap(), &alice).is_err());
    assert!(town.network.authenticate(&"bob".parse().unwrap(), &bob.secret).is_err());
    assert!(network.agent(&"alice".parse().unwrap()).is_none());
    let post = Said::new(
        "post",
        "thread.channel_message.post",
        "channel:general",
        json!({"channel": "general", "content": {"text": "ours"}}),
    );
    assert!(town.send_http("alice", &alice, &post).await.success);
    let direct = Said::new("direct", "agent.message", "agent:bob", json!({}));
    assert!(!town.send_http("alice", &alice, &direct).await.success, "there is no bob here");
    let mut inbox = network.inbox(&bob.member, Some(0)).unwrap();
    let received = inbox.next(100, std::time::Duration::from_millis(100)).await.unwrap();
    assert!(received.events.iter().all(|event| event.from.to_string() != "alice"), "{received:?}");
    network.close().await;
    town.close().await;
}

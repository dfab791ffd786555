//! The gRPC port as a client of another make finds it: events there and back, streams, refusals, bounds.

use std::{net::SocketAddr, time::Duration};

use longhaul_core::{Ambient, Scope};
use longhaul_network::{Network, settings::NetworkSettings};
use longhaul_store::{Store, StoreSettings};
use longhaul_transports::{
    Extra, Limits, Serving, ServingSettings,
    grpc::proto::{self, agent_service_client::AgentServiceClient},
};
use prost::Message as _;
use prost_types::{Any, Struct, Value as ProtoValue, value::Kind};
use serde_json::Value;
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::mpsc,
};
use tonic::{Code, Request, Streaming, transport::Channel};

type Client = AgentServiceClient<Channel>;

/// A network that is served over gRPC.
struct Port {
    serving: Serving,
    network: Network,
    at: SocketAddr,
    _folder: TempDir,
}

impl Port {
    async fn open(limits: Limits) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let settings = StoreSettings::new(folder.path());
        let store = Store::open(settings, Ambient::system(), &[longhaul_network::MIGRATIONS]).await.unwrap();
        let mut settings = NetworkSettings::named("grpc-net");
        settings.message_bytes_max = 64 * 1024;
        let network = Network::open(store, Scope::single_user(), settings, Vec::new()).await.unwrap();
        let settings = ServingSettings { limits, http: None, ..ServingSettings::anywhere() };
        let serving = Serving::start_with(network.clone(), settings, Extra::default()).await.unwrap();
        let at = serving.grpc().unwrap();
        Self { serving, network, at, _folder: folder }
    }

    async fn client(&self) -> Client {
        let channel = Channel::from_shared(format!("http://{}", self.at)).unwrap().connect().await.unwrap();
        AgentServiceClient::new(channel)
    }

    async fn close(self) {
        self.serving.stop().await;
        self.network.close().await;
    }
}

/// Limits under which nobody waits long.
fn limits() -> Limits {
    Limits {
        poll_wait: Duration::from_millis(300),
        header_max: Duration::from_millis(300),
        shutdown_max: Duration::from_millis(500),
        ..Limits::default()
    }
}

fn packed(text: &str) -> Any {
    let value = ProtoValue { kind: Some(Kind::StringValue(text.to_owned())) };
    let fields = Struct { fields: [("text".to_owned(), value)].into() };
    Any { type_url: "type.googleapis.com/google.protobuf.Struct".to_owned(), value: fields.encode_to_vec() }
}

fn text(event: &proto::Event) -> String {
    let fields = Struct::decode(event.payload.as_ref().unwrap().value.as_slice()).unwrap().fields;
    match &fields["text"].kind {
        Some(Kind::StringValue(text)) => text.clone(),
        other => panic!("{other:?}"),
    }
}

/// Somebody who has come in.
struct Agent {
    client: Client,
    id: &'static str,
    secret: String,
}

impl Agent {
    async fn join(port: &Port, id: &'static str) -> Self {
        let mut client = port.client().await;
        let request = proto::RegisterAgentRequest { agent_id: id.to_owned(), ..Default::default() };
        let told = client.register_agent(request).await.unwrap().into_inner();
        assert!(told.success, "{told:?}");
        assert_eq!((told.network_id.as_str(), told.assigned_group.as_str()), ("grpc-net", "guest"));
        Self { client, id, secret: told.secret }
    }

    fn says(&self, id: &str, to: &str, text: &str) -> proto::Event {
        proto::Event {
            event_id: id.to_owned(),
            event_name: "agent.message".to_owned(),
            source_id: self.id.to_owned(),
            target_agent_id: to.to_owned(),
            payload: Some(packed(text)),
            secret: self.secret.clone(),
            ..Default::default()
        }
    }

    async fn send(&mut self, event: proto::Event) -> proto::EventResponse {
        self.client.send_event(event).await.unwrap().into_inner()
    }

    async fn polled(&mut self) -> Vec<String> {
        let event =
            proto::Event { event_name: "system.poll_messages".to_owned(), ..self.says("p", "system:system", "") };
        let event = proto::Event { payload: None, ..event };
        let data = self.send(event).await.data.unwrap();
        assert_eq!(data.type_url, "type.googleapis.com/openagents.EventResponseData");
        let data: Value = serde_json::from_slice(&data.value).unwrap();
        assert_eq!(data["command"], "poll_messages");
        data["messages"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["payload"]["text"].as_str().unwrap().to_owned())
            .collect()
    }

    fn authorized<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        let value = format!("Bearer {}:{}", self.id, self.secret).parse().unwrap();
        request.metadata_mut().insert("authorization", value);
        request
    }

    /// A stream, by the call's authorization, and what is sent in it.
    async fn stream(&mut self, after: Option<i64>) -> (mpsc::Sender<proto::Event>, Streaming<proto::Event>) {
        let (out, events) = mpsc::channel(8);
        let events = futures::stream::unfold(events, |mut events| async { events.recv().await.map(|e| (e, events)) });
        let mut request = self.authorized(events);
        if let Some(after) = after {
            request.metadata_mut().insert("resume-after", after.to_string().parse().unwrap());
        }
        (out, self.client.stream_events(request).await.unwrap().into_inner())
    }
}

async fn next(stream: &mut Streaming<proto::Event>) -> proto::Event {
    tokio::time::timeout(Duration::from_secs(5), stream.message()).await.unwrap().unwrap().unwrap()
}

#[tokio::test]
async fn what_the_contract_has_no_name_for_is_refused_in_its_own_words() {
    let port = Port::open(limits()).await;
    let (mut alice, mut bob) = (Agent::join(&port, "alice").await, Agent::join(&port, "bob").await);
    let secret = alice.secret.clone();
    let event = || alice.says("e", "bob", "x");
    for (event, refusal) in [
        (proto::Event { secret: "x".repeat(64), ..event() }, "unauthenticated"),
        (proto::Event { secret: String::new(), ..event() }, "unauthenticated"),
        (proto::Event { source_id: "bob".to_owned(), secret, ..event() }, "unauthenticated"),
        (proto::Event { event_name: "Loud".to_owned(), ..event() }, "invalid"),
        (proto::Event { event_id: String::new(), ..event() }, "invalid"),
        (proto::Event { visibility: "secret".to_owned(), ..event() }, "invalid"),
        (proto::Event { payload: Some(packed(&"x".repeat(70_000))), ..event() }, "too_large"),
    ] {
        let told = bob.client.send_event(event).await.unwrap().into_inner();
        assert_eq!((told.success, told.refusal.as_str()), (false, refusal), "{told:?}");
    }
    let mut forged = bob.authorized(proto::Event { secret: String::new(), ..alice.says("f", "bob", "x") });
    forged.metadata_mut().insert("x-agent", "alice".parse().unwrap());
    assert_eq!(bob.client.send_event(forged).await.unwrap().into_inner().refusal, "forbidden");
    let huge = alice.says("h", "bob", &"x".repeat(2_000_000));
    assert!(matches!(
        alice.client.send_event(huge).await.unwrap_err().code(),
        Code::OutOfRange | Code::ResourceExhausted
    ));
    let kicked = proto::UnregisterAgentRequest { agent_id: "bob".to_owned(), secret: alice.secret.clone() };
    assert!(!alice.client.unregister_agent(kicked).await.unwrap().into_inner().success);
    let taken = proto::RegisterAgentRequest { agent_id: "bob".into(), force_reconnect: true, ..Default::default() };
    let told = alice.client.register_agent(taken).await.unwrap().into_inner();
    assert_eq!((told.success, told.secret.as_str()), (false, ""), "{told:?}");
    assert_eq!(bob.polled().await, Vec::<String>::new(), "nothing of it arrived");
    port.close().await;
}

#[tokio::test]
async fn events_are_pushed_answered_and_come_again_until_they_are_acknowledged() {
    let port = Port::open(limits()).await;
    let (mut alice, mut bob) = (Agent::join(&port, "alice").await, Agent::join(&port, "bob").await);
    let first = alice.says("1", "agent:bob", "before the stream");
    assert!(alice.send(first).await.success);
    let (out, mut told) = bob.stream(None).await;
    let one = next(&mut told).await;
    assert_eq!((text(&one).as_str(), one.source_id.as_str(), one.secret.as_str()), ("before the stream", "alice", ""));
    let second = alice.says("2", "bob", "while it is open");
    assert!(alice.send(second).await.success);
    let two = next(&mut told).await;
    assert!(text(&two) == "while it is open" && two.seq > one.seq);
    out.send(bob.says("3", "alice", "back")).await.unwrap();
    let reply = next(&mut told).await;
    assert_eq!((reply.event_name.as_str(), reply.response_to.as_str()), ("system.stream_reply", "3"));
    assert_eq!(alice.polled().await, ["back"]);
    let cursor = ProtoValue { kind: Some(Kind::NumberValue(one.seq as f64)) };
    let cursor = Struct { fields: [("cursor".to_owned(), cursor)].into() };
    let cursor = Any { type_url: "type.googleapis.com/google.protobuf.Struct".into(), value: cursor.encode_to_vec() };
    let ack = proto::Event { event_name: "system.stream_ack".into(), payload: Some(cursor), ..Default::default() };
    out.send(ack).await.unwrap();
    drop(out);
    assert!(told.message().await.unwrap().is_none(), "it ends with the client's half");
    let (_out, mut told) = bob.stream(None).await;
    assert_eq!(next(&mut told).await.seq, two.seq, "what was not acknowledged");
    let (_out, mut told) = bob.stream(Some(two.seq)).await;
    let third = alice.says("4", "bob", "later");
    assert!(alice.send(third).await.success);
    assert_eq!(text(&next(&mut told).await), "later");
    port.close().await;
}

#[tokio::test]
async fn a_stream_is_its_members_alone() {
    let port = Port::open(limits()).await;
    let (mut alice, bob) = (Agent::join(&port, "alice").await, Agent::join(&port, "bob").await);
    let (out, mut told) = alice.stream(None).await;
    out.send(proto::Event { source_id: "bob".to_owned(), secret: String::new(), ..bob.says("1", "alice", "x") })
        .await
        .unwrap();
    let reply = next(&mut told).await;
    let fields = Struct::decode(reply.payload.unwrap().value.as_slice()).unwrap().fields;
    assert_eq!(fields["refusal"].kind, Some(Kind::StringValue("forbidden".to_owned())));
    let wrong = proto::Event { secret: "x".repeat(64), ..alice.says("1", "bob", "x") };
    let request = futures::stream::iter([wrong]);
    let mut told = alice.client.stream_events(request).await.unwrap().into_inner();
    assert_eq!(told.message().await.unwrap_err().code(), Code::Unauthenticated);
    let gone = proto::UnregisterAgentRequest { agent_id: "alice".to_owned(), secret: alice.secret.clone() };
    let (_out, mut told) = alice.stream(None).await;
    assert!(alice.client.unregister_agent(gone).await.unwrap().into_inner().success);
    let ended = tokio::time::timeout(Duration::from_secs(20), told.message()).await.unwrap();
    assert_eq!(ended.unwrap_err().code(), Code::Unauthenticated, "whoever has left hears no more");
    port.close().await;
}

#[tokio::test]
async fn whoever_asks_without_a_secret_learns_names_and_no_more() {
    let port = Port::open(limits()).await;
    let mut client = port.client().await;
    let request = proto::RegisterAgentRequest {
        agent_id: "carol".to_owned(),
        metadata: [("mail".to_owned(), "carol@example.org".to_owned())].into(),
        capabilities: vec!["sql".to_owned()],
        ..Default::default()
    };
    let secret = client.register_agent(request).await.unwrap().into_inner().secret;
    let carol = Agent { client: client.clone(), id: "carol", secret };
    let wanted = proto::DiscoverAgentsRequest { required_capabilities: vec!["sql".to_owned()] };
    let found = client.discover_agents(wanted.clone()).await.unwrap().into_inner().agents;
    assert_eq!((found[0].agent_id.as_str(), found[0].metadata.len()), ("carol", 0));
    let found = client.discover_agents(carol.authorized(wanted)).await.unwrap().into_inner().agents;
    assert_eq!(found[0].metadata["mail"], "carol@example.org");
    let info = client.get_network_info(proto::NetworkInfoRequest {}).await.unwrap().into_inner();
    assert_eq!((info.network_id.as_str(), info.agent_count, info.port), ("grpc-net", 1, i32::from(port.at.port())));
    assert!(info.agents[0].metadata.is_empty());
    let beat = |secret: &str| proto::HeartbeatRequest { agent_id: "carol".into(), timestamp: 1, secret: secret.into() };
    assert!(client.heartbeat(beat("")).await.unwrap().into_inner().success, "the SDK asks before it has one");
    assert!(client.heartbeat(beat(&carol.secret)).await.unwrap().into_inner().success);
    assert!(!client.heartbeat(beat("wrong")).await.unwrap().into_inner().success);
    port.close().await;
}

#[tokio::test]
async fn who_does_not_begin_in_time_or_speaks_something_else_is_let_go() {
    let port = Port::open(limits()).await;
    let mut silent = TcpStream::connect(port.at).await.unwrap();
    silent.write_all(b"PRI * HT").await.unwrap();
    let mut other = TcpStream::connect(port.at).await.unwrap();
    other.write_all(b"GET /api/health HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    for stream in [&mut silent, &mut other] {
        let mut rest = Vec::new();
        let read = tokio::time::timeout(Duration::from_secs(5), stream.read_to_end(&mut rest)).await;
        // Closed with what was sent unread, a connection is reset.
        assert!(read.unwrap().is_err() || rest.is_empty());
    }
    port.close().await;
}

//! One network on every transport at once, and a client of each, as small as it can be.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures::{SinkExt as _, StreamExt as _};
use longhaul_a2a::{A2a, A2aSettings, Tasks};
use longhaul_core::{Ambient, Scope};
use longhaul_libp2p::{Heard, Libp2p, Libp2pSettings, Peer};
use longhaul_mods::Parts;
use longhaul_network::{Address, Draft, Network, settings::NetworkSettings};
use longhaul_store::{Store, StoreSettings};
use longhaul_transports::{
    Extra, Serving, ServingSettings,
    grpc::proto::{self, agent_service_client::AgentServiceClient},
};
use prost::Message as _;
use serde_json::{Map, Value, json};
use tokio_tungstenite::{WebSocketStream, tungstenite::Message};
use tonic::transport::Channel;

/// Nothing here takes so long.
pub(crate) const LONG: Duration = Duration::from_secs(30);
/// What a client shows for the group `admin`, whose password is `open sesame`.
pub(crate) const SESAME: &str = "41ef4bb0b23661e66301aac36066912dac037827b4ae63a7b1165a5aa93ed4eb";

/// The network, served over HTTP, WebSocket, gRPC, libp2p, A2A and MCP on free ports of loopback.
pub(crate) struct Town {
    pub(crate) network: Network,
    pub(crate) url: String,
    pub(crate) grpc: String,
    pub(crate) node: Libp2p,
    pub(crate) http: reqwest::Client,
    serving: Serving,
    _folder: tempfile::TempDir,
}

impl Town {
    pub(crate) async fn open() -> Self {
        Self::with(|_| {}).await
    }

    pub(crate) async fn with(change: impl FnOnce(&mut NetworkSettings)) -> Self {
        // An error means that another test has done so.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let folder = tempfile::tempdir().unwrap();
        let migrations = [
            longhaul_memory::MIGRATIONS,
            longhaul_workspace::MIGRATIONS,
            longhaul_network::MIGRATIONS,
            longhaul_mods::MIGRATIONS,
            longhaul_a2a::MIGRATIONS,
        ];
        let store = Store::open(StoreSettings::new(folder.path()), Ambient::system(), &migrations).await.unwrap();
        let mut settings = NetworkSettings::named("town");
        settings.channels = vec![("general".to_owned(), "for everybody".to_owned())];
        settings.mods = vec![("messaging".to_owned(), Map::new())];
        let admin = longhaul_network::settings::GroupSettings {
            credential: Some(SESAME.to_owned()),
            permissions: vec!["admin".to_owned()],
            ..Default::default()
        };
        settings.groups.insert("admin".to_owned(), admin);
        change(&mut settings);
        let mut mods = longhaul_mods::builtin(&settings.mods, &Parts::new(store.clone())).unwrap();
        mods.push(Arc::new(Tasks::new()));
        let (a2a_settings, _) = A2aSettings::read(&settings);
        let network = Network::open(store, Scope::single_user(), settings, mods).await.unwrap();
        let a2a = A2a::new(network.clone(), a2a_settings);
        let extra = Extra { http_routers: vec![a2a.http()], grpc_routes: vec![a2a.grpc()], ..Extra::default() };
        let serving = Serving::start_with(network.clone(), ServingSettings::anywhere(), extra).await.unwrap();
        let node = Libp2p::start(network.clone(), Libp2pSettings::on_loopback(folder.path(), 0)).await.unwrap();
        Self {
            url: serving.url().unwrap(),
            grpc: format!("http://{}", serving.grpc().unwrap()),
            http: reqwest::Client::builder().no_proxy().build().unwrap(),
            network,
            node,
            serving,
            _folder: folder,
        }
    }

    pub(crate) async fn close(self) {
        self.node.stop().await;
        self.serving.stop().await;
        self.network.close().await;
    }

    /// Comes in over HTTP; its secret.
    pub(crate) async fn join(&self, agent: &str) -> String {
        let told = self.post("/api/register", &json!({"agent_id": agent, "metadata": {}})).await;
        told["secret"].as_str().unwrap_or_else(|| panic!("{told}")).to_owned()
    }

    /// Comes in as an administrator; its secret.
    pub(crate) async fn join_as_admin(&self, agent: &str) -> String {
        let body = json!({"agent_id": agent, "agent_group": "admin", "password_hash": SESAME});
        let told = self.post("/api/register", &body).await;
        told["secret"].as_str().unwrap_or_else(|| panic!("{told}")).to_owned()
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Value {
        let answer = self.http.post(format!("{}{path}", self.url)).json(body).timeout(LONG).send().await.unwrap();
        let text = answer.text().await.unwrap();
        serde_json::from_str(&text).unwrap_or(Value::String(text))
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        let answer = self.http.get(format!("{}{path}", self.url)).timeout(LONG).send().await.unwrap();
        let text = answer.text().await.unwrap();
        serde_json::from_str(&text).unwrap_or(Value::String(text))
    }

    /// What a poll over HTTP gives.
    pub(crate) async fn poll(&self, agent: &str, secret: &str) -> Value {
        self.get(&format!("/api/poll?agent_id={agent}&secret={secret}&wait=10")).await
    }

    /// Sends with HTTP.
    pub(crate) async fn send_http(&self, from: &str, secret: &str, event: &Said) -> Answer {
        let body = json!({
            "event_id": event.id, "event_name": event.name, "source_id": from, "target_agent_id": event.to,
            "payload": event.payload, "secret": secret,
        });
        Answer::from_json(&self.post("/api/send_event", &body).await)
    }

    /// Sends with gRPC.
    pub(crate) async fn send_grpc(&self, from: &str, secret: &str, event: &Said) -> Answer {
        let told = self.grpc_event(from, secret, event).await;
        match told {
            Ok(told) => Answer { success: told.success, data: data(told.data) },
            Err(_) => Answer { success: false, data: Value::Null },
        }
    }

    pub(crate) async fn grpc_client(&self) -> AgentServiceClient<Channel> {
        let channel = Channel::from_shared(self.grpc.clone()).unwrap().connect().await.unwrap();
        AgentServiceClient::new(channel)
    }

    async fn grpc_event(&self, from: &str, secret: &str, event: &Said) -> Result<proto::EventResponse, tonic::Status> {
        let Some(prost_types::value::Kind::StructValue(fields)) = prost_value(&event.payload).kind else {
            panic!("a payload is an object")
        };
        let payload = prost_types::Any {
            type_url: "type.googleapis.com/google.protobuf.Struct".to_owned(),
            value: fields.encode_to_vec(),
        };
        let event = proto::Event {
            event_id: event.id.clone(),
            event_name: event.name.to_owned(),
            source_id: from.to_owned(),
            target_agent_id: event.to.to_owned(),
            payload: Some(payload),
            secret: secret.to_owned(),
            ..Default::default()
        };
        self.grpc_client().await.send_event(event).await.map(tonic::Response::into_inner)
    }

    /// What a poll over gRPC gives.
    pub(crate) async fn poll_grpc(&self, agent: &str, secret: &str) -> Answer {
        let poll = Said::new("poll", "system.poll_messages", "system:system", json!({"agent_id": agent}));
        self.send_grpc(agent, secret, &poll).await
    }

    /// Gives an agent a task over A2A, as JSON-RPC of version 1.0; what is answered.
    pub(crate) async fn a2a(&self, bearer: &str, agent: &str, method: &str, params: Value) -> Value {
        let request = self.http.post(format!("{}/a2a/agents/{agent}", self.url)).header("A2A-Version", "1.0");
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let answer = request.bearer_auth(bearer).json(&body).timeout(LONG).send().await.unwrap();
        let status = answer.status().as_u16();
        let text = answer.text().await.unwrap();
        let mut said: Value = serde_json::from_str(&text).unwrap_or(json!({"text": text}));
        said["status"] = json!(status);
        said
    }
}

/// An event to be sent.
#[derive(Debug, Clone)]
pub(crate) struct Said {
    pub(crate) id: String,
    pub(crate) name: &'static str,
    pub(crate) to: &'static str,
    pub(crate) payload: Value,
}

impl Said {
    pub(crate) fn new(id: &str, name: &'static str, to: &'static str, payload: Value) -> Self {
        Self { id: id.to_owned(), name, to, payload }
    }

    pub(crate) fn draft(&self) -> Draft {
        let Value::Object(payload) = self.payload.clone() else { panic!("a payload is an object") };
        Draft::new(self.id.clone(), self.name.parse().unwrap(), Address::parse(Some(self.to)).unwrap(), payload)
    }
}

/// What was answered, over whichever transport.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) success: bool,
    pub(crate) data: Value,
}

impl Answer {
    pub(crate) fn from_json(said: &Value) -> Self {
        Self { success: said["success"] == true, data: said["data"].clone() }
    }
}

/// A WebSocket.
pub(crate) struct Socket {
    stream: WebSocketStream<tokio_tungstenite::MaybeTlsStream<tokio::net::TcpStream>>,
    pushed: Vec<Value>,
}

impl Socket {
    pub(crate) async fn open(town: &Town) -> Self {
        let url = format!("{}/ws", town.url.replacen("http", "ws", 1));
        Self { stream: tokio_tungstenite::connect_async(url).await.unwrap().0, pushed: Vec::new() }
    }

    pub(crate) async fn hello(town: &Town, agent: &str, secret: &str) -> Self {
        let mut socket = Self::open(town).await;
        let welcome = socket.ask(&json!({"type": "hello", "agent_id": agent, "secret": secret})).await;
        assert_eq!(welcome.map(|welcome| welcome["type"].clone()), Some(json!("welcome")));
        socket
    }

    /// The next frame that is pushed; nothing once it is closed.
    async fn next(&mut self) -> Option<Value> {
        loop {
            match tokio::time::timeout(LONG, self.stream.next()).await.expect("nothing comes") {
                Some(Ok(Message::Text(text))) => return serde_json::from_str(&text).ok(),
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Binary(_) | Message::Frame(_))) => {}
                Some(Ok(Message::Close(_)) | Err(_)) | None => return None,
            }
        }
    }

    /// The next answer; what is pushed meanwhile is kept.
    pub(crate) async fn ask(&mut self, frame: &Value) -> Option<Value> {
        self.stream.send(Message::text(frame.to_string())).await.ok()?;
        loop {
            let said = self.next().await?;
            if said["type"] == "message" {
                self.pushed.push(said);
            } else {
                return Some(said);
            }
        }
    }

    pub(crate) async fn send(&mut self, from: Option<&str>, event: &Said) -> Answer {
        let data = json!({
            "event_id": event.id, "event_name": event.name, "source_id": from, "target_agent_id": event.to,
            "payload": event.payload,
        });
        let said = self.ask(&json!({"type": "event", "data": data})).await;
        Answer::from_json(&said.unwrap_or_default())
    }

    pub(crate) async fn pushed(&mut self) -> Value {
        loop {
            let said = if self.pushed.is_empty() { self.next().await.unwrap() } else { self.pushed.remove(0) };
            if said["type"] == "message" {
                return said["data"].clone();
            }
        }
    }
}

/// Whoever receives over one transport each: what was said in `general` comes out of all.
pub(crate) struct Ears {
    pub(crate) secrets: HashMap<&'static str, String>,
    socket: Socket,
    peer: Peer,
    gossip: Peer,
}

impl Ears {
    /// Agents that receive over HTTP, gRPC, WebSocket, a libp2p stream, and gossip.
    pub(crate) async fn open(town: &Town) -> Self {
        let mut secrets = HashMap::new();
        for agent in ["ear-http", "ear-grpc", "ear-ws", "ear-p2p", "ear-gossip"] {
            secrets.insert(agent, town.join(agent).await);
        }
        let socket = Socket::hello(town, "ear-ws", &secrets["ear-ws"]).await;
        let mut peers = Vec::new();
        for agent in ["ear-p2p", "ear-gossip"] {
            let peer = Peer::connect(&town.node.addresses()[0], None).await.unwrap();
            peer.hello(agent, &secrets[agent]).await.unwrap();
            peers.push(peer);
        }
        let (gossip, peer) = (peers.remove(1), peers.remove(0));
        peer.receive(None).await.unwrap();
        gossip.gossip("general").await.unwrap();
        // The subscription takes another stream than the answer: asked once more, it has been seen.
        gossip.gossip("general").await.unwrap();
        Self { secrets, socket, peer, gossip }
    }

    /// The next notice of a post, as each of them received it.
    pub(crate) async fn hear(&mut self, town: &Town) -> Vec<(&'static str, Value)> {
        let is_post = |event: &Value| event["event_name"] == "thread.channel_message.notification";
        let http = async {
            loop {
                let polled = town.poll("ear-http", &self.secrets["ear-http"]).await;
                if let Some(found) = polled["messages"].as_array().and_then(|all| all.iter().find(|one| is_post(one))) {
                    return found.clone();
                }
            }
        };
        let grpc = async {
            loop {
                let polled = town.poll_grpc("ear-grpc", &self.secrets["ear-grpc"]).await;
                if let Some(found) =
                    polled.data["messages"].as_array().and_then(|all| all.iter().find(|one| is_post(one)))
                {
                    return found.clone();
                }
            }
        };
        let (http, grpc) = tokio::time::timeout(LONG, async { tokio::join!(http, grpc) }).await.unwrap();
        let ws = loop {
            let pushed = self.socket.pushed().await;
            if is_post(&pushed) {
                break pushed;
            }
        };
        let mut heard = vec![("http", http), ("grpc", grpc), ("websocket", ws)];
        for (name, peer) in [("libp2p", &self.peer), ("gossip", &self.gossip)] {
            heard.push((name, next_of(peer, is_post).await));
        }
        heard
    }
}

/// The next event of a peer for which this holds; acknowledged.
pub(crate) async fn next_of(peer: &Peer, is_meant: impl Fn(&Value) -> bool) -> Value {
    loop {
        let heard =
            tokio::time::timeout(LONG, peer.next()).await.expect("nothing comes").expect("the connection ended");
        let event = match heard {
            Heard::Event { seq, event } => {
                peer.acknowledge(seq).await.unwrap();
                event
            }
            Heard::Gossip { frame, .. } => frame["event"].clone(),
        };
        if is_meant(&event) {
            return event;
        }
    }
}

/// A JSON value as protobuf's.
fn prost_value(value: &Value) -> prost_types::Value {
    use prost_types::value::Kind;
    let kind = match value {
        Value::Null => Kind::NullValue(0),
        Value::Bool(truth) => Kind::BoolValue(*truth),
        Value::Number(number) => Kind::NumberValue(number.as_f64().unwrap()),
        Value::String(text) => Kind::StringValue(text.clone()),
        Value::Array(all) => Kind::ListValue(prost_types::ListValue { values: all.iter().map(prost_value).collect() }),
        Value::Object(map) => {
            let fields = map.iter().map(|(key, value)| (key.clone(), prost_value(value))).collect();
            Kind::StructValue(prost_types::Struct { fields })
        }
    };
    prost_types::Value { kind: Some(kind) }
}

/// The data of an answer over gRPC, which is JSON.
fn data(any: Option<prost_types::Any>) -> Value {
    any.and_then(|any| serde_json::from_slice(&any.value).ok()).unwrap_or_default()
}

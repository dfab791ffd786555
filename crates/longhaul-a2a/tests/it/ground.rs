//! A network with the protocol in front of it, on a port of its own, and agents that the test speaks for.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use longhaul_a2a::{A2a, A2aSettings, MOD, Tasks};
use longhaul_core::{Ambient, Scope};
use longhaul_network::{
    Address, AgentId, Draft, Event, Inbox, Member, Network, Refusal, Registered, Registration, Reply, Via,
    settings::NetworkSettings,
};
use longhaul_store::{Store, StoreSettings};
use longhaul_testbed::{Database, PrivateCluster};
use reqwest::{Client, Response, StatusCode};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

/// How long anything here may take.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// A store that outlives the networks on it.
pub(crate) struct Ground {
    place: StoreSettings,
    _folder: TempDir,
    _database: Option<Database<'static>>,
}

impl Ground {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        if !std::env::var("LONGHAUL_TEST_STORE").is_ok_and(|name| name == "postgres") {
            return Self { place: StoreSettings::new(folder.path()), _folder: folder, _database: None };
        }
        let database = PrivateCluster::shared()
            .and_then(|cluster| cluster.create_database().map_err(|error| error.to_string()))
            .unwrap_or_else(|error| panic!("the test needs a private PostgreSQL server: {error}"));
        let place = StoreSettings::from_url(&database.url(), folder.path()).expect("the server is on this machine");
        Self { place, _folder: folder, _database: Some(database) }
    }

    /// A network over the store, served.
    pub(crate) async fn serve(&self, settings: A2aSettings) -> House {
        let migrations = [longhaul_network::MIGRATIONS, longhaul_a2a::MIGRATIONS];
        let store = Store::open(self.place.clone(), Ambient::system(), &migrations).await.expect("the store opens");
        let mods: Vec<Arc<dyn longhaul_network::Mod>> = vec![Arc::new(Tasks::new())];
        let network = NetworkSettings::named("house");
        let network = Network::open(store, Scope::single_user(), network, mods).await.expect("the network opens");
        let a2a = A2a::new(network.clone(), settings);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let (http, routes) = (listener.local_addr().expect("an address"), a2a.http());
        let serving = tokio::spawn(async move { drop(axum::serve(listener, routes).await) });
        House { network, a2a, http, client: client(), serving }
    }
}

/// A client; tests of one process install the cryptography that it wants together.
fn client() -> Client {
    drop(rustls::crypto::ring::default_provider().install_default());
    Client::new()
}

/// A network that is served.
pub(crate) struct House {
    pub(crate) network: Network,
    pub(crate) a2a: A2a,
    pub(crate) http: SocketAddr,
    pub(crate) client: Client,
    serving: tokio::task::JoinHandle<()>,
}

impl House {
    /// One network for a test that needs nothing special, with the agent `expert` as coordinator.
    pub(crate) async fn open(ground: &Ground) -> (Self, Agent) {
        let house = ground.serve(settings()).await;
        let expert = house.join("expert").await;
        (house, expert)
    }

    pub(crate) async fn join(&self, name: &str) -> Agent {
        self.join_with(name, None).await
    }

    /// Somebody comes in, or comes back with a secret.
    pub(crate) async fn join_with(&self, name: &str, secret: Option<String>) -> Agent {
        let registration = Registration { secret, ..Registration::new(id(name), Via::InProcess) };
        let Registered { member, secret } = self.network.register(registration).await.expect("an agent comes in");
        let inbox = self.network.inbox(&member, None).expect("an inbox");
        Agent { network: self.network.clone(), member, secret, inbox }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.http)
    }

    /// A call of JSON-RPC; its error or its result.
    pub(crate) async fn rpc(&self, by: &Agent, method: &str, params: Value) -> Result<Value, Value> {
        let request = self.request("/a2a", &by.bearer(), "1.0", method, params);
        let mut answer: Value = request.send().await.expect("an answer").json().await.expect("JSON");
        match answer.get("error") {
            Some(error) => Err(error.clone()),
            None => Ok(answer["result"].take()),
        }
    }

    pub(crate) fn request(
        &self,
        path: &str,
        bearer: &str,
        version: &str,
        method: &str,
        params: Value,
    ) -> reqwest::RequestBuilder {
        let body = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
        let request = self.client.post(self.url(path)).header("A2A-Version", version).json(&body).timeout(SOON);
        if bearer.is_empty() { request } else { request.bearer_auth(bearer) }
    }

    /// Gives `expert` something to do and returns at once; the task.
    pub(crate) async fn begin(&self, by: &Agent, text: &str) -> Value {
        let params = json!({ "message": message(text), "configuration": { "returnImmediately": true } });
        self.rpc(by, "SendMessage", params).await.expect("a task")["task"].take()
    }

    pub(crate) async fn get(&self, by: &Agent, task: &Value) -> Result<Value, Value> {
        self.rpc(by, "GetTask", json!({ "id": task["id"] })).await
    }

    /// Ends it as a process ends: nothing goes on, and the store is free for the next.
    pub(crate) async fn close(self) {
        self.serving.abort();
        drop(self.serving.await);
        drop(self.a2a);
        self.network.close().await;
    }
}

/// Somebody in the network.
pub(crate) struct Agent {
    network: Network,
    pub(crate) member: Member,
    pub(crate) secret: String,
    inbox: Inbox,
}

impl Agent {
    /// What it shows as a caller.
    pub(crate) fn bearer(&self) -> String {
        format!("{}:{}", self.member.agent(), self.secret)
    }

    /// Its next event.
    pub(crate) async fn next(&mut self) -> Arc<Event> {
        let received = self.inbox.next(1, SOON).await.expect("its inbox");
        self.inbox.acknowledge(received.cursor);
        received.events.into_iter().next().expect("an event within the time")
    }

    pub(crate) async fn send(&self, name: &str, to: Address, payload: Value) -> Result<Reply, Refusal> {
        let Value::Object(payload) = payload else { panic!("a payload is an object") };
        let draft = Draft::new(unique(), name.parse().expect("a name"), to, payload);
        self.network.send(&self.member, draft).await
    }

    /// Says how a task stands.
    pub(crate) async fn update(&self, task: &Value, what: Value) -> Result<Reply, Refusal> {
        let mut payload = match what {
            Value::Object(map) => map,
            _ => Map::new(),
        };
        payload.insert("task_id".to_owned(), task.clone());
        self.send("a2a.task.update", Address::Mod(MOD.to_owned()), payload.into()).await
    }
}

/// The protocol with `expert` as coordinator.
pub(crate) fn settings() -> A2aSettings {
    A2aSettings { coordinator: Some(id("expert")), ..A2aSettings::default() }
}

pub(crate) fn id(name: &str) -> AgentId {
    name.parse().expect("an agent's id")
}

/// An id that nothing else has.
pub(crate) fn unique() -> String {
    Ambient::system().ids.body()
}

pub(crate) fn message(text: &str) -> Value {
    json!({ "messageId": unique(), "role": "ROLE_USER", "parts": [{ "text": text }] })
}

/// The reason in the `ErrorInfo` of an error.
pub(crate) fn reason(error: &Value) -> &str {
    let details = error.get("data").or_else(|| error.get("details")).and_then(Value::as_array);
    let found = details.into_iter().flatten().find_map(|detail| detail["reason"].as_str());
    found.unwrap_or_default()
}

/// The status of a response and its JSON.
pub(crate) async fn json_of(response: Response) -> (StatusCode, Value) {
    let status = response.status();
    (status, response.json().await.unwrap_or_default())
}

/// The data of a stream of events, as they come.
pub(crate) struct Streamed {
    response: Response,
    text: String,
}

impl Streamed {
    pub(crate) fn of(response: Response) -> Self {
        Self { response, text: String::new() }
    }

    /// The next event; nothing when the stream has ended.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some((line, rest)) = self.text.split_once('\n') {
                let data = line.strip_prefix("data:").map(|data| serde_json::from_str(data).expect("JSON"));
                self.text = rest.to_owned();
                if let Some(data) = data {
                    return Some(data);
                }
                continue;
            }
            let chunk = tokio::time::timeout(SOON, self.response.chunk()).await.expect("in time").expect("a stream")?;
            self.text.push_str(std::str::from_utf8(&chunk).expect("text"));
        }
    }

    pub(crate) async fn rest(mut self) -> Vec<Value> {
        let mut all = Vec::new();
        while let Some(event) = self.next().await {
            all.push(event);
        }
        all
    }
}

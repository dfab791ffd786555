//! A network of its own that is served on loopback, on the store the suite is run with, and clients of it.

use std::sync::Arc;

use longhaul_core::{Ambient, Scope};
use longhaul_network::{
    Address, Event, Manifest, Mod, ModEvent, ModTool, Network, Outcome, Pattern, Prepared, Refusal, Reply, Sender,
    Stage,
    settings::{GroupSettings, NetworkSettings},
};
use longhaul_store::{Store, StoreSettings};
use longhaul_testbed::{Database, PrivateCluster};
use longhaul_transports::{Extra, Limits, Serving, ServingSettings};
use reqwest::{Method, StatusCode};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

/// What a client shows for the password `open sesame`.
pub(crate) const SESAME: &str = "41ef4bb0b23661e66301aac36066912dac037827b4ae63a7b1165a5aa93ed4eb";

/// A served network. It ends with the test's runtime.
pub(crate) struct House {
    pub(crate) url: String,
    pub(crate) network: Network,
    pub(crate) serving: Serving,
    http: reqwest::Client,
    place: StoreSettings,
    _dir: TempDir,
    /// Outlives the store.
    _database: Option<Database<'static>>,
}

/// What a server answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) body: Value,
}

/// Guests, and administrators with a password.
pub(crate) fn settings() -> NetworkSettings {
    let mut settings = NetworkSettings::named("test-net");
    settings.channels = vec![("general".to_owned(), "for everybody".to_owned())];
    settings.profile =
        json!({ "description": "a test", "management_token": "not to be shown" }).as_object().unwrap().clone();
    let admin = GroupSettings {
        credential: Some(SESAME.to_owned()),
        permissions: vec!["admin".to_owned()],
        ..GroupSettings::default()
    };
    settings.groups.insert("admin".to_owned(), admin);
    settings
}

impl House {
    pub(crate) async fn new() -> Self {
        Self::with(settings(), ServingSettings::anywhere(), Extra::default()).await
    }

    pub(crate) async fn bounded(limits: Limits) -> Self {
        Self::with(settings(), ServingSettings { limits, ..ServingSettings::anywhere() }, Extra::default()).await
    }

    pub(crate) async fn with(settings: NetworkSettings, serving: ServingSettings, extra: Extra) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let postgres = std::env::var("LONGHAUL_TEST_STORE").is_ok_and(|store| store == "postgres");
        let database = postgres.then(|| PrivateCluster::shared().unwrap().create_database().unwrap());
        let place = match &database {
            Some(database) => StoreSettings::from_url(&database.url(), dir.path()).unwrap(),
            None => StoreSettings::new(dir.path()),
        };
        let network = open(&place, settings).await;
        let serving = Serving::start_with(network.clone(), serving, extra).await.unwrap();
        let url = serving.url().unwrap();
        Self { url, network, serving, http: client(), place, _dir: dir, _database: database }
    }

    /// The same network in another process, as far as anybody can tell.
    pub(crate) async fn again(self) -> Self {
        let Self { network, serving, http, place, _dir, _database, .. } = self;
        serving.stop().await;
        network.close().await;
        let network = open(&place, settings()).await;
        let serving =
            Serving::start_with(network.clone(), ServingSettings::anywhere(), Extra::default()).await.unwrap();
        let url = serving.url().unwrap();
        Self { url, network, serving, http, place, _dir, _database }
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.http.request(method, format!("{}{path}", self.url))
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        send(self.request(Method::GET, path)).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        send(self.request(Method::POST, path).json(body)).await
    }

    /// Lets a guest in: its secret.
    pub(crate) async fn join(&self, name: &str) -> String {
        let answer = self.post("/api/register", &json!({ "agent_id": name, "metadata": { "name": name } })).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.body["secret"].as_str().expect("a secret").to_owned()
    }

    /// Sends `text` to `to` under this id.
    pub(crate) async fn say(&self, from: &str, secret: &str, id: &str, to: &str, text: &str) -> Answer {
        self.post("/api/send_event", &message(from, secret, id, to, text)).await
    }

    /// What has come for an agent; waits for the first.
    pub(crate) async fn poll(&self, agent: &str, secret: &str) -> Vec<Value> {
        let answer = self.get(&format!("/api/poll?agent_id={agent}&secret={secret}&wait=10")).await;
        assert_eq!(answer.body["success"], true, "{answer:?}");
        answer.body["messages"].as_array().expect("messages").clone()
    }

    pub(crate) fn host(&self) -> &str {
        self.url.trim_start_matches("http://")
    }
}

pub(crate) fn message(from: &str, secret: &str, id: &str, to: &str, text: &str) -> Value {
    json!({
        "event_id": id, "event_name": "agent.message", "source_id": from, "target_agent_id": to,
        "payload": { "text": text }, "metadata": {}, "visibility": "network", "secret": secret,
    })
}

pub(crate) fn texts(events: &[Value]) -> Vec<&str> {
    events.iter().filter_map(|event| event["payload"]["text"].as_str()).collect()
}

async fn open(place: &StoreSettings, settings: NetworkSettings) -> Network {
    let store = Store::open(place.clone(), Ambient::system(), &[longhaul_network::MIGRATIONS]).await.unwrap();
    Network::open(store, Scope::single_user(), settings, vec![Arc::new(Toy)]).await.unwrap()
}

/// A client that trusts nobody but plain loopback; none of the machine's proxies.
pub(crate) fn client() -> reqwest::Client {
    // An error means that another test has done so.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().build().unwrap()
}

pub(crate) async fn send(request: reqwest::RequestBuilder) -> Answer {
    let response = request.send().await.unwrap();
    let (status, headers) = (response.status(), response.headers().clone());
    let text = response.text().await.unwrap();
    let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
    Answer { status, headers, body }
}

/// A mod with a tool, and with the files of the shared cache kept in nothing but their event.
#[derive(Debug)]
struct Toy;

impl Mod for Toy {
    fn manifest(&self) -> Manifest {
        let answer = |name: &str, reads_only, tool: Option<&str>| ModEvent {
            pattern: Pattern::new(name),
            description: format!("Does {name}."),
            payload: json!({
                "type": "object",
                "required": ["text"],
                "properties": { "text": { "type": "string" }, "channel": { "type": "string" } },
            }),
            reads_only,
            tool: tool.map(|name| ModTool { name: name.to_owned(), destination: Some("channel".to_owned()) }),
        };
        Manifest {
            name: "openagents.mods.core.shared_cache".to_owned(),
            version: "1".to_owned(),
            description: "A toy.".to_owned(),
            answers: vec![
                answer("toy.shout", false, Some("shout")),
                answer("toy.echo", true, Some("echo")),
                answer("shared_cache.*", true, None),
            ],
            emits: vec![("toy.shouted".to_owned(), "Somebody shouted.".to_owned())],
            ..Manifest::default()
        }
    }

    fn apply(&self, stage: &mut Stage<'_, '_>, event: &Event, _prepared: Prepared) -> Result<Outcome, Refusal> {
        let text = event.payload.get("text").and_then(Value::as_str).unwrap_or_default();
        let said = Map::from_iter([("text".to_owned(), json!(text.to_uppercase()))]);
        let reply = match event.name.as_str() {
            "toy.shout" => {
                stage.emit(event.from.clone(), "toy.shouted", Address::Channel("general".to_owned()), said.clone())?;
                Reply::done("shouted", Some(Value::Object(said)))
            }
            "toy.echo" => Reply::done("said", Some(json!({ "text": text, "from": from(event) }))),
            "shared_cache.file.upload" => {
                let coded = event.payload.get("file_data").and_then(Value::as_str).unwrap_or_default();
                let size = coded.len() / 4 * 3;
                Reply::done(
                    "kept",
                    Some(json!({ "cache_id": coded, "filename": event.payload["filename"],
                    "file_size": size, "mime_type": event.payload["mime_type"] })),
                )
            }
            "shared_cache.file.download" if event.payload["cache_id"] == "none" => Reply::refused("there is none"),
            "shared_cache.file.download" => Reply::done(
                "here",
                Some(json!({
                "file_data": event.payload["cache_id"], "filename": "../../a\r\nb.html", "mime_type": "text/html" })),
            ),
            "shared_cache.get" => Reply::done("known", Some(json!({ "cache_id": "x", "value": "long" }))),
            _ => return Ok(Outcome::Pass),
        };
        Ok(Outcome::Answer(reply))
    }
}

fn from(event: &Event) -> String {
    match &event.from {
        Sender::Agent(agent) => agent.to_string(),
        Sender::Mod(_) | Sender::Network => "somebody else".to_owned(),
    }
}

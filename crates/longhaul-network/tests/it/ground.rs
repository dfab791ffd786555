//! A network over a store of its own, on SQLite or, with `LONGHAUL_TEST_STORE=postgres`, on a private server.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use longhaul_core::{Ambient, Clock, Scope, SystemRng, TimeMs};
use longhaul_network::{
    Address, AgentId, Draft, Event, Member, Mod, Network, Refusal, Registered, Registration, Reply, Via,
    settings::{GroupSettings, NetworkSettings},
};
use longhaul_store::{Store, StoreSettings};
use longhaul_testbed::{Database, PrivateCluster};
use serde_json::{Map, Value};
use tempfile::TempDir;

#[derive(Debug)]
pub(crate) struct SetTime(AtomicI64);

impl SetTime {
    pub(crate) fn advance(&self, by: Duration) {
        self.0.fetch_add(i64::try_from(by.as_millis()).expect("short"), Ordering::Relaxed);
    }
}

impl Clock for SetTime {
    fn now(&self) -> TimeMs {
        TimeMs(self.0.load(Ordering::Relaxed))
    }
}

/// A place for networks that outlives them.
pub(crate) struct Ground {
    pub(crate) clock: Arc<SetTime>,
    pub(crate) place: StoreSettings,
    /// Removed when the test ends.
    _folder: TempDir,
    _database: Option<Database<'static>>,
}

fn new_place(dir: &Path) -> (StoreSettings, Option<Database<'static>>) {
    if !std::env::var("LONGHAUL_TEST_STORE").is_ok_and(|name| name == "postgres") {
        return (StoreSettings::new(dir), None);
    }
    let database = PrivateCluster::shared()
        .and_then(|cluster| cluster.create_database().map_err(|error| error.to_string()))
        .unwrap_or_else(|error| panic!("the test needs a private PostgreSQL server: {error}"));
    let settings = StoreSettings::from_url(&database.url(), dir).expect("the test server is on this machine");
    (settings, Some(database))
}

impl Ground {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let clock = Arc::new(SetTime(AtomicI64::new(1_800_000_000_000)));
        let (place, database) = new_place(folder.path());
        Self { clock, place, _folder: folder, _database: database }
    }

    pub(crate) async fn store(&self) -> Store {
        let ambient = Ambient::new(self.clock.clone(), Arc::new(SystemRng::default()));
        Store::open(self.place.clone(), ambient, &[longhaul_network::MIGRATIONS]).await.expect("the store opens")
    }

    pub(crate) async fn open(&self, settings: NetworkSettings, mods: Vec<Arc<dyn Mod>>) -> Network {
        let store = self.store().await;
        Network::open(store, Scope::single_user(), settings, mods).await.expect("the network opens")
    }

    /// The network of [`settings`], without mods.
    pub(crate) async fn network(&self) -> Network {
        self.open(settings(), Vec::new()).await
    }
}

/// What a client shows for the password `open sesame`.
pub(crate) const SESAME: &str = "41ef4bb0b23661e66301aac36066912dac037827b4ae63a7b1165a5aa93ed4eb";

/// Guests, and administrators with a password.
pub(crate) fn settings() -> NetworkSettings {
    let mut settings = NetworkSettings::named("test-net");
    settings.channels = vec![("general".to_owned(), "for everybody".to_owned())];
    let admin = GroupSettings {
        credential: Some(SESAME.to_owned()),
        permissions: vec!["admin".to_owned()],
        ..GroupSettings::default()
    };
    settings.groups.insert("admin".to_owned(), admin);
    settings
}

pub(crate) fn id(name: &str) -> AgentId {
    name.parse().expect("an agent id")
}

pub(crate) fn guest(name: &str) -> Registration {
    Registration::new(id(name), Via::InProcess)
}

pub(crate) fn admin(name: &str) -> Registration {
    Registration { credential: SESAME.to_owned(), ..guest(name) }
}

pub(crate) async fn join(network: &Network, name: &str) -> Registered {
    network.register(guest(name)).await.unwrap_or_else(|refusal| panic!("{name}: {refusal}"))
}

pub(crate) fn says(text: &str) -> Map<String, Value> {
    Map::from_iter([("text".to_owned(), Value::from(text))])
}

pub(crate) fn draft(id: &str, to: &str, text: &str) -> Draft {
    named(id, "agent.message", to, says(text))
}

pub(crate) fn named(id: &str, name: &str, to: &str, payload: Map<String, Value>) -> Draft {
    let to = Address::parse(Some(to)).expect("a destination");
    Draft::new(id, name.parse().expect("a name"), to, payload)
}

pub(crate) async fn send(network: &Network, from: &Member, draft: Draft) -> Result<Reply, Refusal> {
    network.send(from, draft).await
}

/// The texts of what has come since the last call.
pub(crate) async fn poll(network: &Network, member: &Member) -> Vec<String> {
    let received = network.poll(member, 1_000, Duration::ZERO).await.expect("a poll");
    received.events.iter().map(|event| text_of(event)).collect()
}

pub(crate) fn text_of(event: &Event) -> String {
    event.payload.get("text").and_then(Value::as_str).unwrap_or(event.name.as_str()).to_owned()
}

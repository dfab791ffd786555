//! A network with mods over a store of its own, on SQLite or, with `LONGHAUL_TEST_STORE=postgres`, on a private server.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use longhaul_core::{Ambient, Clock, Scope, SystemRng, TimeMs};
use longhaul_mods::{Parts, builtin};
use longhaul_network::{
    Address, AgentId, Draft, Event, Member, Network, Refusal, Registration, Reply, Via,
    settings::{GroupSettings, NetworkSettings},
};
use longhaul_store::{Store, StoreSettings};
use longhaul_testbed::{Database, PrivateCluster};
use serde_json::{Map, Value};
use tempfile::TempDir;

/// What a client shows for the password `open sesame`.
const SESAME: &str = "41ef4bb0b23661e66301aac36066912dac037827b4ae63a7b1165a5aa93ed4eb";

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

/// A network with these mods, and groups `guest`, `devs`, `admin`; a channel `general`.
pub(crate) struct Ground {
    pub(crate) network: Network,
    pub(crate) clock: Arc<SetTime>,
    settings: NetworkSettings,
    place: StoreSettings,
    ids: AtomicU64,
    _folder: TempDir,
    _database: Option<Database<'static>>,
}

impl Ground {
    pub(crate) async fn with(mods: &[(&str, Value)]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let clock = Arc::new(SetTime(AtomicI64::new(1_800_000_000_000)));
        let database = std::env::var("LONGHAUL_TEST_STORE").is_ok_and(|name| name == "postgres").then(|| {
            PrivateCluster::shared()
                .and_then(|cluster| cluster.create_database().map_err(|error| error.to_string()))
                .unwrap_or_else(|error| panic!("the test needs a private PostgreSQL server: {error}"))
        });
        let place = match &database {
            Some(database) => StoreSettings::from_url(&database.url(), folder.path()).expect("on this machine"),
            None => StoreSettings::new(folder.path()),
        };
        let mut settings = NetworkSettings::named("test-net");
        settings.channels = vec![("general".to_owned(), "for everybody".to_owned())];
        settings.events_per_second = 1_000_000;
        settings.events_burst = 1_000_000;
        settings.mods = mods.iter().map(|(name, config)| ((*name).to_owned(), object(config.clone()))).collect();
        let admin = GroupSettings {
            credential: Some(SESAME.to_owned()),
            permissions: vec!["admin".to_owned()],
            ..GroupSettings::default()
        };
        settings.groups.insert("admin".to_owned(), admin);
        let devs = GroupSettings { credential: Some("de".repeat(32)), ..GroupSettings::default() };
        settings.groups.insert("devs".to_owned(), devs);
        let network = open(&place, &clock, &settings).await;
        Self { network, clock, settings, place, ids: AtomicU64::new(0), _folder: folder, _database: database }
    }

    /// The same network, served anew.
    pub(crate) async fn reopen(&mut self) {
        self.network.close().await;
        self.network = open(&self.place, &self.clock, &self.settings).await;
    }

    pub(crate) async fn join(&self, name: &str) -> Member {
        self.join_as(name, "").await
    }

    pub(crate) async fn join_as(&self, name: &str, group: &str) -> Member {
        let credential = match group {
            "admin" => SESAME.to_owned(),
            "devs" => "de".repeat(32),
            _ => String::new(),
        };
        let registration = Registration { credential, ..Registration::new(id(name), Via::InProcess) };
        self.network.register(registration).await.unwrap_or_else(|refusal| panic!("{name}: {refusal}")).member
    }

    /// Sends under a fresh id; gives it with the answer.
    pub(crate) async fn send(&self, from: &Member, name: &str, to: &str, payload: Value) -> (String, Said) {
        let id = format!("{}-{}", from.agent(), self.ids.fetch_add(1, Ordering::Relaxed));
        let said = self.send_as(&id, from, name, to, payload).await;
        (id, said)
    }

    pub(crate) async fn send_as(&self, id: &str, from: &Member, name: &str, to: &str, payload: Value) -> Said {
        let to = Address::parse(Some(to)).expect("a destination");
        let draft = Draft::new(id, name.parse().expect("a name"), to, object(payload));
        Said(self.network.send(from, draft).await)
    }

    /// The data of an event that is answered with success.
    pub(crate) async fn ask(&self, from: &Member, name: &str, payload: Value) -> Value {
        self.send(from, name, "", payload).await.1.data()
    }

    /// What has come for the member since the last call, but for the network's own notices.
    pub(crate) async fn heard(&self, member: &Member) -> Vec<Arc<Event>> {
        let received = self.network.poll(member, 1_000, Duration::ZERO).await.expect("a poll");
        received.events.into_iter().filter(|event| !event.name.as_str().starts_with("system.")).collect()
    }
}

async fn open(place: &StoreSettings, clock: &Arc<SetTime>, settings: &NetworkSettings) -> Network {
    let ambient = Ambient::new(clock.clone(), Arc::new(SystemRng::default()));
    let migrations = [
        longhaul_memory::MIGRATIONS,
        longhaul_workspace::MIGRATIONS,
        longhaul_network::MIGRATIONS,
        longhaul_mods::MIGRATIONS,
    ];
    let store = Store::open(place.clone(), ambient, &migrations).await.expect("the store opens");
    let mods = builtin(&settings.mods, &Parts::new(store.clone())).unwrap_or_else(|refusal| panic!("{refusal}"));
    Network::open(store, Scope::single_user(), settings.clone(), mods).await.expect("the network opens")
}

/// What came of an event.
#[derive(Debug)]
pub(crate) struct Said(pub(crate) Result<Reply, Refusal>);

impl Said {
    #[track_caller]
    pub(crate) fn data(self) -> Value {
        let reply = self.0.unwrap_or_else(|refusal| panic!("refused: {refusal}"));
        assert!(reply.success, "{}", reply.message);
        reply.data.unwrap_or_default()
    }

    /// Why it was not done.
    #[track_caller]
    pub(crate) fn no(self) -> String {
        match self.0 {
            Err(refusal) => refusal.message,
            Ok(reply) if !reply.success => reply.message,
            Ok(reply) => panic!("done: {}", reply.message),
        }
    }
}

pub(crate) fn id(name: &str) -> AgentId {
    name.parse().expect("an agent id")
}

pub(crate) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        Value::Null => Map::new(),
        other => panic!("no object: {other}"),
    }
}

/// Names of events.
pub(crate) fn names(events: &[Arc<Event>]) -> Vec<&str> {
    events.iter().map(|event| event.name.as_str()).collect()
}

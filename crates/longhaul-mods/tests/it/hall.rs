//! A network with the mods a test names, on SQLite or, with `LONGHAUL_TEST_STORE=postgres`, on a private server; and
//! guests who speak in it.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use longhaul_core::{Ambient, Clock, Scope, SystemRng, TimeMs};
use longhaul_memory::{EmbedError, Embedder, Memory};
use longhaul_mods::{Parts, builtin};
use longhaul_network::{
    Address, Draft, Event, Member, Network, Refusal, Registration, Reply, Via,
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
        self.0.fetch_add(i64::try_from(by.as_millis()).expect("short"), Ordering::SeqCst);
    }
}

impl Clock for SetTime {
    fn now(&self) -> TimeMs {
        TimeMs(self.0.load(Ordering::SeqCst))
    }
}

/// A place for networks that outlives them.
pub(crate) struct Hall {
    pub(crate) clock: Arc<SetTime>,
    place: StoreSettings,
    mods: Vec<(String, Map<String, Value>)>,
    _folder: TempDir,
    _database: Option<Database<'static>>,
}

/// A network that is open.
pub(crate) struct Open {
    pub(crate) network: Network,
    pub(crate) memory: Memory,
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

/// What a client shows for the password `open sesame`.
const SESAME: &str = "41ef4bb0b23661e66301aac36066912dac037827b4ae63a7b1165a5aa93ed4eb";

/// What a client shows for another group's password.
fn credential(group: &str) -> String {
    format!("{:x}", group.len()).repeat(64)
}

impl Hall {
    pub(crate) fn new(mods: &[(&str, Value)]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let clock = Arc::new(SetTime(AtomicI64::new(1_800_000_000_000)));
        let (place, database) = new_place(folder.path());
        let named = |(name, config): &(&str, Value)| {
            ((*name).to_owned(), config.as_object().expect("a config is an object").clone())
        };
        Self { clock, place, mods: mods.iter().map(named).collect(), _folder: folder, _database: database }
    }

    pub(crate) async fn open(&self) -> Open {
        let ambient = Ambient::new(self.clock.clone(), Arc::new(SystemRng::default()));
        let migrations = [
            longhaul_network::MIGRATIONS,
            longhaul_memory::MIGRATIONS,
            longhaul_workspace::MIGRATIONS,
            longhaul_mods::MIGRATIONS,
        ];
        let store = Store::open(self.place.clone(), ambient, &migrations).await.expect("the store opens");
        let memory = Memory::new(store.clone(), Some(Arc::new(Concepts)));
        let mods = builtin(&self.mods, &Parts::with_memory(store.clone(), memory.clone())).expect("the mods are made");
        let mut settings = NetworkSettings::named("hall");
        settings.channels = vec![("general".to_owned(), "for everybody".to_owned())];
        settings.mods = self.mods.clone();
        for (group, credential, permissions) in [
            ("admin", SESAME.to_owned(), vec!["admin".to_owned()]),
            ("red", credential("red"), Vec::new()),
            ("blue", credential("blue"), Vec::new()),
        ] {
            let group_settings =
                GroupSettings { credential: Some(credential), permissions, ..GroupSettings::default() };
            settings.groups.insert(group.to_owned(), group_settings);
        }
        let network = Network::open(store, Scope::single_user(), settings, mods).await.expect("the network opens");
        Open { network, memory }
    }
}

impl Open {
    pub(crate) async fn join(&self, name: &str) -> Guest {
        self.join_with(name, String::new(), Map::new()).await
    }

    pub(crate) async fn join_admin(&self, name: &str) -> Guest {
        self.join_with(name, SESAME.to_owned(), Map::new()).await
    }

    pub(crate) async fn join_group(&self, name: &str, group: &str) -> Guest {
        self.come(Registration {
            group: Some(group.to_owned()),
            credential: credential(group),
            ..Registration::new(name.parse().expect("an agent id"), Via::InProcess)
        })
        .await
    }

    /// With what it says it can do.
    pub(crate) async fn join_expert(&self, name: &str, capabilities: Value) -> Guest {
        self.join_with(name, String::new(), Map::from_iter([("capabilities".to_owned(), capabilities)])).await
    }

    async fn join_with(&self, name: &str, credential: String, metadata: Map<String, Value>) -> Guest {
        let agent = name.parse().expect("an agent id");
        let registration = Registration { credential, metadata, ..Registration::new(agent, Via::InProcess) };
        self.come(registration).await
    }

    async fn come(&self, registration: Registration) -> Guest {
        let registered = self.network.register(registration).await.expect("it comes in");
        Guest { network: self.network.clone(), member: registered.member, said: AtomicU64::new(0) }
    }
}

/// Somebody who speaks.
pub(crate) struct Guest {
    network: Network,
    pub(crate) member: Member,
    said: AtomicU64,
}

impl Guest {
    pub(crate) async fn send(&self, name: &str, to: &str, payload: Value) -> Result<Reply, Refusal> {
        let id = format!("{}-{}", self.member.agent(), self.said.fetch_add(1, Ordering::SeqCst));
        self.send_as(&id, name, to, payload).await
    }

    pub(crate) async fn send_as(&self, id: &str, name: &str, to: &str, payload: Value) -> Result<Reply, Refusal> {
        let payload = payload.as_object().expect("a payload is an object").clone();
        let to = Address::parse(Some(to)).expect("a destination");
        self.network.send(&self.member, Draft::new(id, name.parse().expect("a name"), to, payload)).await
    }

    /// What is answered, which has to be a yes.
    pub(crate) async fn ask(&self, name: &str, payload: Value) -> Value {
        let reply = self.send(name, "", payload.clone()).await.unwrap_or_else(|no| panic!("{name} {payload}: {no}"));
        assert!(reply.success, "{name} {payload}: {} {:?}", reply.message, reply.data);
        reply.data.unwrap_or_default()
    }

    /// The word of a no.
    pub(crate) async fn refused(&self, name: &str, payload: Value) -> String {
        self.refused_with(name, payload).await["error_code"].as_str().unwrap_or_default().to_owned()
    }

    pub(crate) async fn refused_with(&self, name: &str, payload: Value) -> Value {
        let reply = self.send(name, "", payload.clone()).await.unwrap_or_else(|no| panic!("{name} {payload}: {no}"));
        assert!(!reply.success, "{name} {payload} was done: {:?}", reply.data);
        reply.data.unwrap_or_default()
    }

    /// What has come since the last call.
    pub(crate) async fn heard(&self) -> Vec<Arc<Event>> {
        self.network.poll(&self.member, 1_000, Duration::ZERO).await.expect("a poll").events
    }

    /// The next events of this name, at least one.
    pub(crate) async fn waits_for(&self, name: &str) -> Vec<Arc<Event>> {
        for _ in 0..100 {
            let came = self.network.poll(&self.member, 1_000, Duration::from_secs(1)).await.expect("a poll").events;
            let wanted: Vec<_> = came.into_iter().filter(|event| event.name.as_str() == name).collect();
            if !wanted.is_empty() {
                return wanted;
            }
        }
        panic!("{} never heard {name}", self.member.agent());
    }

    /// A little while, which ends early when something comes.
    pub(crate) async fn pause(&self) {
        drop(self.network.poll(&self.member, 1, Duration::from_millis(20)).await.expect("a poll"));
    }

    pub(crate) async fn names_heard(&self) -> Vec<String> {
        self.heard().await.iter().map(|event| event.name.to_string()).collect()
    }
}

/// An embedder that knows a few words and what they mean the same as.
#[derive(Debug)]
struct Concepts;

const CONCEPTS: &[&[&str]] =
    &[&["car", "automobile", "vehicle"], &["slow", "latency", "sluggish"], &["database", "postgres", "sql"], &["cake"]];

#[async_trait]
impl Embedder for Concepts {
    fn id(&self) -> &str {
        "concepts-1"
    }

    fn dimensions(&self) -> usize {
        CONCEPTS.len() + 1
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let one = |text: &String| {
            let text = text.to_lowercase();
            let has = |words: &&[&str]| f32::from(u8::from(words.iter().any(|word| text.contains(word))));
            let mut vector: Vec<f32> = CONCEPTS.iter().map(has).collect();
            vector.push(0.1);
            vector
        };
        Ok(texts.iter().map(one).collect())
    }
}

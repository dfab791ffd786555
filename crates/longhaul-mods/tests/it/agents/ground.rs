//! A network with the mods that agents need, over a store of its own, on SQLite or (`LONGHAUL_TEST_STORE=postgres`) a
//! private server; members, and models from stories.

use std::{path::Path, sync::Arc, time::Duration};

use longhaul_core::{Ambient, Scope};
use longhaul_durable::Runtime;
use longhaul_memory::Memory;
use longhaul_model::{Cassette, CassetteServer, CassetteServerSettings, ChatModel, OpenAiChat, OpenAiSettings};
use longhaul_mods::{
    Parts,
    agents::{AgentFile, Desk, Link, LocalLink, Message, Mind, MindParts},
    builtin,
};
use longhaul_network::{Member, Network, Registration, Via, settings::NetworkSettings};
use longhaul_store::{Store, StoreSettings};
use longhaul_testbed::{Database, PrivateCluster};
use serde_json::Map;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Longest that a test waits for something that has to come.
pub(crate) const SOON: Duration = Duration::from_secs(20);
/// How long nothing may come where nothing is to come.
pub(crate) const QUIET: Duration = Duration::from_millis(600);

/// What a client shows to come into the group that may decide over others.
pub(crate) const CHIEFS: &str = "41ef4bb0b23661e66301aac36066912dac037827b4ae63a7b1165a5aa93ed4eb";

pub(crate) struct Ground {
    place: StoreSettings,
    _folder: TempDir,
    _database: Option<Database<'static>>,
}

/// A network that is open, and what is beside it.
pub(crate) struct Open {
    pub(crate) network: Network,
    pub(crate) store: Store,
    pub(crate) memory: Memory,
}

fn new_place(dir: &Path) -> (StoreSettings, Option<Database<'static>>) {
    if !std::env::var("LONGHAUL_TEST_STORE").is_ok_and(|name| name == "postgres") {
        return (StoreSettings::new(dir), None);
    }
    let database = PrivateCluster::shared()
        .and_then(|cluster| cluster.create_database().map_err(|error| error.to_string()))
        .unwrap_or_else(|error| panic!("the test needs a private PostgreSQL server: {error}"));
    (StoreSettings::from_url(&database.url(), dir).unwrap(), Some(database))
}

impl Ground {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (place, database) = new_place(folder.path());
        Self { place, _folder: folder, _database: database }
    }

    pub(crate) async fn store(&self) -> Store {
        let sets = [
            longhaul_durable::MIGRATIONS,
            longhaul_memory::MIGRATIONS,
            longhaul_workspace::MIGRATIONS,
            longhaul_network::MIGRATIONS,
            longhaul_mods::MIGRATIONS,
        ];
        Store::open(self.place.clone(), Ambient::system(), &sets).await.unwrap()
    }

    /// Opens a network with these mods, by their short names.
    pub(crate) async fn open(&self, mods: &[&str]) -> Open {
        let store = self.store().await;
        let memory = Memory::new(store.clone(), None);
        let mut settings = NetworkSettings::named("agents-net");
        for channel in ["general", "python_channel", "milvus_channel", "devops_channel"] {
            settings.channels.push((channel.to_owned(), String::new()));
        }
        let chief = longhaul_network::settings::GroupSettings {
            credential: Some(CHIEFS.to_owned()),
            permissions: vec!["decide".to_owned()],
            ..Default::default()
        };
        settings.groups.insert("chiefs".to_owned(), chief);
        settings.mods = mods.iter().map(|name| ((*name).to_owned(), Map::new())).collect();
        let parts = Parts::with_memory(store.clone(), memory.clone());
        let made = builtin(&settings.mods, &parts).unwrap();
        let network = Network::open(store.clone(), Scope::single_user(), settings, made).await.unwrap();
        Open { network, store, memory }
    }
}

impl Open {
    pub(crate) async fn join(&self, name: &str) -> (Arc<dyn Link>, Member) {
        let registration = Registration::new(name.parse().unwrap(), Via::InProcess);
        let (link, _) = LocalLink::join(&self.network, registration).await.unwrap();
        let member = link.member().clone();
        (Arc::new(link), member)
    }

    pub(crate) fn again(&self, member: &Member) -> Arc<dyn Link> {
        Arc::new(LocalLink::of(&self.network, member.clone()).unwrap())
    }

    pub(crate) fn parts(&self, link: Arc<dyn Link>, model: Arc<dyn ChatModel>) -> MindParts {
        let runtime = Runtime::new(self.store.clone(), Ambient::system());
        let (store, memory) = (self.store.clone(), Some(self.memory.clone()));
        MindParts { link, store, runtime, scope: Scope::single_user(), model, memory }
    }

    /// Starts an agent of a file.
    pub(crate) async fn start(&self, file: AgentFile, link: Arc<dyn Link>, model: Arc<dyn ChatModel>) -> Started {
        let mind = Mind::new(file, self.parts(link, model)).await.unwrap();
        let stop = CancellationToken::new();
        let running = mind.clone();
        let token = stop.clone();
        let task = tokio::spawn(async move { running.run(token).await.map(drop).map_err(|error| error.to_string()) });
        Started { stop, task }
    }
}

/// An agent at work.
pub(crate) struct Started {
    pub(crate) stop: CancellationToken,
    pub(crate) task: JoinHandle<Result<(), String>>,
}

impl Started {
    pub(crate) async fn end(self) {
        self.stop.cancel();
        self.task.await.unwrap().unwrap();
    }

    /// Like a crash: nothing is finished.
    pub(crate) async fn kill(self) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
    }
}

/// A model that answers from a story.
pub(crate) struct Told {
    pub(crate) model: Arc<dyn ChatModel>,
    pub(crate) server: CassetteServer,
}

pub(crate) async fn model(entries: &str) -> Told {
    let story = format!("cassette = 1\ntitle = \"agents\"\n{entries}");
    let cassette = Cassette::parse(&story, "story.toml").unwrap();
    let settings = OpenAiSettings::new(cassette.model());
    let ambient = Ambient::system();
    let server = CassetteServer::start(cassette, CassetteServerSettings::default(), &ambient).await.unwrap();
    let settings = OpenAiSettings { base_url: server.base_url(), ..settings };
    Told { model: Arc::new(OpenAiChat::new(settings, &ambient).unwrap()), server }
}

/// Somebody who asks and listens.
pub(crate) struct Person {
    pub(crate) desk: Desk,
    link: Arc<dyn Link>,
}

impl Person {
    pub(crate) async fn join(open: &Open, name: &str) -> Self {
        let (link, _) = open.join(name).await;
        Self { desk: Desk::new(link.clone(), Default::default(), name), link }
    }

    /// The next messages, as long as they come within `wait` of each other.
    pub(crate) async fn hear(&self, wait: Duration) -> Vec<Message> {
        let mut heard = Vec::new();
        loop {
            let events = self.link.receive(100, wait).await.unwrap();
            if events.is_empty() {
                return heard;
            }
            heard.extend(events.iter().map(|event| Message::of(event, self.link.agent())));
        }
    }

    /// Listens until a message is what is looked for; gives all that came.
    pub(crate) async fn hear_until(&self, is_it: impl Fn(&Message) -> bool) -> Vec<Message> {
        let mut heard: Vec<Message> = Vec::new();
        let listening = async {
            while !heard.iter().any(&is_it) {
                let events = self.link.receive(100, Duration::from_secs(5)).await.unwrap();
                heard.extend(events.iter().map(|event| Message::of(event, self.link.agent())));
            }
        };
        let came = tokio::time::timeout(SOON, listening).await;
        assert!(came.is_ok(), "it did not come; heard {heard:#?}");
        heard
    }
}

pub(crate) fn file(agent: &str) -> AgentFile {
    AgentFile::new(agent.parse().unwrap(), "You are a careful agent.")
}

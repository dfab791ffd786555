//! A network of agents in one line: a folder with a `network.yaml` becomes a network that is served.
//!
//! It owns the wiring (store, memory, mods, transports) and the folder; what a network does is `longhaul-network`'s.
//! Invariant: what is served is what the file says, and everything that was changed of it is said in
//! [`Network::notices`].

mod error;
mod folder;
mod operator;

use std::{path::Path, sync::Arc};

use longhaul_a2a::{A2a, A2aSettings, Tasks};
use longhaul_core::{Ambient, Scope};
use longhaul_libp2p::{Libp2p, Libp2pSettings};
use longhaul_memory::Memory;
use longhaul_mods::Parts;
use longhaul_network::settings::NetworkSettings;
use longhaul_store::Store;
use longhaul_transports::{Extra, Serving};
use serde_json::{Map, Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub use error::{NetworkError, refusal_error_kind};
pub use folder::{FILE, Initialized, init};
pub use longhaul_libp2p as libp2p;
pub use longhaul_mods as mods;
pub use longhaul_network::{self as engine, *};
pub use operator::{Operating, Served};

use crate::{
    embedding,
    memories::{model, wiring},
    settings::{Settings, Sources},
    vectors,
};

/// The mods that search by meaning.
const EMBEDS: &[&str] = &["longhaul.mods.memory", "memory", "shared_memory", "longhaul.mods.decisions", "decisions"];

/// What is other than in the file.
#[derive(Default)]
pub struct StartOptions {
    /// The settings of this program; without them they are read as the program does.
    pub settings: Option<Settings>,
    /// The port of HTTP.
    pub http_port: Option<u16>,
    /// Every transport takes a free port of loopback, whatever the file says.
    pub any_ports: bool,
    /// Mods of this process beside those that come with the program. One that the file does not name comes last.
    pub mods: Vec<Arc<dyn Mod>>,
    /// The memory of the mods that search by meaning, in place of one with the model that the settings name.
    pub embedder: Option<Arc<dyn longhaul_memory::Embedder>>,
}

impl std::fmt::Debug for StartOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StartOptions").field("http_port", &self.http_port).finish_non_exhaustive()
    }
}

/// A network that is served from a folder.
///
/// ```no_run
/// # async fn example() -> Result<(), longhaul::network::NetworkError> {
/// let network = longhaul::Network::start("research").await?;
/// println!("{}", network.url().unwrap_or_default());
/// network.stop().await;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Network {
    engine: longhaul_network::Network,
    serving: Serving,
    libp2p: Option<Libp2p>,
    notices: Vec<String>,
    note: operator::Note,
    /// Embeds what is new, where there is a model.
    indexer: Option<(CancellationToken, JoinHandle<()>)>,
}

impl Network {
    /// Serves the network of this folder, as its `network.yaml` says.
    ///
    /// # Errors
    /// [`NetworkError`]: a file that is none, a store that cannot be opened, an address that is taken.
    pub async fn start(dir: impl AsRef<Path>) -> Result<Self, NetworkError> {
        Self::start_with(dir.as_ref(), StartOptions::default()).await
    }

    /// The same, with what is other than in the file.
    ///
    /// # Errors
    /// Those of [`Self::start`].
    pub async fn start_with(dir: &Path, options: StartOptions) -> Result<Self, NetworkError> {
        let longhaul_network::settings::Read { settings: mut wanted, mut notices } = folder::read(dir)?;
        set_ports(&mut wanted, &options);
        let state = folder::state(dir, &wanted)?;
        let ambient = Ambient::system();
        let store = Store::open(state.store(options.settings.as_ref())?, ambient.clone(), &migrations()).await?;
        let (memory, indexer) = memory(&store, &wanted, &options, &ambient, &mut notices)?;

        let mut mods = options.mods;
        notices.extend(longhaul_mods::unknown(&wanted.mods, &mods).into_iter().map(|name| {
            format!("network.mods: there is no mod {name:?}: it is left out; an external one joins as an agent")
        }));
        let mut all = longhaul_mods::builtin(&wanted.mods, &Parts::with_memory(store.clone(), memory))?;
        all.append(&mut mods);
        let (a2a_settings, said) = A2aSettings::read(&wanted);
        let a2a_is_served = serves_a2a(&wanted);
        if a2a_is_served {
            notices.extend(said);
            all.push(Arc::new(Tasks::new()));
        }
        let credential = operator::new_credential(&ambient);
        operator::admit(&mut wanted, &credential);
        let libp2p = wanted.transports.iter().find(|(kind, _)| kind == "libp2p").map(|(_, config)| config.clone());
        let engine = longhaul_network::Network::open(store, Scope::single_user(), wanted, all).await?;

        let mut extra = Extra::default();
        if a2a_is_served {
            let a2a = A2a::new(engine.clone(), a2a_settings);
            extra.http_routers.push(a2a.http());
            extra.grpc_routes.push(a2a.grpc());
            extra.grpc_descriptions.push(longhaul_a2a::FILE_DESCRIPTORS);
        }
        let libp2p = match libp2p {
            Some(config) => Some(start_libp2p(&engine, state.dir(), &config, &mut notices, &mut extra).await?),
            None => None,
        };
        let serving = Serving::start(engine.clone(), extra).await?;
        notices.extend(serving.notices().iter().cloned());
        let note = operator::note(&state, &engine, &serving, libp2p.as_ref(), credential)?;
        Ok(Self { engine, serving, libp2p, notices, note, indexer })
    }

    /// The network itself: to register, send, receive, look.
    #[must_use]
    pub fn engine(&self) -> &longhaul_network::Network {
        &self.engine
    }

    /// Where clients reach it over HTTP.
    #[must_use]
    pub fn url(&self) -> Option<String> {
        self.serving.url()
    }

    /// The transports as they listen.
    #[must_use]
    pub fn serving(&self) -> &Serving {
        &self.serving
    }

    /// The node, where libp2p is configured.
    #[must_use]
    pub fn libp2p(&self) -> Option<&Libp2p> {
        self.libp2p.as_ref()
    }

    /// What of the file was changed, not understood or left out, a line each.
    #[must_use]
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// Ends serving: open requests are answered, what was acknowledged is written, the network is given back.
    pub async fn stop(self) {
        self.note.remove();
        if let Some(libp2p) = self.libp2p {
            libp2p.stop().await;
        }
        self.serving.stop().await;
        self.engine.close().await;
        if let Some((end, indexer)) = self.indexer {
            end.cancel();
            let _ = indexer.await; // a task that only derives what can be derived again
        }
    }
}

/// The tables of everything that may be part of a network.
fn migrations() -> [longhaul_store::Migrations; 7] {
    [
        longhaul_durable::MIGRATIONS,
        longhaul_memory::MIGRATIONS,
        longhaul_knowledge::MIGRATIONS,
        longhaul_workspace::MIGRATIONS,
        longhaul_network::MIGRATIONS,
        longhaul_mods::MIGRATIONS,
        longhaul_a2a::MIGRATIONS,
    ]
}

fn set_ports(wanted: &mut NetworkSettings, options: &StartOptions) {
    if wanted.transports.is_empty() {
        wanted.transports = vec![("http".to_owned(), Map::new()), ("grpc".to_owned(), Map::new())];
    }
    for (kind, config) in &mut wanted.transports {
        if options.any_ports {
            config.insert("port".to_owned(), json!(0));
            config.insert("host".to_owned(), json!("127.0.0.1"));
        }
        if let (Some(port), "http") = (options.http_port, kind.as_str()) {
            config.insert("port".to_owned(), json!(port));
        }
    }
}

/// On the HTTP port, unless the file says that it is not wanted.
fn serves_a2a(wanted: &NetworkSettings) -> bool {
    let http = wanted.transports.iter().find(|(kind, _)| kind == "http").map(|(_, config)| config);
    http.is_some_and(|config| config.get("serve_a2a") != Some(&Value::Bool(false)))
}

type Indexer = (CancellationToken, JoinHandle<()>);

/// The memory of the mods; with a model only where a mod needs one, as it takes time and room.
fn memory(
    store: &Store,
    wanted: &NetworkSettings,
    options: &StartOptions,
    ambient: &Ambient,
    notices: &mut Vec<String>,
) -> Result<(Memory, Option<Indexer>), NetworkError> {
    let embeds = wanted.mods.iter().any(|(name, _)| EMBEDS.contains(&name.as_str()));
    if !embeds {
        return Ok((Memory::new(store.clone(), None), None));
    }
    let own;
    let settings = match &options.settings {
        Some(settings) => settings,
        None => {
            own = Settings::load(&Sources::of_this_process(None))?;
            &own
        }
    };
    let embedder = match &options.embedder {
        Some(embedder) => Some(embedder.clone()),
        None => {
            let (embedder, without) = model(settings, ambient)?;
            notices.extend(without.map(|why| format!("memory: words alone are searched, as {why}")));
            embedder
        }
    };
    let with_model = embedder.is_some();
    let memory = embedding::memory(store.clone(), embedder, settings);
    wiring::configure(&memory, &settings.memory).map_err(crate::MemoriesError::from)?;
    if let Some(server) = vectors::server(&settings.memory, ambient).map_err(crate::MemoriesError::from)? {
        memory.connect(server).map_err(crate::MemoriesError::from)?;
    }
    let indexer = with_model.then(|| {
        let (end, indexer) = (CancellationToken::new(), memory.indexer());
        let ended = end.clone();
        (end, tokio::spawn(async move { indexer.run(ended.cancelled()).await }))
    });
    Ok((memory, indexer))
}

async fn start_libp2p(
    engine: &longhaul_network::Network,
    folder: &Path,
    config: &Map<String, Value>,
    notices: &mut Vec<String>,
    extra: &mut Extra,
) -> Result<Libp2p, NetworkError> {
    let (settings, said) = Libp2pSettings::from_config(folder, config);
    notices.extend(said);
    let node = Libp2p::start(engine.clone(), settings).await?;
    let addresses: Vec<String> = node.addresses().iter().map(ToString::to_string).collect();
    extra.transports.push(json!({"type": "libp2p", "config": {"addresses": addresses}}));
    Ok(node)
}

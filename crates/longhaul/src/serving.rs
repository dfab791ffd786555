//! The gateway of a store: opened with every component that it speaks for, and served until it is told to stop.
//!
//! It owns how the parts are made from the settings; what is answered to whom is `longhaul-server`'s.

use std::collections::BTreeSet;

use longhaul_core::{Ambient, Scope};
use longhaul_durable::Runtime;
use longhaul_memory::Memory;
use longhaul_server::{
    Gateway, Limits, Parts, ServeError, Server, ServerSettings,
    keys::{KeyRing, MadeKey, NewKey},
};
use longhaul_store::{Store, StoreError, StoreSettings};
use tokio_util::sync::CancellationToken;

use crate::{
    ErrorKind, MemoriesError,
    memories::{model, store_named, wiring},
    settings::Settings,
    vectors,
};

/// Why a gateway does not serve, or its keys cannot be managed.
#[derive(Debug, thiserror::Error)]
pub enum ServingError {
    /// The store, or memory in it, cannot be opened.
    #[error(transparent)]
    Place(#[from] MemoriesError),
    /// The store fails.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The address or the certificate cannot be used.
    #[error(transparent)]
    Serve(#[from] ServeError),
}

impl ServingError {
    /// Who can do something about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Place(error) => error.kind(),
            Self::Store(StoreError::DiskFull { .. } | StoreError::Io { .. }) => ErrorKind::Environment,
            Self::Store(_) => ErrorKind::Failed,
            Self::Serve(_) => ErrorKind::Usage,
        }
    }
}

/// The gateway of one store, not yet listening.
pub struct Serving {
    gateway: Gateway,
    memory: Memory,
    no_model: Option<String>,
}

impl Serving {
    /// Opens a store, named as for [`crate::MemoriesPlace`]; the home's own is made where there is none. Callers may
    /// start these graphs.
    ///
    /// # Errors
    /// Those of opening the store and of memory.
    pub async fn open(
        settings: &Settings,
        store: Option<String>,
        graphs: BTreeSet<String>,
        limits: Limits,
    ) -> Result<Self, ServingError> {
        let ambient = Ambient::system();
        let store = open(store_named(settings, store, false)?, &ambient).await?;
        let (embedder, no_model) = model(settings, &ambient)?;
        let memory = crate::embedding::memory(store.clone(), embedder, settings);
        wiring::configure(&memory, &settings.memory).map_err(MemoriesError::from)?;
        if let Some(server) = vectors::server(&settings.memory, &ambient).map_err(MemoriesError::from)? {
            memory.connect(server).map_err(MemoriesError::from)?;
        }
        let runtime = Runtime::new(store.clone(), ambient);
        let gateway = Gateway::new(Parts { store, runtime, memory: memory.clone(), graphs }, limits);
        Ok(Self { gateway, memory, no_model })
    }

    /// Why nothing is embedded, if nothing is.
    #[must_use]
    pub fn no_model(&self) -> Option<&str> {
        self.no_model.as_deref()
    }

    /// Begins to listen; makes the store's first key where it has none, an owner's of the single user.
    ///
    /// # Errors
    /// [`ServingError::Serve`], [`ServingError::Store`].
    pub async fn bind(self, settings: ServerSettings) -> Result<(Listening, Option<MadeKey>), ServingError> {
        let keys = self.gateway.keys().clone();
        let server = Server::bind(self.gateway, settings).await?;
        let first = keys.create_first(NewKey::first(Scope::single_user())).await?;
        Ok((Listening { server, memory: self.memory }, first))
    }
}

/// A gateway that listens.
pub struct Listening {
    server: Server,
    memory: Memory,
}

impl Listening {
    /// Where clients reach it.
    #[must_use]
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// Serves until `shutdown` is cancelled and open requests have ended. What is added to memory gets its vectors
    /// meanwhile.
    pub async fn run(self, shutdown: CancellationToken) {
        let ended = shutdown.clone();
        let indexer = self.memory.indexer();
        let background = tokio::spawn(async move { indexer.run(ended.cancelled()).await });
        self.server.run(shutdown.clone()).await;
        shutdown.cancel();
        let _ = background.await; // a task that only derives what can be derived again
    }
}

/// The keys of a store, for whoever may open it: it need not be served at the moment, and where it is, a revocation is
/// heard of there.
///
/// # Errors
/// Those of opening the store.
pub async fn keys_of(settings: &Settings, store: Option<String>) -> Result<KeyRing, ServingError> {
    let store = open(store_named(settings, store, false)?, &Ambient::system()).await?;
    Ok(KeyRing::of(store))
}

async fn open(place: StoreSettings, ambient: &Ambient) -> Result<Store, StoreError> {
    let migrations = [
        longhaul_durable::MIGRATIONS,
        longhaul_memory::MIGRATIONS,
        longhaul_knowledge::MIGRATIONS,
        longhaul_workspace::MIGRATIONS,
        longhaul_server::MIGRATIONS,
    ];
    Store::open(place, ambient.clone(), &migrations).await
}

//! What the doors share that stay open: the pulse of the log, the streams' turns, the directory of endpoints.

use std::{sync::Arc, time::Duration};

use longhaul_store::{Store, StoreError};
use tokio::sync::{OnceCell, Semaphore};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    events::{Pulse, Turns},
    hooks::{
        Courier, WebhookSettings,
        endpoints::{Counts, Directory, Endpoint},
        schema,
    },
};

/// Bodies of webhooks that are read at once: nobody has shown a key for them.
const BODIES_MAX: usize = 64;

/// The bounds of streams and webhooks. Start from [`DoorSettings::default`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DoorSettings {
    /// Event streams at once.
    pub streams_max: usize,
    /// Event streams of one key at once.
    pub key_streams_max: usize,
    /// How often a stream on which nothing happens says so.
    pub heartbeat: Duration,
    /// Largest record that can be uploaded, bytes.
    pub upload_bytes_max: u64,
    /// Largest body of a webhook that comes in, bytes.
    pub hook_bytes_max: usize,
    /// Longest time for the arrival of such a body.
    pub hook_max: Duration,
    /// How webhooks are sent.
    pub webhooks: WebhookSettings,
}

impl Default for DoorSettings {
    fn default() -> Self {
        Self {
            streams_max: 1_000,
            key_streams_max: 32,
            heartbeat: Duration::from_secs(15),
            upload_bytes_max: 1024 * 1024 * 1024,
            hook_bytes_max: 256 * 1024,
            hook_max: Duration::from_secs(10),
            webhooks: WebhookSettings::default(),
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Doors {
    pub(crate) settings: DoorSettings,
    pub(crate) turns: Turns,
    pub(crate) pulse: Pulse,
    pub(crate) bodies: Semaphore,
    directory: Arc<Directory>,
    /// The directory has been read.
    loaded: OnceCell<()>,
    /// Ends what listens, together with the gateway.
    _listening: DropGuard,
}

impl Doors {
    /// To be called within a tokio runtime.
    pub(crate) fn new(store: &Store, settings: DoorSettings) -> Self {
        let ended = CancellationToken::new();
        let directory = Arc::new(Directory::default());
        tokio::spawn(ended.clone().run_until_cancelled_owned(keep_current(store.clone(), directory.clone())));
        Self {
            turns: Turns::new(settings.streams_max, settings.key_streams_max),
            pulse: Pulse::start(store, ended.clone()),
            bodies: Semaphore::new(BODIES_MAX),
            settings,
            directory,
            loaded: OnceCell::new(),
            _listening: ended.drop_guard(),
        }
    }

    /// The endpoints; read once, then followed.
    pub(crate) async fn endpoints(&self, store: &Store) -> Result<&Directory, StoreError> {
        self.loaded.get_or_try_init(|| self.directory.refresh(store)).await?;
        Ok(&self.directory)
    }

    /// An endpoint by its id, without looking at a row.
    pub(crate) async fn endpoint(
        &self,
        store: &Store,
        id: &str,
    ) -> Result<Option<(Arc<Endpoint>, Arc<Counts>)>, StoreError> {
        Ok(self.endpoints(store).await?.find(id))
    }

    /// The service that sends webhooks out; nothing, and a line in the log, where it cannot be had.
    pub(crate) fn courier(&self, store: &Store) -> Option<Courier> {
        let made = Courier::new(store.clone(), self.pulse.clone(), &self.settings.webhooks);
        made.inspect_err(|error| tracing::error!(%error, "no webhooks are sent by this process")).ok()
    }
}

async fn keep_current(store: Store, directory: Arc<Directory>) {
    let mut changes = store.listen(schema::CHANGED);
    while changes.next().await.is_some() {
        if let Err(error) = directory.refresh(&store).await {
            tracing::warn!(%error, "the endpoints of webhooks could not be read again");
        }
    }
}

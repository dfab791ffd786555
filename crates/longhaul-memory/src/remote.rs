//! Vectors in a server as well (`memory.uri`): the port, what the server lacks, and how a search uses both.
//!
//! Rows in the store stay the truth. The server has a copy of vectors that is filled in the background; what it lacks is
//! everything above a watermark (`memory_remote`), so nothing is queued that could be lost. Invariant: what a search
//! gives out was looked up in the rows of its snapshot, and every row that the server may lack is compared here.

mod asking;
mod batch;
mod leg;
mod migrate;
mod port;
mod replicate;
pub(crate) mod state;

use std::{
    collections::HashMap,
    future::Future,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::Notify;

use crate::{Memory, MemoryError, bits::Bits, namespace::PartitionId};

pub(crate) use asking::Asked;
pub(crate) use leg::{Leg, RemoteLeg};
pub use migrate::{Migrated, MigrationStep, RemoteState};
pub use port::{
    Ask, Batch, Capabilities, Mark, Near, Opened, RemoteError, RemoteFilter, RemoteRow, RemoteVectors, Space, Stored,
    TimeMs,
};
pub use replicate::Replicated;

/// How often the background task looks for rows that the server lacks.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// The first pause after a failure, and the longest.
const PAUSE_MIN: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// The server and what is known of it in this process.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) vectors: Arc<dyn RemoteVectors>,
    /// What this process calls itself when it takes work.
    holder: String,
    /// Held by the one in this process that replicates: the holder's name does not keep two of them apart, and of two a
    /// late batch would bring back what the other has taken out.
    turn: tokio::sync::Mutex<()>,
    health: Mutex<Health>,
    /// Rung when a server is back or was connected.
    wake: Notify,
    /// Which memories have a vector, up to which number; by partition and embedder.
    known: Mutex<HashMap<(PartitionId, String), (i64, Arc<Bits>)>>,
}

#[derive(Debug)]
struct Health {
    failures: u32,
    /// Until when it is not asked.
    away_until: Option<Instant>,
    /// What was wrong last.
    problem: String,
    /// It may have lost something since it was last looked at.
    is_suspect: bool,
}

impl Memory {
    /// Keeps a copy of all vectors in a server as well and searches there; rows stay where they are. Told once, before
    /// the first search; a second server is refused. Run [`Memory::indexer`] in one process at least: it fills the server.
    ///
    /// # Errors
    /// [`MemoryError::Field`] when there is a server already.
    pub fn connect(&self, vectors: Arc<dyn RemoteVectors>) -> Result<(), MemoryError> {
        let health = Health { failures: 0, away_until: None, problem: String::new(), is_suspect: true };
        let link = Link {
            vectors,
            holder: self.shared.store.ambient().ids.body(),
            turn: tokio::sync::Mutex::new(()),
            health: Mutex::new(health),
            wake: Notify::new(),
            known: Mutex::default(),
        };
        let place = link.vectors.place().to_owned();
        self.shared.remote.set(link).map_err(|_| crate::item::field("memory.uri", &place, "one server, told once"))
    }

    /// What the connected server can do; `None` without one.
    ///
    /// # Errors
    /// [`MemoryError::Remote`].
    pub async fn remote_capabilities(&self) -> Result<Option<Capabilities>, MemoryError> {
        let Some(link) = self.link() else { return Ok(None) };
        link.vectors.capabilities().await.map(Some).map_err(|source| link.error(source))
    }

    /// Names the connected server, without secrets.
    #[must_use]
    pub fn remote_place(&self) -> Option<&str> {
        self.link().map(|link| link.vectors.place())
    }

    pub(crate) fn link(&self) -> Option<&Link> {
        self.shared.remote.get()
    }

    /// The vectors of the configured embedder.
    pub(crate) fn space(&self) -> Option<Space> {
        let embedder = self.shared.embedder.as_ref()?;
        Some(Space { embedder: embedder.id().to_owned(), dimensions: embedder.dimensions() })
    }

    /// Fills the server in the background, for ever. Without a server it waits for one.
    pub(crate) fn replicating(&self) -> impl Future<Output = ()> + Send + '_ {
        async {
            loop {
                let pause = match self.replicate_pending().await {
                    Ok(_) => LOOK_EVERY,
                    Err(error) => {
                        let source = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
                        tracing::warn!(%error, source, "the vector server lacks rows; they are sent later");
                        self.link().map_or(PAUSE_MIN, Link::pause)
                    }
                };
                match self.link() {
                    Some(link) => link.pause_for(pause).await,
                    None => drop(tokio::time::timeout(PAUSE_MAX, std::future::pending::<()>()).await),
                }
            }
        }
    }
}

impl Link {
    fn health(&self) -> std::sync::MutexGuard<'_, Health> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the server may have lost something since it was last compared.
    fn is_suspect(&self) -> bool {
        self.health().is_suspect
    }

    fn went_well(&self) {
        let mut health = self.health();
        (health.failures, health.away_until, health.is_suspect) = (0, None, false);
    }

    fn failed(&self, error: &MemoryError) {
        // What the store refuses says nothing of the server.
        if let MemoryError::Remote { source, .. } = error {
            self.failed_with(source);
        }
    }

    fn failed_with(&self, source: &RemoteError) {
        let (RemoteError::Away(cause) | RemoteError::Lost(cause) | RemoteError::Unusable(cause)) = source;
        let mut health = self.health();
        health.failures = health.failures.saturating_add(1);
        health.is_suspect = true;
        health.problem = cause.to_string();
        let pause = pause_after(health.failures);
        health.away_until = Some(Instant::now() + pause);
        drop(health);
        if matches!(source, RemoteError::Lost(_)) {
            self.wake.notify_one();
        }
    }

    /// Why it is not to be asked just now.
    fn away(&self) -> Option<String> {
        let health = self.health();
        health.away_until.is_some_and(|until| Instant::now() < until).then(|| health.problem.clone())
    }

    /// Waits, or until there is news of the server.
    async fn pause_for(&self, pause: Duration) {
        // A timeout is as good a reason to look as a bell.
        let _ = tokio::time::timeout(pause, self.wake.notified()).await;
    }

    fn pause(&self) -> Duration {
        pause_after(self.health().failures)
    }
}

fn pause_after(failures: u32) -> Duration {
    PAUSE_MIN.saturating_mul(1 << failures.saturating_sub(1).min(10)).min(PAUSE_MAX)
}

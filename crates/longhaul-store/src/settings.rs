//! How and where a store is opened: plain data.

use std::path::PathBuf;

use crate::{PostgresAddress, StateKeys, StoreError, s3::S3Place};

/// Where a store keeps what it is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// The folder of `longhaul.db`, `blobs/` and `locks/`; made, with mode 0700, where it does not exist.
    Folder(PathBuf),
    /// A PostgreSQL database. `dir` is this machine's folder of `locks/`, made with mode 0700 where it does not exist:
    /// processes that give the same one see at once when another of them has died.
    Postgres {
        /// The database.
        address: PostgresAddress,
        /// The folder on this machine.
        dir: PathBuf,
    },
    /// This process's memory: nothing is on the disk, and everything is gone with the last handle.
    Memory,
}

/// How a store is opened. Start from [`StoreSettings::new`], [`StoreSettings::in_memory`] or
/// [`StoreSettings::from_url`].
#[derive(Debug, Clone)]
pub struct StoreSettings {
    /// Where everything is kept.
    pub place: Place,
    /// How long to wait for another process's transaction.
    pub busy_ms_max: u64,
    /// Reads that may run at once; more wait.
    pub readers_max: usize,
    /// Transactions that may wait for the writer; more wait for a place.
    pub queue_max: usize,
    /// Events a subscriber may lag behind before it must read the log again.
    pub subscriber_events_max: usize,
    /// Largest blob.
    pub blob_bytes_max: u64,
    /// The bucket that blobs go to in place of the disk or the database. What was put before it was set is still found
    /// where it is. Not for [`Place::Memory`].
    pub bucket: Option<Box<S3Place>>,
    /// With which components seal what they write, as far as they do; see [`StateKeys::from_env`].
    pub keys: Option<StateKeys>,
}

impl StoreSettings {
    /// The defaults, in this folder.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self::at(Place::Folder(dir.into()))
    }

    /// The defaults, in memory: for tests, and for work that need not outlive the process.
    #[must_use]
    pub fn in_memory() -> Self {
        Self::at(Place::Memory)
    }

    /// The defaults, in the PostgreSQL database `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, which has to exist; a
    /// folder on this machine holds what only this machine needs.
    ///
    /// # Errors
    /// [`StoreError::Address`], also for a host that is not this machine: connections are not encrypted yet.
    pub fn from_url(url: &str, dir: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let address = PostgresAddress::parse(url)?;
        Ok(Self::at(Place::Postgres { address, dir: dir.into() }))
    }

    fn at(place: Place) -> Self {
        Self {
            place,
            busy_ms_max: 10_000,
            readers_max: 4,
            queue_max: 1024,
            subscriber_events_max: 4096,
            blob_bytes_max: 16 * 1024 * 1024 * 1024,
            bucket: None,
            keys: None,
        }
    }
}

//! Why a network is not served, or its operator is not answered.

use std::{io, path::PathBuf};

use longhaul_libp2p::Libp2pError;
use longhaul_network::{Refusal, RefusalKind};
use longhaul_store::StoreError;
use longhaul_transports::ServeError;

use crate::{ErrorKind, MemoriesError, settings::SettingsError};

/// Why something that a network's operator asked for did not happen.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// The folder has no network.
    #[error("{dir} has no network.yaml; make one with `longhaul network init {dir}`")]
    NoNetwork {
        /// The folder.
        dir: PathBuf,
    },
    /// The folder has one already.
    #[error("{file} is there already; edit it, or remove it first")]
    Exists {
        /// The file.
        file: PathBuf,
    },
    /// Nobody serves the network.
    #[error("the network in {dir} is not being served; start it with `longhaul network start {dir}`")]
    NotServed {
        /// The folder.
        dir: PathBuf,
    },
    /// A file cannot be read or written.
    #[error("cannot use {path}: check that it exists and that this user may write it")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's words.
        #[source]
        source: io::Error,
    },
    /// The network said no.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The store cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A transport does not listen.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The libp2p node does not listen.
    #[error(transparent)]
    Libp2p(#[from] Libp2pError),
    /// The memory of the mods cannot be used as the settings want it.
    #[error(transparent)]
    Memories(#[from] MemoriesError),
    /// The program's settings make no sense.
    #[error(transparent)]
    Settings(#[from] SettingsError),
}

impl NetworkError {
    /// What can be done about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NoNetwork { .. } | Self::Exists { .. } | Self::NotServed { .. } | Self::Settings(_) => {
                ErrorKind::Usage
            }
            Self::Io { .. } | Self::Store(_) | Self::Serve(_) | Self::Libp2p(_) => ErrorKind::Environment,
            Self::Memories(error) => error.kind(),
            Self::Refused(refusal) => refusal_error_kind(refusal),
        }
    }
}

/// What can be done about a no of a network's.
#[must_use]
pub fn refusal_error_kind(refusal: &Refusal) -> ErrorKind {
    match refusal.kind {
        RefusalKind::Invalid
        | RefusalKind::Unauthenticated
        | RefusalKind::Forbidden
        | RefusalKind::Missing
        | RefusalKind::Conflict
        | RefusalKind::TooLarge => ErrorKind::Usage,
        RefusalKind::TooMany | RefusalKind::TimedOut | RefusalKind::Unavailable => ErrorKind::Retry,
    }
}

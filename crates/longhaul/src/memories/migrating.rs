//! Moving vectors between the embedded engine and a server, for a person who changes `memory.uri`.
//!
//! It owns which way it goes and what to write into the settings afterwards; moving and verifying is memory's. Invariant:
//! settings are not touched, so whoever stops half-way is where they were.

use longhaul_memory::remote::{Migrated, MigrationStep};

use super::{Memories, MemoriesError};
use crate::vectors;

/// Where the vectors are to be searched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MigrateTo {
    /// In the server at this address: `http://host:19530`.
    Server(String),
    /// By the embedded engine.
    Embedded {
        /// Whether the copy in the server that the settings name is removed afterwards.
        drop: bool,
    },
}

/// What a move came to, and what is left to be done by hand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Migration {
    /// What was moved and verified.
    pub migrated: Migrated,
    /// The line to write into `longhaul.toml`, section `memory`; nothing when it is so already.
    pub setting: Option<String>,
}

impl Memories {
    /// Brings the other side up to the rows and verifies it by count and by sample. Started again it goes on where it was.
    ///
    /// # Errors
    /// [`MemoriesError::Server`] for an address that cannot be used; those of [`longhaul_memory::Memory::migrate_to_remote`]
    /// and its counterpart.
    pub async fn migrate(
        &self,
        to: &MigrateTo,
        progress: &mut (dyn FnMut(MigrationStep) + Send),
    ) -> Result<Migration, MemoriesError> {
        match to {
            MigrateTo::Server(uri) => {
                let server = vectors::at(uri, &self.settings, &self.ambient)?;
                let is_connected = self.memory.remote_place() == Some(server.place());
                if !is_connected {
                    self.memory.connect(server.clone())?;
                }
                let migrated = self.memory.migrate_to_remote(progress).await?;
                let setting = (!is_connected).then(|| format!("uri = \"{}\"", server.place()));
                Ok(Migration { migrated, setting })
            }
            MigrateTo::Embedded { drop } => {
                let migrated = self.memory.migrate_from_remote(*drop, progress).await?;
                let line = "remove the line `uri = …` (and MILVUS_URI from the environment)".to_owned();
                Ok(Migration { migrated, setting: Some(line) })
            }
        }
    }
}

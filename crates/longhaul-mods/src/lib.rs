//! What comes with a network: messaging, forum, wiki, social graph, caches, feed, shared memory, and agents.
//!
//! Each mod is a module: its manifest (from which the docs and the models' tools are made), its events, its rows. It
//! owns no delivery and no registry; both are `longhaul-network`'s. Invariants: a mod writes rows in the transaction of
//! the event that caused them and nowhere else; every row carries tenant and network; every payload is read through
//! [`shape::Fields`], which knows both shapes that clients send.
//!
//! ```
//! use longhaul_core::Ambient;
//! use longhaul_mods::{Parts, builtin};
//! use longhaul_store::{Store, StoreSettings};
//!
//! # let folder = tempfile::tempdir()?;
//! # let runtime = tokio::runtime::Runtime::new()?;
//! # runtime.block_on(async {
//! let migrations = [longhaul_memory::MIGRATIONS, longhaul_workspace::MIGRATIONS, longhaul_mods::MIGRATIONS];
//! let store = Store::open(StoreSettings::new(folder.path()), Ambient::system(), &migrations).await?;
//! let wanted = [("messaging".to_owned(), serde_json::Map::new())];
//! let mods = builtin(&wanted, &Parts::new(store))?;
//! assert_eq!(mods[0].manifest().name, "openagents.mods.workspace.messaging");
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

mod acting;
pub mod agents;
mod artifacts;
mod audience;
mod cache;
mod catalogue;
mod delegation;
mod describe;
mod feed;
mod files;
mod finding;
mod forum;
mod memory;
mod messaging;
mod offered;
mod place;
mod schema;
pub mod shape;
mod social;
mod wiki;

pub use catalogue::{BUILTIN, BuiltIn, Parts, builtin, manifests, unknown};
pub use schema::MIGRATIONS;

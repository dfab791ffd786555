//! The gateway: Longhaul over HTTP, for whoever has a key.
//!
//! It owns who may come in ([`keys`]), as whom ([`Caller`]), how much and how often, what is written down of each change
//! (the audit log), and the views that leave over the wire. It holds no state of tasks: every answer comes from the
//! owner of the rows. Invariant: nothing is answered to a stranger but the health of the process and the API's
//! description, and no handler gets a scope from anywhere but from the key the caller has shown.
//!
//! ```
//! use longhaul_core::{Ambient, Scope};
//! use longhaul_durable::Runtime;
//! use longhaul_memory::Memory;
//! use longhaul_server::{Gateway, Limits, Parts, Server, ServerSettings, keys::{NewKey, Role}};
//! use longhaul_store::{Store, StoreSettings};
//!
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! let sets = [longhaul_durable::MIGRATIONS, longhaul_memory::MIGRATIONS, longhaul_server::MIGRATIONS];
//! let store = Store::open(StoreSettings::in_memory(), Ambient::system(), &sets).await?;
//! let runtime = Runtime::new(store.clone(), Ambient::system());
//! let memory = Memory::new(store.clone(), None);
//! let gateway = Gateway::new(Parts { store, runtime, memory, graphs: [].into() }, Limits::default());
//! let key = gateway.keys().create(NewKey::first(Scope::single_user())).await?;
//! assert_eq!(key.key.role, Role::Owner);
//!
//! // A free port of loopback; other addresses need TLS.
//! let server = Server::bind(gateway, ServerSettings::new("127.0.0.1:0".parse()?)).await?;
//! assert!(server.url().starts_with("http://127.0.0.1:"));
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

mod admission;
mod caller;
mod change;
mod doors;
pub mod events;
mod gateway;
mod guard;
pub mod hooks;
mod input;
pub mod keys;
mod limits;
mod openapi;
mod page;
mod problem;
mod rate;
mod refused;
mod routes;
mod schema;
mod serve;
mod text;
mod trace;
mod words;

pub use caller::Caller;
pub use doors::DoorSettings;
pub use gateway::{Gateway, Parts};
pub use limits::Limits;
pub use openapi::document;
pub use problem::{Problem, ProblemBody};
pub use schema::MIGRATIONS;
pub use serve::{ServeError, Server, ServerSettings, TlsFiles};

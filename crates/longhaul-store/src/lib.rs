//! The state store: one transaction type for every crate's rows, with migrations, the event log, leases and blobs.
//!
//! It owns durability: what [`Store::write`] has acknowledged survives a crash and a power cut. It does not know what
//! the rows of other crates mean. Two processes may use one store at the same time.
//!
//! ```
//! use longhaul_core::{Ambient, EventDraft, Scope};
//! use longhaul_store::{Migrations, Store, StoreError, StoreSettings, events, tasks, values};
//!
//! const NOTES: Migrations = Migrations {
//!     component: "notes",
//!     steps: &["CREATE TABLE notes (tenant_id TEXT NOT NULL, note_id INTEGER NOT NULL, text TEXT NOT NULL,
//!               PRIMARY KEY (tenant_id, note_id)) STRICT"],
//! };
//!
//! # let folder = tempfile::tempdir()?;
//! # let runtime = tokio::runtime::Runtime::new()?;
//! # runtime.block_on(async {
//! let store = Store::open(StoreSettings::new(folder.path()), Ambient::system(), &[NOTES]).await?;
//! let scope = Scope::single_user();
//!
//! // A row of our own, a task and an event: together or not at all.
//! let writer = scope.clone();
//! let task = store
//!     .write(move |tx| {
//!         let task = tasks::create(tx, &writer, None, tasks::NewTask {
//!             thread: "project_001".parse().expect("a literal thread id"),
//!             kind: "notes".into(), title: "take notes".into(), dir: None, model: None, data: serde_json::json!({}),
//!         })?;
//!         tx.execute("INSERT INTO notes VALUES (?1, ?2, ?3)", &values![&writer.tenant, 1, "remember the milk"])?;
//!         tx.append_event(&task.scope, None, None, EventDraft::business("note.taken", serde_json::json!({"n": 1})))?;
//!         Ok::<_, StoreError>(task)
//!     })
//!     .await?;
//!
//! let seen = store.read(move |read| events(read, &scope, Some(&task.scope.task), 0, 10)).await?;
//! assert_eq!(seen[0].kind, "note.taken");
//! # Ok::<_, StoreError>(())
//! # })?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

mod backup;
mod blobs;
mod bucket;
mod compaction;
mod connection;
mod ends;
pub mod erasing;
mod error;
mod events;
mod faults;
mod heartbeat;
mod lease;
mod locks;
mod migrations;
mod notices;
mod postgres;
mod references;
pub mod s3;
mod schema;
mod seal;
mod settings;
mod shelf;
mod sqlite;
mod store;
mod sweep;
pub mod tasks;
mod tx;
mod value;
mod verify;
mod writer;

pub use backup::{Backup, BackupProgress};
pub use blobs::{Blobs, encoding::Encoding, stream::BlobReader};
pub use compaction::Compaction;
pub use ends::IdStanding;
pub use error::{Cause, StoreError};
pub use events::{events, events_of};
pub use faults::Faults;
pub use lease::{Holder, Lease, LeaseClaim, LeaseError, LeaseToken, give_back, lease_holder};
pub use migrations::Migrations;
pub use notices::{NOTICE_BYTES_MAX, Notice, Notices};
pub use postgres::PostgresAddress;
pub use schema::MIGRATIONS;
pub use seal::{STATE_KEY, StateKeys, StateKeysError};
pub use settings::{Place, StoreSettings};
pub use store::Store;
pub use sweep::Swept;
pub use tx::{ReadTx, Tx};
pub use value::{Cell, FromValue, Row, Value};
pub use verify::{Check, Finding, Look, Report, Severity};

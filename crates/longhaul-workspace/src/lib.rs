//! Records with content, and the typed links between them.
//!
//! A record is something worth keeping: evidence of a verdict, an unfinished patch, a note. Its content lives once, as
//! a blob; everybody else carries the small [`RecordRef`]. This crate does not decide what to remember, and it is no
//! business database.
//!
//! ```no_run
//! # async fn example(store: longhaul_store::Store, owner: longhaul_core::TaskScope) -> Result<(), longhaul_workspace::WorkspaceError> {
//! use longhaul_workspace::{Kind, NewRecord, Workspace};
//!
//! let workspace = Workspace::new(store.clone(), longhaul_core::Ambient::system());
//! let draft = NewRecord {
//!     collection: "evidence".into(),
//!     kind: Kind::Evidence,
//!     media_type: "text/plain".into(),
//!     summary: "console output of the failing flow".into(),
//!     source: "verifier".into(),
//! };
//! let record = workspace.stage(&owner, draft, b"TypeError: x is undefined").await?; // content is on disk, not yet visible
//! let kept = record.clone();
//! store.write(move |tx| kept.commit(tx)).await?; // row and whatever else belongs to it, in one transaction
//! assert_eq!(workspace.read(&owner.scope, &record.reference().id).await?.1, b"TypeError: x is undefined");
//! # Ok(()) }
//! ```

mod error;
mod links;
mod records;

pub use error::WorkspaceError;
pub use links::{Link, Relation, link, links_from};
pub use records::{Kind, NewRecord, Record, RecordRef, StagedRecord, Workspace};

use longhaul_store::Migrations;

/// Tables of records and links, and the word to the store that records hold blobs.
pub const MIGRATIONS: Migrations = Migrations { component: "workspace", steps: &[TABLES, HOLDS_BLOBS] };

const TABLES: &str = "create table records (
        tenant_id text not null,
        record_id text not null,
        task_id text not null,
        collection text not null,
        kind text not null,
        media_type text not null,
        summary text not null,
        source text not null,
        digest text not null,
        size integer not null,
        created_at integer not null,
        schema integer not null,
        primary key (tenant_id, record_id)
    );
    create index records_by_task on records (tenant_id, task_id, collection, created_at);
    create table links (
        tenant_id text not null,
        source_id text not null,
        relation text not null,
        target_id text not null,
        created_at integer not null,
        primary key (tenant_id, source_id, relation, target_id)
    );
    create index links_by_target on links (tenant_id, target_id);";

const HOLDS_BLOBS: &str =
    "insert into blob_references (component, query) values ('workspace', 'select tenant_id, digest from records')";

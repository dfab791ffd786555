//! Records with content, the typed links between them, milestones, conversations, and what of all that belongs into the
//! next round.
//!
//! A record is something worth keeping: a draft, evidence of a verdict, a note. Its content lives once, in a row or as a
//! blob; everybody else carries the small [`RecordRef`]. Every handle is opened with whose data it is. This crate does
//! not decide what to remember, and it is no business database.
//!
//! ```
//! use longhaul_core::{Ambient, TaskScope};
//! use longhaul_memory::Memory;
//! use longhaul_store::{Store, StoreSettings};
//! use longhaul_workspace::{Ingest, Kind, NewLink, Relation, Workspace};
//!
//! # let folder = tempfile::tempdir()?;
//! # let runtime = tokio::runtime::Runtime::new()?;
//! # runtime.block_on(async {
//! let migrations = [longhaul_memory::MIGRATIONS, longhaul_workspace::MIGRATIONS];
//! let store = Store::open(StoreSettings::new(folder.path()), Ambient::system(), &migrations).await?;
//! let workspace = Workspace::new(store.clone(), Memory::new(store, None));
//! let task = workspace.task(&TaskScope::single_user());
//!
//! let log = Ingest::new(Kind::Evidence, "evidence", "console of the failing flow", "tool:browser", "TypeError: x");
//! let seen = task.ingest(log).await?;
//! let choice = Ingest::new(Kind::Decision, "decisions", "repair x before anything else", "agent", "x is undefined");
//! let decided = task.ingest(choice).await?;
//! task.link(NewLink::new(&seen.id, Relation::Supports, &decided.id)).await?;
//!
//! assert_eq!(task.read(&seen).await?.1, b"TypeError: x"); // verified against the digest in the ref
//! # Ok::<_, longhaul_workspace::WorkspaceError>(())
//! # })?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

mod access;
mod content;
pub mod context;
pub mod erasing;
mod error;
mod evidence;
mod find;
mod ingest;
mod links;
mod list;
mod milestones;
mod parts;
mod record;
mod retention;
pub mod review;
mod schema;
mod schema_check;
pub mod sessions;
mod staged;
pub mod tokens;
mod workspace;

pub use access::{partition_of, talk_partition_of};
pub use content::ContentReader;
pub use error::WorkspaceError;
pub use evidence::{DEPTH_MAX, EvidenceGraph, EvidenceNode, NODES_MAX, Toward};
pub use find::{Find, Found, HITS_MAX, Hit, TASKS_SEARCHED_MAX};
pub use ingest::{Content, Ingest};
pub use links::{LINKS_MAX, Link, NewLink, Relation, link};
pub use list::{Filter, PAGE_MAX, Page, TaskRecords};
pub use milestones::{Milestone, NewMilestone, reach};
pub use parts::source_of;
pub use record::{Kind, Record, RecordRef, Wanted};
pub use retention::{RetentionRule, Tended, remove_expired};
pub use schema::MIGRATIONS;
pub use staged::StagedRecord;
pub use tokens::{CorrectedEstimator, Estimator, TokenCounter, TokenizerFile, UsageReport, UsageReports};
pub use workspace::{TaskWorkspace, UserWorkspace, Workspace};

/// The examples of the repository's page on the workspace are compiled and run.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../docs/workspace.md")]
    struct Workspace;
}

//! Long-term memory: local embeddings and hybrid search over rows in the store.
//!
//! Rows live in the store and are written in the caller's transaction; keyword index and vectors are derived from them
//! (invariant 8). Every call is scoped to a tenant (invariant 7), and searching never writes (invariant 9).
//!
//! ```
//! use longhaul_core::{Ambient, Scope};
//! use longhaul_memory::{Kind, Memory, NewMemory, Query, Source};
//! use longhaul_store::{Store, StoreSettings};
//!
//! # let folder = tempfile::tempdir()?;
//! # let runtime = tokio::runtime::Runtime::new()?;
//! # runtime.block_on(async {
//! let store = Store::open(StoreSettings::new(folder.path()), Ambient::system(), &[longhaul_memory::MIGRATIONS]).await?;
//! // With `Some(Arc::new(LocalModel::open(&dir)?))` it is searched by meaning as well.
//! let memory = Memory::new(store, None);
//! let scope = Scope::single_user();
//!
//! memory.add(&scope, NewMemory::new("project", Kind::Note, Source::Agent, "侧栏有新建会话按钮")).await?;
//! let recall = memory.search(&scope, &Query::new("会话", 5)).await?;
//! assert_eq!(recall.hits[0].item.content, "侧栏有新建会话按钮");
//! # Ok::<_, longhaul_memory::MemoryError>(())
//! # })?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

mod access;
pub mod actions;
mod bits;
mod change;
mod check;
mod columns;
mod edit;
mod embed;
pub mod embedding;
mod error;
pub mod eval;
mod filter;
mod indexer;
mod item;
mod keyword;
mod life;
mod list;
pub mod measure;
mod memory;
mod namespace;
mod query;
mod rank;
pub mod remote;
mod reuse;
mod rows;
mod schema;
mod search;
mod snapshot;
mod text;
pub mod tools;
mod transfer;
pub mod user;
mod vectors;
pub mod when;
mod words;

pub use access::{Grantee, PartitionInfo};
pub use check::CHECKS;
pub use edit::Edit;
pub use embed::Embedder;
pub use embedding::LocalModel;
pub use error::{EmbedError, MemoryError};
pub use indexer::{Indexed, Indexer};
pub use item::{
    CONTENT_BYTES_MAX, Fact, Index, Item, Kind, META_BYTES_MAX, NewMemory, Prepared, Source, TAGS_MAX, Tier,
};
pub use life::{
    ColdError, ColdLimits, ColdPlace, Compacted, Credential, Erased, Forget, KindRule, Moved, PastFact, Receipt,
    S3Place, Tended, TierJudge, TierRules, TierStats, Trace, UseCount, traces,
};
pub use list::{Page, Stats};
pub use memory::Memory;
pub use namespace::{KNOWLEDGE_PREFIX, Namespace};
pub use query::{CONDITIONS_MAX, Condition, HITS_MAX, Hit, Mode, Op, Query, Recall, Tiers};
pub use rank::{
    Decay, Explain, HalfLives, Importance, Leg, LegWeights, RankSettings, Rule, TAG_ACTION, TAG_CACHE, TAG_TEMPORARY,
};
pub use schema::MIGRATIONS;
pub use transfer::{ExportOptions, Exported, ImportOptions, Imported, Position, Problem, TransferError};

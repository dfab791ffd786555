//! Versioned, read-only corpora: documents in, passages with citations out.
//!
//! A path becomes a version of a corpus: its files are read (text, Markdown, HTML, PDF), divided along their structure,
//! and written as memories into a partition of their own, which is frozen when all of them are in. Old versions stay.
//! Task state is never written back (M14): a frozen partition refuses every write.
//!
//! ```
//! use longhaul_core::{Ambient, Scope};
//! use longhaul_knowledge::{Addition, Knowledge, KnowledgeQuery};
//! use longhaul_memory::Memory;
//! use longhaul_store::{Store, StoreSettings};
//!
//! # let folder = tempfile::tempdir()?;
//! # let runtime = tokio::runtime::Runtime::new()?;
//! # runtime.block_on(async {
//! let migrations = [longhaul_memory::MIGRATIONS, longhaul_knowledge::MIGRATIONS];
//! let store = Store::open(StoreSettings::new(folder.path()), Ambient::system(), &migrations).await?;
//! let knowledge = Knowledge::new(store.clone(), Memory::new(store, None));
//! let scope = Scope::single_user();
//!
//! let guide = folder.path().join("guide.md");
//! std::fs::write(&guide, "# Guide\n\n## Pausing\n\nAn approval pauses the run.\n").unwrap();
//! knowledge.add(&scope, &Addition::new(&guide, "guide".parse()?), |_progress| true).await?;
//! let query = KnowledgeQuery { text: "what pauses a run?".to_owned(), k: 3, corpora: Vec::new() };
//! let answer = knowledge.search(&scope, &query).await?;
//! assert_eq!(answer.passages[0].citation, "guide@1 guide.md:5");
//! assert_eq!(answer.passages[0].heading, "Guide › Pausing");
//! # Ok::<_, longhaul_knowledge::KnowledgeError>(())
//! # })?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

pub mod block;
mod build;
mod chunk;
mod corpus;
mod decode;
mod error;
mod knowledge;
pub mod parse;
mod reading;
mod schema;
mod search;
mod tokens;
mod walk;

pub use build::{Added, Addition, BuildProgress, CHUNK_TOKENS};
pub use chunk::{Chunk, chunks};
pub use corpus::{CorpusName, CorpusRef, Difference, FileInfo, State, Version};
pub use error::KnowledgeError;
pub use knowledge::Knowledge;
pub use longhaul_memory::Grantee;
pub use parse::{Refusal, parse};
pub use reading::FILE_BYTES_MAX;
pub use schema::MIGRATIONS;
pub use search::{Answer, KnowledgeQuery, Passage};
pub use tokens::estimate as estimate_tokens;
pub use walk::{FILES_MAX, Selection};

//! Milvus as an index of memory: a small gRPC client, and the port of `longhaul-memory` over it.
//!
//! It owns the words on the wire, the layout of a collection, and what to do about a server that is away, slow or
//! talking nonsense. It does not know what memory does with the answers; there, rows are looked up in the store, so a
//! stale answer does no harm. Invariant: every call ends within its limit, and no secret is printed.
//!
//! ```no_run
//! use longhaul_core::Ambient;
//! use longhaul_memory::remote::{RemoteVectors, Space};
//! use longhaul_milvus::{Address, Milvus, MilvusSettings};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let settings = MilvusSettings::new(Address::parse("http://127.0.0.1:19530")?);
//! let milvus = Milvus::new(settings, Ambient::system())?;
//! let space = Space { embedder: "all-MiniLM-L6-v2".into(), dimensions: 384 };
//! milvus.open(&space).await?;
//! assert_eq!(milvus.count(&space, "store/tenant_default/main").await?, 0);
//! # Ok(())
//! # }
//! ```

mod address;
mod client;
mod collection;
mod error;
mod expression;
mod index;
mod layout;
mod milvus;
mod probe;
mod proto;

pub use address::{Address, Token};
pub use error::MilvusError;
pub use index::Index;
pub use milvus::{Milvus, MilvusSettings};

//! Real servers for tests: a private PostgreSQL cluster, a private Milvus, an S3 server; they end with their test process.
//!
//! It owns the server's life: its folder, its port on loopback, its password, starting, stopping, killing and cutting
//! connections. It does not know what is stored there, and no crate uses it outside of tests. Invariant: however the
//! test process ends, SIGKILL included, its server ends and its folder goes.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let cluster = longhaul_testbed::PrivateCluster::shared()?;
//! let database = cluster.create_database()?;
//! assert!(database.url().starts_with("postgres://longhaul:"));
//! database.cut_connections()?;
//! # Ok(())
//! # }
//! ```

mod cluster;
mod milvus;
mod s3;
mod server;

pub use cluster::{Database, PrivateCluster};
pub use milvus::{MilvusKind, MilvusOptions, MilvusServer};
pub use s3::{S3Server, serve_s3_if_asked};
pub use server::TestbedError;

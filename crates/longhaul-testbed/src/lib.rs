//! Real servers for tests: a private PostgreSQL cluster that ends with its test process.
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
mod server;

pub use cluster::{Database, PrivateCluster};
pub use server::TestbedError;

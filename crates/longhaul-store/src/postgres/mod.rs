//! PostgreSQL behind the store's own types.
//!
//! It owns everything that only PostgreSQL needs: addresses, connections, translation of SQL and of errors, the writer
//! and its receipts, notices, blobs in rows. It does not know what the rows of other crates mean.
//!
//! One write transaction at a time takes place in a database, whichever process it comes from: each begins with an
//! advisory lock that it holds until its end. So what a closure reads in a write transaction is true until its commit,
//! as on SQLite; two closures can never deadlock; and the numbers of events grow in the order of their commits, so that
//! whoever asks for what came after number n misses nothing. The transactions of one process that wait at the same
//! moment share one commit.

mod address;
pub(crate) mod blobs;
mod cell;
mod dialect;
pub(crate) mod engine;
mod failure;
mod listener;
mod migrate;
pub(crate) mod session;
mod writer;

pub use address::PostgresAddress;
pub(crate) use cell::Raw;

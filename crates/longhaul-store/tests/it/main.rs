//! The store's behaviour at its boundary, on real files.

mod support;
mod transactions;

//! The tests at this crate's boundaries.

mod agents;
mod catalogue;

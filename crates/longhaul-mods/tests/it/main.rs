//! The tests at this crate's boundaries.

mod agents;
mod catalogue;
mod ground;
mod messaging;
mod sharing;

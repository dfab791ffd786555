//! The tests at this crate's boundaries.

mod agents;
mod catalogue;
mod forum;
mod ground;
mod hall;
mod memory;
mod messaging;
mod sharing;
mod tasks;
mod third_party;
mod wiki;

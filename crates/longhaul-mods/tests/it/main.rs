//! The tests at this crate's boundaries.

mod agents;
mod catalogue;
mod ground;
mod messaging;
mod sharing;
mod forum;
mod hall;
mod memory;
mod tasks;
mod wiki;
mod third_party;

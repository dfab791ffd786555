//! The tests at this crate's boundaries.

mod catalogue;
mod forum;
mod hall;
mod memory;
mod tasks;
mod wiki;

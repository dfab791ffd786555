//! The tests at this crate's boundaries.

mod catalogue;
mod ground;
mod messaging;
mod sharing;

//! The tests at this crate's boundaries.

mod catalogue;

//! The life of a memory: how it expires, cools, warms up again, is superseded, and is erased.
//!
//! It owns what becomes of rows after they were written; how they are found is `search`'s. Invariants: nothing here runs
//! in a search but reading; what is moved is at any moment in one tier, whole; what is erased is in none.

mod error;
mod objects;
mod place;
mod rules;
mod segment;

pub use error::ColdError;
pub use objects::Limits as ColdLimits;
pub use place::{ColdPlace, Credential, S3Place};
pub use rules::{KindRule, TierRules};

//! Context packs: what of the records, the conversations and the memory belongs into the next round, within a budget.
//!
//! It owns the choice and its words: what went in under which label, what was left out and why. Invariants: a pack is
//! never over its budget, every candidate is an item or an omission, and building one writes nothing.

mod build;
mod error;
mod fence;
mod fill;
mod gather;
mod pack;
mod profile;
mod reach;
mod same;
mod snapshot;
mod weigh;

pub use build::{BUDGET_TOKENS_DEFAULT, ContextRequest, Contexts};
pub use error::ContextError;
pub use pack::{ContextPack, Found, Label, Omitted, Origin, PackItem, Reason, Score, Searched};
pub use profile::{Order, Profile, Profiles, Tokenizer};

//! Context packs: what of the records, the conversation and the memory belongs into the next round, within a budget.
//!
//! It owns the choice and its words: what went in under which label, what was left out and why. Invariants: a pack is
//! never over its budget, every candidate is an item or an omission, and building one writes nothing.

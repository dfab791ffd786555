//! Behaviour of long-term memory at its public boundary, on a real store and the real embedding model.

mod actions;
mod change;
mod derived;
mod editing;
mod figures;
mod fresh;
mod ground;
mod input;
mod life;
mod listing;
mod local;
mod migration;
mod models;
mod namespaces;
mod place;
mod ranking;
mod recall;
mod scope;
mod tenants;
mod user_edits;
mod user_gate;
mod user_learning;
mod user_versions;

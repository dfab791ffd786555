//! Behaviour of long-term memory at its public boundary, on a real store and the real embedding model.

mod actions;
mod derived;
mod figures;
mod ground;
mod input;
mod minilm;
mod place;
mod recall;
mod scope;
mod user_edits;
mod user_gate;
mod user_learning;
mod user_versions;

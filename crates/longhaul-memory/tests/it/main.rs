//! Behaviour of long-term memory at its public boundary, on a real store and the real embedding model.

mod derived;
mod figures;
mod input;
mod local;
mod models;
mod place;
mod recall;
mod scope;

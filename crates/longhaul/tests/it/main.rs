//! All crates at once: what no part may do, whose everything is; and the examples as a person runs them, real processes
//! that are killed on the way.

#![cfg(test)]
#![expect(clippy::unwrap_used, reason = "a test that cannot set its scene has failed")]

mod compiler;
mod document_review;
mod guards;
mod identity;
mod network_folder;
mod network_safety;
mod one_network;
mod processes;
mod research;
mod town;

//! What no part of Longhaul may do, and whose everything is: over all crates at once.

#![cfg(test)]
#![expect(clippy::unwrap_used, reason = "a test that cannot set its scene has failed")]

mod compiler;
mod guards;
mod identity;
//! The examples, as a person runs them: real processes, killed on the way, and what they leave in the store.

#[cfg(test)]
mod document_review;
#[cfg(test)]
mod processes;
#[cfg(test)]
mod research;

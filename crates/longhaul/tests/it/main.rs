//! What no part of Longhaul may do, and whose everything is: over all crates at once.

#![cfg(test)]
#![expect(clippy::unwrap_used, reason = "a test that cannot set its scene has failed")]

mod compiler;
mod guards;
mod identity;

//! Behaviour of corpora at their boundaries: files in, chunks and citations out, on real stores.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod access;
mod chunking;
mod corpora;
mod files;
mod fixture;

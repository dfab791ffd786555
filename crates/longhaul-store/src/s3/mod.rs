//! Buckets of S3-compatible services, for whatever is kept in one: places, and clients that are made as we want them.
//!
//! It does not know what is kept there. Invariant: no credential is printed.

mod client;
mod place;

pub use client::{S3Limits, open};
pub use place::{Credential, S3Error, S3Place};

//! Reviewed write-back of shared knowledge: proposed with its evidence, approved or rejected by somebody, versioned,
//! rolled back.
//!
//! Invariant: what nobody has approved is found by nobody who asks for facts.

pub(crate) mod schema;

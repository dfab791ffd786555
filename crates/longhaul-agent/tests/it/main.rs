//! Behaviour of the agent crate at its boundary, with the real client and a cassette served over the real protocol.

mod holding;
mod proposing;
mod talking;

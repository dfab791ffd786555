//! Cassettes: written stories of replies, and the server that plays them over the real wire protocol.
//!
//! A cassette stands in for a language model and for nothing else; the client in front of it, and everything the
//! replies cause, is real.

mod cache;
mod conversation;
mod file;
mod log;
mod protocol;
mod record;
mod reply;
mod select;
mod server;

pub use file::{Cassette, CassetteError, Problem};
pub use log::{Served, ServedOutcome};
pub use record::{CassetteRecorder, RecorderError, RecorderSettings};
pub use server::{CassetteServer, CassetteServerError, CassetteServerSettings};

//! The real client against the real cassette server, and against a server that lies.

#![expect(clippy::unwrap_used, reason = "a test that cannot set its scene has failed")]

mod cassette_file;
mod cassette_server;
mod client;
mod embeddings;
mod liar;
mod official;
mod protocols;
mod stories;

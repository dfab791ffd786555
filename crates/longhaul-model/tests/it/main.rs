//! The real client against the real cassette server, and against a server that lies.

mod cassette_file;
mod cassette_server;
mod client;
mod liar;
mod stories;

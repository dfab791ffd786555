//! Behaviour of the tools at their boundaries, with the real bubblewrap, kernel and Python.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod app;
mod boundary;
mod escape;
mod files;
mod fixture;
mod lifetime;
mod limits;
mod mcp;
mod mcp_client;
mod network;
mod program;
mod registry;
mod skills;

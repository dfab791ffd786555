//! The tests at this crate's boundaries. With `LONGHAUL_TEST_STORE=postgres` they run on a private server.

mod crash;
mod delivery;
mod entry;
mod files;
mod ground;
mod handled;
mod outside;

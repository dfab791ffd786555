//! Behaviour of the tools at their boundaries, with the real bubblewrap, kernel and Python.

mod app;
mod boundary;
mod files;
mod fixture;
mod lifetime;
mod limits;
mod registry;

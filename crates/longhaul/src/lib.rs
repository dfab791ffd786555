//! Longhaul as a library: everything wired together from settings.

pub mod settings;

pub use longhaul_core::Event;

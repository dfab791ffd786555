//! The tables of `memory`.

/// Tenant and network first.
pub(crate) const TABLES: &str = "";

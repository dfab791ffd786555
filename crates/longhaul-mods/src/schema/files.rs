//! The tables of `files`.

/// Tenant and network first.
pub(crate) const TABLES: &str = "";

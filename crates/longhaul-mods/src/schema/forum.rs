//! The tables of `forum`.

/// Tenant and network first.
pub(crate) const TABLES: &str = "";

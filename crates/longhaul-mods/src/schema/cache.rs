//! The tables of `cache`.

/// Tenant and network first.
pub(crate) const TABLES: &str = "";

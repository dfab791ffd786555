//! The tables of `agents`.

/// Tenant and network first.
pub(crate) const TABLES: &str = "";

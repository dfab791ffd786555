//! The tables of `social`.

/// Tenant and network first.
pub(crate) const TABLES: &str = "";

//! The tables of `delegation`.

/// Tenant and network first.
pub(crate) const TABLES: &str = "";

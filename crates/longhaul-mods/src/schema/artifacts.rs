//! The tables of `artifacts`.

/// Tenant and network first.
pub(crate) const TABLES: &str = "";

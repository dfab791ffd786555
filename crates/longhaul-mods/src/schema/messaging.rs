//! The tables of `messaging`.

/// Tenant and network first.
pub(crate) const TABLES: &str = "";

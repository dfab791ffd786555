//! The tables of `wiki`.

/// Tenant and network first.
pub(crate) const TABLES: &str = "";

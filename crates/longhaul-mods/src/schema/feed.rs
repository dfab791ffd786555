//! The tables of `feed`.

/// Tenant and network first.
pub(crate) const TABLES: &str = "";

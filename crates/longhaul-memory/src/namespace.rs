//! Names of partitions. Invariant: a [`Namespace`] is well formed, so it can be shown and stored as it is.

use std::{fmt, str::FromStr};

use longhaul_core::TenantId;
use serde::{Deserialize, Serialize};

use crate::{MemoryError, item::field};

const NAMESPACE_CHARS_MAX: usize = 128;
/// What the namespaces of documents begin with. No memory begins one, so that nobody takes a corpus's name.
pub const KNOWLEDGE_PREFIX: &str = "kb:";

/// A part of a tenant's memory with an owner of its own: `[a-z0-9_.:-]`, 1 to 128 characters; `main` by default.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Namespace(String);

impl Namespace {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for Namespace {
    /// `main`
    fn default() -> Self {
        Self("main".to_owned())
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Namespace {
    type Err = MemoryError;
    fn from_str(name: &str) -> Result<Self, MemoryError> {
        Self::try_from(name.to_owned())
    }
}

impl TryFrom<String> for Namespace {
    type Error = MemoryError;
    fn try_from(name: String) -> Result<Self, MemoryError> {
        let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_.:-".contains(&b);
        if (1..=NAMESPACE_CHARS_MAX).contains(&name.len()) && name.bytes().all(fits) {
            return Ok(Self(name));
        }
        Err(field("namespace", &name, "1 to 128 of a-z, 0-9, `_`, `.`, `:`, `-`"))
    }
}

impl From<Namespace> for String {
    fn from(namespace: Namespace) -> Self {
        namespace.0
    }
}

/// What every table, cache and index is keyed by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PartitionId {
    pub(crate) tenant: TenantId,
    pub(crate) namespace: Namespace,
}

impl PartitionId {
    pub(crate) fn new(tenant: &TenantId, namespace: &Namespace) -> Self {
        Self { tenant: tenant.clone(), namespace: namespace.clone() }
    }
}

impl fmt::Display for PartitionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.tenant, self.namespace)
    }
}

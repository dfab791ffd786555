//! Typed relations between two ids. Both ends are ids of this store; the pair and its relation are stored once.

use longhaul_core::Scope;
use longhaul_store::{ReadTx, StoreError, Tx, values};

/// How the source relates to the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Relation {
    /// Evidence that supports or refutes the target.
    Verifies,
    /// Made from the target.
    DerivedFrom,
    /// Answers the target.
    Answers,
    /// Takes the target's place.
    Supersedes,
}

impl Relation {
    /// The stored and printed name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Verifies => "verifies",
            Self::DerivedFrom => "derived_from",
            Self::Answers => "answers",
            Self::Supersedes => "supersedes",
        }
    }
}

/// One stored link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Printed id it starts from.
    pub source: String,
    /// Name of the relation.
    pub relation: String,
    /// Printed id it points to.
    pub target: String,
}

/// Stores a link; storing it again changes nothing.
///
/// # Errors
/// When the store cannot be written.
pub fn link(tx: &mut Tx<'_>, scope: &Scope, source: &str, relation: Relation, target: &str) -> Result<(), StoreError> {
    let now = tx.now();
    tx.execute(
        "insert into links (tenant_id, source_id, relation, target_id, created_at) values (?1, ?2, ?3, ?4, ?5)
         on conflict do nothing",
        &values![&scope.tenant, source, relation.name(), target, now],
    )?;
    Ok(())
}

/// All links that start at this id.
///
/// # Errors
/// When the store cannot be read.
pub fn links_from(read: &ReadTx<'_>, scope: &Scope, source: &str) -> Result<Vec<Link>, StoreError> {
    read.query(
        "select source_id, relation, target_id from links where tenant_id = ?1 and source_id = ?2
         order by relation, target_id",
        &values![&scope.tenant, source],
        |row| Ok(Link { source: row.get(0)?, relation: row.get(1)?, target: row.get(2)? }),
    )
}

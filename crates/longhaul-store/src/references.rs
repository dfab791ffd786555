//! Who still needs which blob.
//!
//! It owns the register of questions; each component answers for its own rows, by a query that a migration step of its
//! own enters: `INSERT INTO blob_references (component, query) VALUES ('notes', 'SELECT tenant_id, digest FROM notes')`.
//! The query gives tenants and digests, printed or as 32 bytes; rows without a digest may be among them. Being in the
//! database, the register is complete whichever program opens the store. Invariant: a blob that a committed row refers
//! to, by a registered query, is in the answer.

use std::collections::HashSet;

use longhaul_core::{Digest, TenantId};

use crate::{ReadTx, StoreError};

/// The blobs that rows refer to.
pub(crate) struct References {
    /// Some component has said which blobs it needs; if none has, none can be called superfluous.
    pub(crate) are_known: bool,
    pub(crate) blobs: HashSet<(TenantId, Digest)>,
}

/// Everything that rows of this snapshot refer to.
pub(crate) fn references(read: &ReadTx<'_>) -> Result<References, StoreError> {
    let sql = "SELECT query FROM blob_references ORDER BY component, query";
    let queries = read.query(sql, &[], |row| row.get::<String>(0))?;
    let mut blobs = HashSet::new();
    for query in &queries {
        read.for_each(query, &[], |row| {
            if let Some(digest) = row.get::<Option<Digest>>(1)? {
                blobs.insert((row.get(0)?, digest));
            }
            Ok(true)
        })?;
    }
    Ok(References { are_known: !queries.is_empty(), blobs })
}

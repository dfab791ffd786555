//! What a new version of a read-only partition takes over from the one before it: vectors and grants; and how a partition
//! goes as a whole. Used by corpora of knowledge.
//!
//! Invariant: nothing is read from a partition without the right to read it, and none is dropped but by its owner.

use longhaul_core::{MemoryId, Scope};
use longhaul_store::{ReadTx, StoreError, Tx, values};

use crate::{
    Memory, MemoryError, Namespace,
    access::{self, Right},
    life::erase_cold,
    namespace::PartitionId,
    rows,
};

impl Memory {
    /// The vector that the memory's embedder made of a text, if it has done so. To be given to a new memory of the same
    /// text, which then needs no embedding.
    ///
    /// # Errors
    /// Those of the store.
    pub fn vector(&self, read: &ReadTx<'_>, scope: &Scope, id: &MemoryId) -> Result<Option<Vec<f32>>, MemoryError> {
        let Some(embedder) = &self.shared.embedder else { return Ok(None) };
        let Some(found) = rows::find(read, &scope.tenant, id)? else { return Ok(None) };
        if !access::may(read, scope, &found.id.namespace, Right::Read)? {
            return Ok(None);
        }
        let blob: Option<Vec<u8>> = read.query_optional(
            "SELECT vector FROM memory_vectors WHERE tenant_id = ?1 AND namespace = ?2 AND seq = ?3 AND embedder = ?4",
            &values![&scope.tenant, found.id.namespace.as_str(), found.seq, embedder.id()],
            |row| row.get(0),
        )?;
        Ok(blob.and_then(|blob| crate::vectors::decoded(&blob, embedder.dimensions())))
    }

    /// Gives every grant of one namespace for another one as well. Both must be the scope's user's own.
    ///
    /// # Errors
    /// [`MemoryError::NoAccess`]; those of the store.
    pub fn copy_grants(
        &self,
        tx: &mut Tx<'_>,
        scope: &Scope,
        from: &Namespace,
        to: &Namespace,
    ) -> Result<(), MemoryError> {
        access::open(tx, scope, from, Right::Own)?;
        access::open(tx, scope, to, Right::Own)?;
        tx.execute(
            "INSERT INTO memory_grants (tenant_id, namespace, grantee, may_write, granted_by, granted_at)
             SELECT tenant_id, ?3, grantee, may_write, granted_by, granted_at FROM memory_grants
             WHERE tenant_id = ?1 AND namespace = ?2
             ON CONFLICT (tenant_id, namespace, grantee) DO NOTHING",
            &values![&scope.tenant, from.as_str(), to.as_str()],
        )?;
        Ok(())
    }

    /// Erases at most `memories_max` memories of a namespace, frozen or not; the namespace itself goes with the last of
    /// them. Tells whether it is gone. Done in parts, so that no transaction holds up other writers for long.
    ///
    /// # Errors
    /// [`MemoryError::NoAccess`] for anybody but the owner; those of the store.
    pub fn drop_partition(
        &self,
        tx: &mut Tx<'_>,
        scope: &Scope,
        namespace: &Namespace,
        memories_max: usize,
    ) -> Result<bool, MemoryError> {
        let Some(partition) = access::open(tx, scope, namespace, Right::Own)? else { return Ok(true) };
        let key = values![&scope.tenant, namespace.as_str()];
        // Its words go at once: they are of no use without the rest, and taking them out one by one is slow.
        tx.execute("DELETE FROM memory_postings WHERE tenant_id = ?1 AND namespace = ?2", &key)?;
        tx.execute("UPDATE memories SET indexed = 0 WHERE tenant_id = ?1 AND namespace = ?2 AND indexed <> 0", &key)?;
        let ids: Vec<MemoryId> = tx.query(
            "SELECT memory_id FROM memories WHERE tenant_id = ?1 AND namespace = ?2 ORDER BY seq LIMIT ?3",
            &values![&scope.tenant, namespace.as_str(), memories_max],
            |row| row.get(0),
        )?;
        for id in &ids {
            if let Some(found) = rows::find(tx, &scope.tenant, id)?
                && found.id == partition.id
            {
                rows::erase(tx, &found)?;
            }
        }
        let cold: Vec<MemoryId> = tx.query(
            "SELECT memory_id FROM memory_cold WHERE tenant_id = ?1 AND namespace = ?2 LIMIT ?3",
            &values![&scope.tenant, namespace.as_str(), memories_max],
            |row| row.get(0),
        )?;
        for id in &cold {
            erase_cold(tx, &scope.tenant, id)?;
        }
        if ids.len() < memories_max && cold.len() < memories_max {
            drop_rest(tx, scope, namespace)?;
            return Ok(true);
        }
        Ok(false)
    }
}

impl Memory {
    /// Lets go of what this process and its disk hold of a partition that was dropped: columns, postings, the vector
    /// index's file.
    ///
    /// # Errors
    /// When the file cannot be removed.
    pub fn purge_dropped(&self, scope: &Scope, namespace: &Namespace) -> std::io::Result<()> {
        self.shared.purge(&PartitionId::new(&scope.tenant, namespace)).map(drop)
    }
}

fn drop_rest(tx: &mut Tx<'_>, scope: &Scope, namespace: &Namespace) -> Result<(), StoreError> {
    let key = values![&scope.tenant, namespace.as_str()];
    for table in ["memory_postings", "memory_vectors", "memory_access", "memory_grants"] {
        tx.execute(&format!("DELETE FROM {table} WHERE tenant_id = ?1 AND namespace = ?2"), &key)?;
    }
    // Word of what is gone stays for caches and other processes, as does the partition's row with its numbers: a cache
    // that never hears of the end would show the end's beginning.
    tx.execute(
        "UPDATE memory_partitions SET frozen = 1, purpose = 'dropped', documents = 0, terms = 0
         WHERE tenant_id = ?1 AND namespace = ?2",
        &key,
    )?;
    Ok(())
}

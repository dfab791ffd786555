//! Memory within somebody else's snapshot: what a search found is read again beside other crates' rows, so that all of it
//! was true at one moment.
//!
//! Invariant: nothing is given out that the user may not read, and nothing is written or counted as used.

use longhaul_core::{MemoryId, Scope};
use longhaul_store::{ReadTx, values};

use crate::{
    Item, Memory, MemoryError, Mode, Namespace, Query,
    access::{self, Right},
    filter::Filter,
    rows::{self, COLUMNS},
};

impl Memory {
    /// The vector that a search for this text would use, for several searches with one text: give it as
    /// [`Query::vector`] beside the text. `None` where a search should embed for itself, or searches by words alone.
    pub async fn query_vector(&self, text: &str) -> Option<Vec<f32>> {
        if self.shared.change.is_under_way() {
            return None;
        }
        match self.embedded(text).await {
            (vector, Mode::Hybrid) => vector,
            (_, Mode::Keyword { .. }) => None,
        }
    }

    /// The memory of this id as the caller's snapshot has it, if it is hot, has not expired and may be read.
    ///
    /// # Errors
    /// Those of the store.
    pub fn find_in(&self, read: &ReadTx<'_>, scope: &Scope, id: &MemoryId) -> Result<Option<Item>, MemoryError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM memories
             WHERE tenant_id = ?1 AND memory_id = ?2 AND (expires_at IS NULL OR expires_at > ?3)"
        );
        let item = read.query_optional(&sql, &values![&scope.tenant, id, read.now()], rows::item)?;
        let Some(item) = item else { return Ok(None) };
        Ok(access::may(read, scope, &item.namespace, Right::Read)?.then_some(item))
    }

    /// Whether the caller's snapshot has a cold memory of this id in this namespace, which the user may read.
    ///
    /// # Errors
    /// Those of the store.
    pub fn is_cold_in(
        &self,
        read: &ReadTx<'_>,
        scope: &Scope,
        namespace: &Namespace,
        id: &MemoryId,
    ) -> Result<bool, MemoryError> {
        let cold: Option<i64> = read.query_optional(
            "SELECT 1 FROM memory_cold WHERE tenant_id = ?1 AND memory_id = ?2",
            &values![&scope.tenant, id],
            |row| row.get(0),
        )?;
        Ok(cold.is_some() && access::may(read, scope, namespace, Right::Read)?)
    }

    /// The first `k` hot memories of a thread, in order of writing, as the caller's snapshot has them.
    ///
    /// # Errors
    /// [`MemoryError::NoAccess`]; those of the store.
    pub fn thread_in(
        &self,
        read: &ReadTx<'_>,
        scope: &Scope,
        namespace: &Namespace,
        thread: &str,
        k: usize,
    ) -> Result<Vec<Item>, MemoryError> {
        let query = Query { thread: Some(thread.to_owned()), ..Query::default() };
        let filter = Filter::new(&query, read.now())?;
        let Some(partition) = access::open(read, scope, namespace, Right::Read)? else { return Ok(Vec::new()) };
        let held = self.shared.columns.current(read, &partition.id, partition.last_change)?;
        let seqs: Vec<i64> = filter.run(&held.columns()).iter().take(k).collect();
        let sql = format!("SELECT {COLUMNS} FROM memories WHERE tenant_id = ?1 AND namespace = ?2 AND seq = ?3");
        let mut items = Vec::with_capacity(seqs.len());
        for seq in seqs {
            items.extend(read.query_optional(&sql, &values![&scope.tenant, namespace.as_str(), seq], rows::item)?);
        }
        Ok(items)
    }
}

//! How often memories were used, as the statistics of access have it.

use longhaul_core::{MemoryId, TimeMs};
use longhaul_store::{ReadTx, StoreError, values};

use crate::namespace::PartitionId;

use super::Standing;

/// Having been shown is this part of having been used: a hit that nobody opens says little for itself.
const SHOWN_PART: f32 = 0.1;

/// The statistics of one partition.
#[derive(Debug)]
pub(crate) struct Uses {
    id: PartitionId,
    /// Whether there are any.
    pub(crate) any: bool,
}

impl Uses {
    pub(crate) fn of(read: &ReadTx<'_>, id: &PartitionId) -> Result<Self, StoreError> {
        let sql = "SELECT 1 FROM memory_access WHERE tenant_id = ?1 AND namespace = ?2 LIMIT 1";
        let any = read.query_optional(sql, &values![&id.tenant, id.namespace.as_str()], |row| row.get::<i64>(0))?;
        Ok(Self { id: id.clone(), any: any.is_some() })
    }

    /// Where the memory stands, its uses included.
    pub(crate) fn applied(
        &self,
        read: &ReadTx<'_>,
        memory: &MemoryId,
        standing: Standing,
        now: TimeMs,
    ) -> Result<Standing, StoreError> {
        if !self.any {
            return Ok(standing);
        }
        let found: Option<(i64, Option<i64>, i64)> = read.query_optional(
            "SELECT uses, last_used_at, shown FROM memory_access
             WHERE tenant_id = ?1 AND namespace = ?2 AND memory_id = ?3",
            &values![&self.id.tenant, self.id.namespace.as_str(), memory],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
        )?;
        let Some((uses, last_used_at, shown)) = found else { return Ok(standing) };
        let uses = uses.max(0) as f32 + SHOWN_PART * shown.max(0) as f32;
        Ok(Standing { uses, unused_ms: last_used_at.map(|at| now.0.saturating_sub(at)), ..standing })
    }
}

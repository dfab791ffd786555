//! Expired memories leave by themselves. That they are never found is the filters' doing; here their rows go.
//!
//! Invariant: only what has expired by the clock at the moment of the transaction is removed.

use longhaul_core::{MemoryId, Scope, TenantId, TimeMs};
use longhaul_store::{ReadTx, StoreError, Tx, values};

use crate::{
    Memory, MemoryError,
    access::{self, Right},
    actions, rows, user,
};

use super::shelf;

/// Memories removed by one transaction.
const BATCH: usize = 64;

impl Memory {
    /// As [`Memory::forget`], of a memory that is cold.
    pub(crate) fn forget_cold(&self, tx: &mut Tx<'_>, scope: &Scope, id: &MemoryId) -> Result<bool, MemoryError> {
        let Some(stub) = shelf::stub(tx, &scope.tenant, id)? else { return Ok(false) };
        if !access::may(tx, scope, &stub.id.namespace, Right::Write)? {
            return Ok(false);
        }
        user::forgotten(tx, &scope.tenant, id)?;
        actions::forgotten(tx, &scope.tenant, id)?;
        Ok(erase_cold(tx, &scope.tenant, id)?)
    }

    /// Removes everything that has expired, hot and cold, with whatever was derived from it. Gives how many memories
    /// went. Runs in the background by itself.
    ///
    /// # Errors
    /// Those of the store; what was removed until then stays removed.
    pub async fn sweep_expired(&self) -> Result<u64, MemoryError> {
        let mut swept = 0;
        loop {
            let batch = self.shared.store.read(|read| expired(read, read.now())).await?;
            if batch.is_empty() {
                return Ok(swept);
            }
            let found = batch.len();
            let gone = self.shared.store.write(move |tx| sweep(tx, &batch)).await?;
            swept += gone;
            // What another process has just removed, or what was given more time, is not looked at again and again.
            if gone == 0 || found < BATCH {
                return Ok(swept);
            }
        }
    }
}

/// Some memories of all tenants that have expired, the oldest first.
fn expired(read: &ReadTx<'_>, now: TimeMs) -> Result<Vec<(TenantId, MemoryId)>, StoreError> {
    let mut found = Vec::new();
    for table in ["memories", "memory_cold"] {
        let sql = format!(
            "SELECT tenant_id, memory_id FROM {table} WHERE expires_at IS NOT NULL AND expires_at <= ?1
             ORDER BY expires_at LIMIT ?2"
        );
        let room = BATCH - found.len();
        found.extend(read.query(&sql, &values![now, room], |row| Ok((row.get(0)?, row.get(1)?)))?);
    }
    Ok(found)
}

fn sweep(tx: &mut Tx<'_>, batch: &[(TenantId, MemoryId)]) -> Result<u64, StoreError> {
    let now = tx.now();
    let mut gone = 0;
    for (tenant, id) in batch {
        let still = |tx: &Tx<'_>, table: &str| {
            let sql = format!("SELECT 1 FROM {table} WHERE tenant_id = ?1 AND memory_id = ?2 AND expires_at <= ?3");
            tx.query_optional(&sql, &values![tenant, id, now], |_| Ok(())).map(|found| found.is_some())
        };
        let (hot, cold) = (still(tx, "memories")?, still(tx, "memory_cold")?);
        if hot || cold {
            user::forgotten(tx, tenant, id)?;
            actions::forgotten(tx, tenant, id)?;
        }
        if hot {
            if let Some(found) = rows::find(tx, tenant, id)? {
                gone += u64::from(rows::erase(tx, &found)?);
            }
        } else if cold {
            gone += u64::from(erase_cold(tx, tenant, id)?);
        }
    }
    Ok(gone)
}

/// Erases a cold memory with its statistics; its row in the object goes when the segment is rewritten. Tells whether it
/// was there.
pub(crate) fn erase_cold(tx: &mut Tx<'_>, tenant: &TenantId, id: &MemoryId) -> Result<bool, StoreError> {
    if !shelf::take_out(tx, tenant, id)? {
        return Ok(false);
    }
    tx.execute("DELETE FROM memory_access WHERE tenant_id = ?1 AND memory_id = ?2", &values![tenant, id])?;
    Ok(true)
}

//! The rows of tasks that finished while others of their superstep had not.

use std::collections::BTreeMap;

use longhaul_core::{ExecutionId, TenantId};
use longhaul_store::{ReadTx, StoreError, Tx, values};

use super::{Pen, Place, V};

/// A finished task.
#[derive(Debug, Clone)]
pub(crate) struct DoneTask {
    pub(crate) attempt: u32,
    /// Its updates, as a JSON array.
    pub(crate) updates: String,
    /// Where its node itself said to go, as JSON.
    pub(crate) route: Option<String>,
}

impl Pen {
    pub(crate) fn insert_task(&self, tx: &mut Tx<'_>, place: &Place, done: &DoneTask) -> Result<(), StoreError> {
        let now = tx.now();
        tx.execute(
            "INSERT INTO tasks_done (tenant_id, execution_id, ns, superstep, task, v, node, attempt, updates, route, at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
            &values![
                self.tenant(),
                self.execution(),
                &*place.ns,
                place.superstep,
                place.task,
                V,
                &*place.node,
                done.attempt,
                &done.updates,
                done.route.as_deref(),
                now
            ],
        )
        .map(drop)
    }
}

/// The finished tasks of a superstep, by their numbers.
pub(crate) fn of_superstep(
    read: &ReadTx<'_>,
    tenant: &TenantId,
    execution: &ExecutionId,
    ns: &str,
    superstep: u64,
) -> Result<BTreeMap<u32, DoneTask>, StoreError> {
    let rows = read.query(
        "SELECT task, attempt, updates, route FROM tasks_done
         WHERE tenant_id = ?1 AND execution_id = ?2 AND ns = ?3 AND superstep = ?4",
        &values![tenant, execution, ns, superstep],
        |row| Ok((row.get(0)?, DoneTask { attempt: row.get(1)?, updates: row.get(2)?, route: row.get(3)? })),
    )?;
    Ok(rows.into_iter().collect())
}

/// The updates of all finished tasks of a frame from this superstep on, in order.
pub(crate) fn updates(
    read: &ReadTx<'_>,
    tenant: &TenantId,
    execution: &ExecutionId,
    ns: &str,
    superstep_min: u64,
) -> Result<Vec<(u64, String)>, StoreError> {
    read.query(
        "SELECT superstep, updates FROM tasks_done
         WHERE tenant_id = ?1 AND execution_id = ?2 AND ns = ?3 AND superstep >= ?4 ORDER BY superstep, task",
        &values![tenant, execution, ns, superstep_min],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )
}

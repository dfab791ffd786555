//! The rows of tasks that finished while others of their superstep had not.

use std::collections::BTreeMap;

use longhaul_core::{ExecutionId, TenantId};
use longhaul_store::{ReadTx, StoreError, Tx, values};

use super::{Pen, Place, V};
use crate::seal::Spot;

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
        let spot = |column| Spot { column, ..place.spot(self, 0) };
        let updates = spot("tasks.updates").seal(tx, done.updates.clone())?;
        let route = done.route.clone().map(|route| spot("tasks.route").seal(tx, route)).transpose()?;
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
                updates,
                route,
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
        |row| {
            let task = row.get(0)?;
            let spot = |column| Spot { tenant, execution, column, ns, superstep, task, ordinal: 0 };
            let updates = spot("tasks.updates").open(read, row.get(2)?)?;
            let route = row.get::<Option<String>>(3)?.map(|route| spot("tasks.route").open(read, route)).transpose()?;
            Ok((task, DoneTask { attempt: row.get(1)?, updates, route }))
        },
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
        "SELECT superstep, updates, task FROM tasks_done
         WHERE tenant_id = ?1 AND execution_id = ?2 AND ns = ?3 AND superstep >= ?4 ORDER BY superstep, task",
        &values![tenant, execution, ns, superstep_min],
        |row| {
            let (superstep, task) = (row.get(0)?, row.get(2)?);
            let spot = Spot { tenant, execution, column: "tasks.updates", ns, superstep, task, ordinal: 0 };
            Ok((superstep, spot.open(read, row.get(1)?)?))
        },
    )
}

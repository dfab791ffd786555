//! The rows of interventions, and whom they have reached.

use longhaul_core::ExecutionId;
use longhaul_store::{ReadTx, Row, StoreError, Tx, values};

use super::{Pen, V};
use crate::{Execution, Intervention, InterventionId};

const COLUMNS: &str = "SELECT intervention_id, execution_id, author, note, payload, at FROM interventions";

fn intervention(row: &Row<'_>) -> Result<Intervention, StoreError> {
    let id = row.text(0)?.parse::<InterventionId>().map_err(|_| StoreError::Column {
        column: 0,
        expected: "the id of an intervention",
        found: row.get::<String>(0).unwrap_or_default(),
    })?;
    let execution: ExecutionId = row.get(1)?;
    Ok(Intervention { id, execution, author: row.get(2)?, note: row.get(3)?, payload: row.get(4)?, at: row.get(5)? })
}

/// Keeps an intervention.
pub(crate) fn insert(tx: &mut Tx<'_>, execution: &Execution, new: &Intervention) -> Result<(), StoreError> {
    // The order in which they came, whatever the clock did.
    let last: Option<i64> = tx.query_one(
        "SELECT MAX(number) FROM interventions WHERE tenant_id = ?1 AND execution_id = ?2",
        &values![&execution.scope.scope.tenant, &execution.id],
        |row| row.get(0),
    )?;
    tx.execute(
        "INSERT INTO interventions (tenant_id, execution_id, intervention_id, v, number, author, note, payload, at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        &values![
            &execution.scope.scope.tenant,
            &execution.id,
            new.id.as_str(),
            V,
            last.unwrap_or(0) + 1,
            &new.author,
            &new.note,
            &new.payload,
            new.at
        ],
    )
    .map(drop)
}

/// All interventions of an execution, oldest first.
pub(crate) fn all(read: &ReadTx<'_>, execution: &Execution) -> Result<Vec<Intervention>, StoreError> {
    read.query(
        &format!("{COLUMNS} WHERE tenant_id = ?1 AND execution_id = ?2 ORDER BY number, intervention_id"),
        &values![&execution.scope.scope.tenant, &execution.id],
        intervention,
    )
}

impl Pen {
    /// What this consumer has not been given, oldest first, at most `limit`.
    pub(crate) fn unseen(
        &self,
        read: &ReadTx<'_>,
        consumer: &str,
        limit: usize,
    ) -> Result<Vec<Intervention>, StoreError> {
        read.query(
            &format!(
                "{COLUMNS} WHERE tenant_id = ?1 AND execution_id = ?2
                 AND NOT EXISTS (SELECT 1 FROM interventions_seen seen WHERE seen.tenant_id = interventions.tenant_id
                     AND seen.execution_id = interventions.execution_id AND seen.consumer = ?3
                     AND seen.intervention_id = interventions.intervention_id)
                 ORDER BY number, intervention_id LIMIT ?4"
            ),
            &values![self.tenant(), self.execution(), consumer, limit],
            intervention,
        )
    }

    /// Notes that this consumer is given it.
    pub(crate) fn mark_seen(&self, tx: &mut Tx<'_>, consumer: &str, id: &InterventionId) -> Result<(), StoreError> {
        let now = tx.now();
        tx.execute(
            "INSERT INTO interventions_seen (tenant_id, execution_id, consumer, intervention_id, v, at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            &values![self.tenant(), self.execution(), consumer, id.as_str(), V, now],
        )
        .map(drop)
    }
}

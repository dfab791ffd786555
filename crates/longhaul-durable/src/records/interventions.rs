//! The rows of interventions, and whom they have reached.

use longhaul_core::{ExecutionId, TenantId};
use longhaul_store::{ReadTx, Row, StoreError, Tx, values};

use super::{Pen, V};
use crate::{Execution, Intervention, InterventionId, seal};

const COLUMNS: &str = "SELECT intervention_id, execution_id, author, note, payload, at, tenant_id FROM interventions";

fn intervention(read: &ReadTx<'_>, row: &Row<'_>) -> Result<Intervention, StoreError> {
    let id = row.text(0)?.parse::<InterventionId>().map_err(|_| StoreError::Column {
        column: 0,
        expected: "the id of an intervention",
        found: row.get::<String>(0).unwrap_or_default(),
    })?;
    let execution: ExecutionId = row.get(1)?;
    let tenant: TenantId = row.get(6)?;
    let payload = seal::open_json(read, &tenant, id.as_str(), 4, row.get(4)?)?;
    let note = read.unseal(|| format!("{tenant}/{}", id.as_str()), row.get(3)?)?;
    Ok(Intervention { author: row.get(2)?, at: row.get(5)?, id, execution, note, payload })
}

/// Keeps an intervention.
pub(crate) fn insert(tx: &mut Tx<'_>, execution: &Execution, new: &Intervention) -> Result<(), StoreError> {
    // The order in which they came, whatever the clock did.
    let last: Option<i64> = tx.query_one(
        "SELECT MAX(number) FROM interventions WHERE tenant_id = ?1 AND execution_id = ?2",
        &values![&execution.scope.scope.tenant, &execution.id],
        |row| row.get(0),
    )?;
    let tenant = &execution.scope.scope.tenant;
    let payload = seal::json(tx, tenant, new.id.as_str(), &new.payload)?;
    let note = tx.seal(|| format!("{tenant}/{}", new.id.as_str()), new.note.clone())?;
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
            note,
            payload,
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
        |row| intervention(read, row),
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
            |row| intervention(read, row),
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

//! The ledger of acts that must not happen twice: intent before, receipt after.

use longhaul_core::{ExecutionId, TenantId, TimeMs};
use longhaul_store::{ReadTx, StoreError, Tx, values};

use super::{Pen, Place, V};
use crate::step::StepId;

/// An act whose outcome nobody knows: its intent was recorded, its receipt was not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingEffect {
    /// The step.
    pub step: StepId,
    /// When it was about to happen.
    pub since: TimeMs,
    /// Whether the step itself can find out what happened, when its node runs again.
    pub probe: bool,
}

const KEY: &str = "tenant_id = ?1 AND execution_id = ?2 AND ns = ?3 AND superstep = ?4 AND task = ?5 AND ordinal = ?6";

impl Pen {
    /// Notes that the act is about to happen.
    pub(crate) fn insert_intent(
        &self,
        tx: &mut Tx<'_>,
        place: &Place,
        ordinal: u32,
        name: &str,
        probe: bool,
    ) -> Result<(), StoreError> {
        let now = tx.now();
        let mut row = place.key(self, ordinal).to_vec();
        row.extend(values![V, &*place.node, name, probe, now]);
        tx.execute(
            "INSERT INTO effects (tenant_id, execution_id, ns, superstep, task, ordinal, v, node, name, probe, intent_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
             ON CONFLICT (tenant_id, execution_id, ns, superstep, task, ordinal)
             DO UPDATE SET intent_at = ?11 WHERE effects.receipt_at IS NULL",
            &row,
        )
        .map(drop)
    }

    /// Notes that the act took place.
    pub(crate) fn insert_receipt(&self, tx: &mut Tx<'_>, place: &Place, ordinal: u32) -> Result<(), StoreError> {
        let now = tx.now();
        let mut row = place.key(self, ordinal).to_vec();
        row.extend(values![now]);
        tx.execute(&format!("UPDATE effects SET receipt_at = ?7 WHERE {KEY}"), &row).map(drop)
    }

    /// Forgets an intent whose act certainly did not take place.
    pub(crate) fn delete_intent(&self, tx: &mut Tx<'_>, place: &Place, ordinal: u32) -> Result<(), StoreError> {
        tx.execute(&format!("DELETE FROM effects WHERE {KEY}"), &place.key(self, ordinal)).map(drop)
    }
}

/// The acts of an execution whose outcome nobody knows, in the order of their places.
pub(crate) fn pending(
    read: &ReadTx<'_>,
    tenant: &TenantId,
    execution: &ExecutionId,
) -> Result<Vec<PendingEffect>, StoreError> {
    read.query(
        "SELECT ns, superstep, task, ordinal, node, name, intent_at, probe FROM effects
         WHERE tenant_id = ?1 AND execution_id = ?2 AND receipt_at IS NULL ORDER BY ns, superstep, task, ordinal",
        &values![tenant, execution],
        |row| {
            let step = StepId {
                execution: execution.clone(),
                ns: row.get(0)?,
                superstep: row.get(1)?,
                task: row.get(2)?,
                ordinal: row.get(3)?,
                node: row.get(4)?,
                name: row.get(5)?,
            };
            Ok(PendingEffect { step, since: row.get(6)?, probe: row.get(7)? })
        },
    )
}

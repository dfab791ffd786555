//! The rows of recorded steps.

use longhaul_core::{ExecutionId, TenantId};
use longhaul_store::{ReadTx, StoreError, Tx, values};

use super::{Pen, Place, V};
use crate::{seal, step::StepId};

/// A step whose work has been done.
#[derive(Debug, Clone)]
pub(crate) struct RecordedStep {
    pub(crate) name: String,
    pub(crate) result: String,
}

/// How a step was declared.
#[derive(Debug, Clone)]
pub(crate) struct Declared {
    pub(crate) name: String,
    pub(crate) ordinal: u32,
    /// `pure`, `idempotent` or `once`.
    pub(crate) effect: &'static str,
    pub(crate) effect_key: Option<String>,
}

impl Pen {
    /// Records a step, and the receipt of its act. The row is the step's entry in the log; it has no event of its own.
    pub(crate) fn insert_step(
        &self,
        tx: &mut Tx<'_>,
        place: &Place,
        step: &Declared,
        result: &str,
    ) -> Result<(), StoreError> {
        let now = tx.now();
        let key = place.key(self, step.ordinal);
        let result = place.spot(self, step.ordinal).seal(tx, result.to_owned())?;
        let mut row = key.to_vec();
        row.extend(values![V, &*place.node, &step.name, step.effect, step.effect_key.as_deref(), result, now]);
        tx.execute(
            "INSERT INTO steps (tenant_id, execution_id, ns, superstep, task, ordinal, v, node, name, effect,
                 effect_key, result, at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
            &row,
        )?;
        if step.effect == "once" { self.insert_receipt(tx, place, step.ordinal) } else { Ok(()) }
    }
}

/// Numbers of task and step.
pub(crate) type Spot = (u32, u32);

/// What the tasks of a superstep have recorded, with the numbers of task and step.
pub(crate) fn of_superstep(
    read: &ReadTx<'_>,
    tenant: &TenantId,
    execution: &ExecutionId,
    ns: &str,
    superstep: u64,
) -> Result<Vec<(Spot, RecordedStep)>, StoreError> {
    read.query(
        "SELECT task, ordinal, name, result FROM steps
         WHERE tenant_id = ?1 AND execution_id = ?2 AND ns = ?3 AND superstep = ?4",
        &values![tenant, execution, ns, superstep],
        |row| {
            let (task, ordinal) = (row.get(0)?, row.get(1)?);
            let spot = seal::Spot { tenant, execution, column: "steps.result", ns, superstep, task, ordinal };
            Ok(((task, ordinal), RecordedStep { name: row.get(2)?, result: spot.open(read, row.get(3)?)? }))
        },
    )
}

/// The place of a step by its id.
pub(crate) fn place_of(step: &StepId) -> Place {
    Place { ns: step.ns.as_str().into(), superstep: step.superstep, task: step.task, node: step.node.as_str().into() }
}

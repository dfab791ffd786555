//! Every value that executions have recorded, one after the other, for whoever looks for references in them.
//!
//! It owns where values stand and how sealed ones are opened; what a reference looks like, the caller knows. Nothing
//! here changes anything.

use longhaul_core::{ExecutionId, TenantId};
use longhaul_store::{ReadTx, Row, StoreError, Value as Parameter, values};
use serde_json::Value;

use crate::{Point, StepId, records::checkpoints, seal::Spot};

/// A value that was recorded, and where.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    /// Whose.
    pub tenant: TenantId,
    /// By which execution.
    pub execution: ExecutionId,
    /// What it belongs to: `checkpoint`, `snapshot`, `result of a node`, `step`, `wait`, `answer`, `default answer` or
    /// `intervention`.
    pub what: &'static str,
    /// The id of that: `exec_…@3` of checkpoints, snapshots and results of nodes, `exec_…/node/3/name#1` of steps,
    /// `wait_…`, and the execution's own of interventions.
    pub id: String,
    /// The value.
    pub value: Value,
}

/// How one column is found.
struct Column {
    what: &'static str,
    table: &'static str,
    column: &'static str,
    /// Under which name it is sealed, if that follows from its place.
    sealed: &'static str,
    /// Eight columns: tenant, execution, ns, superstep, task, ordinal, node, name.
    place: &'static str,
}

const FRAME: &str = "tenant_id, execution_id, ns, superstep, 0, 0, '', ''";
const TASK: &str = "tenant_id, execution_id, ns, superstep, task, 0, node, ''";
const STEP: &str = "tenant_id, execution_id, ns, superstep, task, ordinal, node, name";
const WAIT: &str = "tenant_id, execution_id, ns, superstep, task, ordinal, node, wait_id";
const NOTE: &str = "tenant_id, execution_id, '', 0, 0, 0, '', intervention_id";

const COLUMNS: [Column; 8] = [
    column("checkpoint", "checkpoints", "data", "checkpoints.data", FRAME),
    column("snapshot", "snapshots", "state", "snapshots.state", FRAME),
    column("result of a node", "tasks_done", "updates", "tasks.updates", TASK),
    column("step", "steps", "result", "steps.result", STEP),
    column("wait", "waits", "payload", "", WAIT),
    column("answer", "waits", "value", "", WAIT),
    column("default answer", "waits", "default_value", "", WAIT),
    column("intervention", "interventions", "payload", "", NOTE),
];

const fn column(
    what: &'static str,
    table: &'static str,
    column: &'static str,
    sealed: &'static str,
    place: &'static str,
) -> Column {
    Column { what, table, column, sealed, place }
}

/// Gives every recorded value whose JSON holds this text to `each`: of one execution, or of all of all tenants, as
/// whoever verifies a store needs it. What is no JSON is passed over; [`crate::CHECKS`] name it.
///
/// # Errors
/// Those of the database; of `each`; those of opening what is sealed.
pub fn recorded_values(
    read: &ReadTx<'_>,
    of: Option<(&TenantId, &ExecutionId)>,
    holding: &str,
    mut each: impl FnMut(Recorded) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let like = format!("%{holding}%");
    for known in &COLUMNS {
        let Column { table, column, place, .. } = known;
        // What is sealed does not show what it holds.
        let mut sql = format!(
            "SELECT {place}, {column} FROM {table}
             WHERE {column} IS NOT NULL AND ({column} LIKE ?1 OR {column} LIKE 'sealed:%')"
        );
        let mut params: Vec<Parameter> = values![&like].to_vec();
        if let Some((tenant, execution)) = of {
            sql.push_str(" AND tenant_id = ?2 AND execution_id = ?3");
            params.extend(values![tenant, execution]);
        }
        read.for_each(&sql, &params, |row| {
            if let Some(found) = recorded(read, known, row, holding)? {
                each(found)?;
            }
            Ok(true)
        })?;
    }
    Ok(())
}

fn recorded(read: &ReadTx<'_>, known: &Column, row: &Row<'_>, holding: &str) -> Result<Option<Recorded>, StoreError> {
    let (tenant, execution): (TenantId, ExecutionId) = (row.get(0)?, row.get(1)?);
    let (ns, superstep): (String, u64) = (row.get(2)?, row.get(3)?);
    let (task, ordinal): (u32, u32) = (row.get(4)?, row.get(5)?);
    let (node, name): (String, String) = (row.get(6)?, row.get(7)?);
    let text: String = row.get(8)?;
    let text = if known.sealed.is_empty() {
        read.unseal(|| format!("{tenant}/{name}"), text)?
    } else {
        let spot = checkpoints::spot(&tenant, &execution, known.sealed, &ns, superstep);
        Spot { task, ordinal, ..spot }.open(read, text)?
    };
    if !text.contains(holding) {
        return Ok(None);
    }
    let Ok(value) = serde_json::from_str(&text) else { return Ok(None) };
    let id = match known.what {
        "step" => StepId { execution: execution.clone(), ns, superstep, task, node, ordinal, name }.to_string(),
        "wait" | "answer" | "default answer" => name,
        "intervention" => execution.to_string(),
        _ => Point { execution: execution.clone(), ns, superstep }.to_string(),
    };
    Ok(Some(Recorded { tenant, execution, what: known.what, id, value }))
}

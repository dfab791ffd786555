//! What the rows of durable execution must satisfy, for [`longhaul_store::Store::verify`].

use longhaul_core::{ExecutionId, TenantId};
use longhaul_store::{Check, Look, ReadTx, StoreError};

use crate::{
    checkpoint,
    records::{checkpoints, whole},
};

const RESTORE: &str = "restore a backup, or fork an earlier checkpoint";
const REPORT: &str = "restore a backup, or report it with this line";

const fn check(name: &'static str, advice: &'static str, look: Look) -> Check {
    Check { component: "durable", name, advice, look }
}

/// The checks of this crate; give them to [`longhaul_store::Store::verify`]. They walk every reference between
/// executions, checkpoints, tasks, steps, acts, waits and answers, and every digest; they need no graph.
pub const CHECKS: &[Check] = &[
    check("every checkpoint follows from the one before it", RESTORE, Look::Code(chains)),
    check("everything recorded belongs to an execution", REPORT, Look::Sql(ORPHANS)),
    check(
        "every execution has a checkpoint",
        REPORT,
        Look::Sql(
            "SELECT 'execution ' || e.execution_id || ' has no checkpoint' FROM executions e WHERE NOT EXISTS (
             SELECT 1 FROM checkpoints c
             WHERE c.tenant_id = e.tenant_id AND c.execution_id = e.execution_id AND c.ns = '')",
        ),
    ),
    check(
        "every snapshot is at a checkpoint",
        RESTORE,
        Look::Sql(
            "SELECT 'the snapshot ' || s.execution_id || '/' || s.ns || '@' || s.superstep || ' is at no checkpoint'
         FROM snapshots s WHERE NOT EXISTS (
             SELECT 1 FROM checkpoints c WHERE c.tenant_id = s.tenant_id AND c.execution_id = s.execution_id
                 AND c.ns = s.ns AND c.superstep = s.superstep)",
        ),
    ),
    check(
        "an execution is finished exactly when it has an end",
        REPORT,
        Look::Sql(
            "SELECT 'execution ' || execution_id || ' is ' || status || ' and says otherwise when it ended'
         FROM executions
         WHERE (status IN ('completed', 'cancelled', 'abandoned')) <> (closed_at IS NOT NULL)",
        ),
    ),
    check(
        "nothing waits for an execution that is finished",
        REPORT,
        Look::Sql(
            "SELECT 'wait ' || w.wait_id || ' is open, its execution ' || e.execution_id || ' is ' || e.status
         FROM waits w JOIN executions e ON e.tenant_id = w.tenant_id AND e.execution_id = w.execution_id
         WHERE w.status = 'waiting' AND e.status IN ('completed', 'cancelled', 'abandoned')",
        ),
    ),
    check(
        "an answered wait says by which request",
        REPORT,
        Look::Sql(
            "SELECT 'wait ' || wait_id || ' is answered, by nobody' FROM waits
         WHERE status = 'answered' AND (value IS NULL OR request_id IS NULL OR answered_at IS NULL)",
        ),
    ),
    check(
        "every answer is to a wait",
        REPORT,
        Look::Sql(
            "SELECT 'an answer to wait ' || a.wait_id || ', which is not there' FROM answers a WHERE NOT EXISTS (
             SELECT 1 FROM waits w WHERE w.tenant_id = a.tenant_id AND w.wait_id = a.wait_id)",
        ),
    ),
    check(
        "an act with a receipt has its step, and a step that must not happen twice its receipt",
        REPORT,
        Look::Sql(
            "SELECT 'act ' || f.name || ' at ' || f.execution_id || '/' || f.ns || '@' || f.superstep || ' has no step'
         FROM effects f WHERE f.receipt_at IS NOT NULL AND NOT EXISTS (
             SELECT 1 FROM steps s WHERE s.tenant_id = f.tenant_id AND s.execution_id = f.execution_id
                 AND s.ns = f.ns AND s.superstep = f.superstep AND s.task = f.task AND s.ordinal = f.ordinal)
         UNION ALL
         SELECT 'step ' || s.name || ' at ' || s.execution_id || '/' || s.ns || '@' || s.superstep || ' has no receipt'
         FROM steps s WHERE s.effect = 'once' AND NOT EXISTS (
             SELECT 1 FROM effects f WHERE f.tenant_id = s.tenant_id AND f.execution_id = s.execution_id
                 AND f.ns = s.ns AND f.superstep = s.superstep AND f.task = s.task AND f.ordinal = s.ordinal
                 AND f.receipt_at IS NOT NULL)",
        ),
    ),
    check("what was recorded can be read", RESTORE, Look::Code(texts)),
];

const ORPHANS: &str = "
    SELECT kind || ' at ' || execution_id || '/' || ns || '@' || superstep || ' has no execution' FROM (
        SELECT 'a checkpoint' AS kind, tenant_id, execution_id, ns, superstep FROM checkpoints
        UNION ALL SELECT 'a snapshot', tenant_id, execution_id, ns, superstep FROM snapshots
        UNION ALL SELECT 'a task', tenant_id, execution_id, ns, superstep FROM tasks_done
        UNION ALL SELECT 'a step', tenant_id, execution_id, ns, superstep FROM steps
        UNION ALL SELECT 'an act', tenant_id, execution_id, ns, superstep FROM effects
        UNION ALL SELECT 'a wait', tenant_id, execution_id, ns, superstep FROM waits
        UNION ALL SELECT 'an intervention', tenant_id, execution_id, '', number FROM interventions) r
    WHERE NOT EXISTS (
        SELECT 1 FROM executions e WHERE e.tenant_id = r.tenant_id AND e.execution_id = r.execution_id)";

fn chains(read: &ReadTx<'_>) -> Result<Vec<String>, StoreError> {
    let all =
        read.query("SELECT tenant_id, execution_id FROM executions ORDER BY tenant_id, execution_id", &[], |row| {
            Ok((row.get::<TenantId>(0)?, row.get::<ExecutionId>(1)?))
        })?;
    let mut wrong = Vec::new();
    for (tenant, execution) in all {
        for ns in whole::namespaces(read, &tenant, &execution, "%")? {
            for from_the_first in [true, false] {
                let log = checkpoints::log(read, &tenant, &execution, &ns, u64::MAX, from_the_first)?;
                if let Err(superstep) = checkpoint::check_log(&execution, &ns, &log) {
                    wrong.push(format!("the checkpoint {execution}/{ns}@{superstep} is not what was written"));
                    break;
                }
            }
        }
    }
    Ok(wrong)
}

fn texts(read: &ReadTx<'_>) -> Result<Vec<String>, StoreError> {
    let sql = "SELECT 'the result of step ' || name || ' at ' || execution_id || '/' || ns || '@' || superstep, result
         FROM steps
         UNION ALL SELECT 'the result of ' || node || ' at ' || execution_id || '/' || ns || '@' || superstep, updates
         FROM tasks_done
         UNION ALL SELECT 'what wait ' || wait_id || ' asks', payload FROM waits
         UNION ALL SELECT 'the answer to wait ' || wait_id, value FROM waits WHERE value IS NOT NULL";
    let mut wrong = Vec::new();
    read.for_each(sql, &[], |row| {
        // What is sealed is looked at where it is read.
        let text = row.text(1)?;
        if !text.starts_with("sealed:") && serde_json::from_str::<serde::de::IgnoredAny>(text).is_err() {
            wrong.push(format!("{} is no JSON", row.text(0)?));
        }
        Ok(true)
    })?;
    Ok(wrong)
}

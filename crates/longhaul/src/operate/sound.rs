//! What the rows of all crates must satisfy together: everything that refers to something refers to something there.

use longhaul_store::{Check, Look};

const LOST: &str = "restore a backup; if there is none, report it with this line";

const fn rows(component: &'static str, name: &'static str, sql: &'static str) -> Check {
    Check { component, name, advice: LOST, look: Look::Sql(sql) }
}

/// The crates whose tables a check needs, and the check.
pub(super) const CHECKS: &[(&[&str], Check)] = &[
    (
        &["durable"],
        rows(
            "durable",
            "every checkpoint, task, step, effect, snapshot and wait is of an execution",
            "SELECT x.what || ' of ' || x.execution_id || ', which is not there' FROM (
                 SELECT DISTINCT 'a checkpoint' AS what, tenant_id, execution_id FROM checkpoints
                 UNION SELECT DISTINCT 'a snapshot', tenant_id, execution_id FROM snapshots
                 UNION SELECT DISTINCT 'a task', tenant_id, execution_id FROM tasks_done
                 UNION SELECT DISTINCT 'a step', tenant_id, execution_id FROM steps
                 UNION SELECT DISTINCT 'an effect', tenant_id, execution_id FROM effects
                 UNION SELECT DISTINCT 'a wait', tenant_id, execution_id FROM waits) x
             LEFT JOIN executions e ON e.tenant_id = x.tenant_id AND e.execution_id = x.execution_id
             WHERE e.execution_id IS NULL",
        ),
    ),
    (
        &["durable"],
        rows(
            "durable",
            "every execution begins with a checkpoint",
            "SELECT e.execution_id || ' has no checkpoint' FROM executions e
             LEFT JOIN checkpoints c ON c.tenant_id = e.tenant_id AND c.execution_id = e.execution_id AND c.ns = ''
             WHERE c.execution_id IS NULL",
        ),
    ),
    (
        &["durable"],
        rows(
            "durable",
            "every act that has happened has its result",
            "SELECT f.execution_id || ', superstep ' || CAST(f.superstep AS TEXT) || ': ' || f.node || ' did '
                 || f.name || ', and its result is not there' FROM effects f
             LEFT JOIN steps s ON s.tenant_id = f.tenant_id AND s.execution_id = f.execution_id AND s.ns = f.ns
                 AND s.superstep = f.superstep AND s.task = f.task AND s.ordinal = f.ordinal
             WHERE f.receipt_at IS NOT NULL AND s.execution_id IS NULL",
        ),
    ),
    (
        &["durable"],
        rows(
            "durable",
            "every answer is to a wait, and every answered wait has its answer",
            "SELECT 'an answer to ' || a.wait_id || ', which is not there' FROM answers a
             LEFT JOIN waits w ON w.tenant_id = a.tenant_id AND w.wait_id = a.wait_id WHERE w.wait_id IS NULL
             UNION ALL
             SELECT w.wait_id || ' is answered, and the answer is not there' FROM waits w
             WHERE w.status = 'answered' AND w.value IS NULL",
        ),
    ),
    (
        &["harness"],
        rows(
            "harness",
            "every feature, verdict and work session is of a task",
            "SELECT x.what || ' of ' || x.task_id || ', which is not there' FROM (
                 SELECT DISTINCT 'a feature' AS what, tenant_id, task_id FROM features
                 UNION SELECT DISTINCT 'a verdict', tenant_id, task_id FROM verdicts
                 UNION SELECT DISTINCT 'a work session', tenant_id, task_id FROM work_sessions) x
             LEFT JOIN tasks t ON t.tenant_id = x.tenant_id AND t.task_id = x.task_id
             WHERE t.task_id IS NULL",
        ),
    ),
    (
        &["workspace"],
        rows(
            "workspace",
            "every record that a link names is there",
            "SELECT x.record_id || ' is linked and not there' FROM (
                 SELECT tenant_id, source_id AS record_id FROM links WHERE source_id LIKE 'rec|_%' ESCAPE '|'
                 UNION SELECT tenant_id, target_id FROM links WHERE target_id LIKE 'rec|_%' ESCAPE '|') x
             LEFT JOIN records r ON r.tenant_id = x.tenant_id AND r.record_id = x.record_id
             WHERE r.record_id IS NULL",
        ),
    ),
];

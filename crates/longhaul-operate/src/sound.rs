//! What rows must satisfy whose crates have no checks of their own: what refers to something refers to what is there.

use longhaul_store::{Check, Look};

const LOST: &str = "restore a backup; if there is none, report it with this line";

const fn rows(component: &'static str, name: &'static str, sql: &'static str) -> Check {
    Check { component, name, advice: LOST, look: Look::Sql(sql) }
}

/// What the crates without checks of their own must satisfy.
pub(super) const CHECKS: &[Check] = &[rows(
    "harness",
    "every feature, verdict and work session is of a task",
    "SELECT x.what || ' of ' || x.task_id || ', which is not there' FROM (
                 SELECT DISTINCT 'a feature' AS what, tenant_id, task_id FROM features
                 UNION SELECT DISTINCT 'a verdict', tenant_id, task_id FROM verdicts
                 UNION SELECT DISTINCT 'a work session', tenant_id, task_id FROM work_sessions) x
             LEFT JOIN tasks t ON t.tenant_id = x.tenant_id AND t.task_id = x.task_id
             WHERE t.task_id IS NULL",
)];

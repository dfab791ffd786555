//! The tables of `delegation`.

/// Tasks that agents gave each other, and what was reported of them. Tenant and network first.
pub(crate) const TABLES: &str = "
CREATE TABLE delegated_tasks (
    tenant_id TEXT NOT NULL, network_id TEXT NOT NULL, task_id TEXT NOT NULL,
    delegator_id TEXT NOT NULL, assignee_id TEXT NOT NULL, description TEXT NOT NULL, payload TEXT NOT NULL,
    status TEXT NOT NULL, attempt INTEGER NOT NULL, timeout_ms INTEGER NOT NULL, created_at INTEGER NOT NULL,
    due_at INTEGER NOT NULL, accepted_at INTEGER, completed_at INTEGER, result TEXT, error TEXT,
    is_timeout INTEGER NOT NULL, reports INTEGER NOT NULL, routing TEXT, rating INTEGER,
    PRIMARY KEY (tenant_id, network_id, task_id)) STRICT;
CREATE INDEX delegated_tasks_by_delegator ON delegated_tasks (tenant_id, network_id, delegator_id, created_at);
CREATE INDEX delegated_tasks_by_assignee ON delegated_tasks (tenant_id, network_id, assignee_id, status, created_at);
CREATE INDEX delegated_tasks_by_due ON delegated_tasks (tenant_id, network_id, status, due_at);
CREATE TABLE delegated_reports (
    tenant_id TEXT NOT NULL, network_id TEXT NOT NULL, task_id TEXT NOT NULL, nth INTEGER NOT NULL,
    agent_id TEXT NOT NULL, reported_at INTEGER NOT NULL, message TEXT NOT NULL, data TEXT,
    PRIMARY KEY (tenant_id, network_id, task_id, nth)) STRICT;
";

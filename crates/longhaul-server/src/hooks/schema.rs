//! The tables of webhooks; a step of this crate's migrations.

/// Endpoints that take webhooks in; subscriptions that send them out, each with its place in the log, which is the
/// outbox; deliveries that are due, done or given up.
pub(crate) const TABLES: &str = "
CREATE TABLE webhook_endpoints (
    tenant_id TEXT NOT NULL,
    endpoint_id TEXT NOT NULL,
    user_id TEXT NOT NULL,
    name TEXT NOT NULL,
    action TEXT NOT NULL,
    secrets TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    schema INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, endpoint_id)
) STRICT;
CREATE TABLE webhook_subscriptions (
    tenant_id TEXT NOT NULL,
    subscription_id TEXT NOT NULL,
    user_id TEXT NOT NULL,
    name TEXT NOT NULL,
    url TEXT NOT NULL,
    types TEXT NOT NULL,
    task_id TEXT,
    secrets TEXT NOT NULL,
    position INTEGER NOT NULL,
    enabled INTEGER NOT NULL,
    disabled_because TEXT,
    dead_in_a_row INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    schema INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, subscription_id)
) STRICT;
CREATE TABLE webhook_deliveries (
    tenant_id TEXT NOT NULL,
    delivery_id TEXT NOT NULL,
    subscription_id TEXT NOT NULL,
    user_id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    trace_id TEXT NOT NULL,
    event_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    kind TEXT NOT NULL,
    status TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    next_at INTEGER NOT NULL,
    answer INTEGER,
    problem TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    schema INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, delivery_id),
    UNIQUE (tenant_id, subscription_id, seq)
) STRICT;
CREATE INDEX webhook_deliveries_by_status ON webhook_deliveries (tenant_id, subscription_id, status, task_id, seq);
";

/// Version of the rows of these tables.
pub(crate) const ROWS: u32 = 1;

/// Notices of changes to endpoints and subscriptions.
pub(crate) const CHANGED: &str = "server.webhooks";

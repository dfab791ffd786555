//! The tables of durable execution. Each row carries the version of its record (`v`), 1 today.

use longhaul_store::Migrations;

/// The migrations of this crate; give them to [`longhaul_store::Store::open`].
pub const MIGRATIONS: Migrations = Migrations { component: "durable", steps: &[FIRST] };

const FIRST: &str = "
CREATE TABLE executions (
    tenant_id TEXT NOT NULL,
    execution_id TEXT NOT NULL,
    user_id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    trace_id TEXT NOT NULL,
    v INTEGER NOT NULL,
    thread_id TEXT NOT NULL,
    graph TEXT NOT NULL,
    graph_version INTEGER NOT NULL,
    fingerprint TEXT NOT NULL,
    status TEXT NOT NULL,
    error TEXT,
    forked_from TEXT,
    started_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, execution_id)
) STRICT;
CREATE INDEX executions_by_thread ON executions (tenant_id, thread_id, started_at);
CREATE UNIQUE INDEX executions_unfinished ON executions (tenant_id, thread_id)
    WHERE status NOT IN ('completed', 'abandoned');
CREATE TABLE checkpoints (
    tenant_id TEXT NOT NULL,
    execution_id TEXT NOT NULL,
    superstep INTEGER NOT NULL,
    v INTEGER NOT NULL,
    node TEXT NOT NULL,
    next TEXT NOT NULL,
    form TEXT NOT NULL,
    data TEXT NOT NULL,
    digest TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, execution_id, superstep)
) STRICT;
CREATE TABLE steps (
    tenant_id TEXT NOT NULL,
    execution_id TEXT NOT NULL,
    superstep INTEGER NOT NULL,
    node TEXT NOT NULL,
    ordinal INTEGER NOT NULL,
    v INTEGER NOT NULL,
    name TEXT NOT NULL,
    effect TEXT NOT NULL,
    effect_key TEXT,
    result TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, execution_id, superstep, node, ordinal)
) STRICT;
CREATE TABLE effects (
    tenant_id TEXT NOT NULL,
    execution_id TEXT NOT NULL,
    superstep INTEGER NOT NULL,
    node TEXT NOT NULL,
    ordinal INTEGER NOT NULL,
    v INTEGER NOT NULL,
    name TEXT NOT NULL,
    intent_at INTEGER NOT NULL,
    receipt_at INTEGER,
    PRIMARY KEY (tenant_id, execution_id, superstep, node, ordinal)
) STRICT;
";

//! The tables of this crate. Each holds tenant and network first (invariant 7); a released step is only ever followed
//! by another.

use longhaul_store::Migrations;

/// Give them to [`longhaul_store::Store::open`].
pub const MIGRATIONS: Migrations = Migrations { component: "a2a", steps: &[TABLES] };

/// Tasks with their content as the protocol encodes it, what changed them, which event belongs to which task, and who
/// is told by webhook. `announced`: its client has its id. `direct`: it was answered without becoming a task, and is
/// shown to nobody.
const TABLES: &str = "
CREATE TABLE a2a_tasks (
    tenant_id TEXT NOT NULL,
    network_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    v INTEGER NOT NULL,
    context_id TEXT NOT NULL,
    owner TEXT NOT NULL,
    caller TEXT NOT NULL,
    agent TEXT NOT NULL,
    state INTEGER NOT NULL,
    ended INTEGER NOT NULL,
    announced INTEGER NOT NULL,
    direct INTEGER NOT NULL,
    number INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    content BLOB NOT NULL,
    PRIMARY KEY (tenant_id, network_id, task_id)
) STRICT;
CREATE INDEX a2a_tasks_by_owner ON a2a_tasks (tenant_id, network_id, owner, updated_at, task_id);
CREATE INDEX a2a_tasks_open ON a2a_tasks (tenant_id, network_id, agent, caller, created_at) WHERE ended = 0;
CREATE TABLE a2a_updates (
    tenant_id TEXT NOT NULL,
    network_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    v INTEGER NOT NULL,
    at INTEGER NOT NULL,
    content BLOB NOT NULL,
    PRIMARY KEY (tenant_id, network_id, task_id, number)
) STRICT;
CREATE TABLE a2a_events (
    tenant_id TEXT NOT NULL,
    network_id TEXT NOT NULL,
    event_id TEXT NOT NULL,
    v INTEGER NOT NULL,
    task_id TEXT NOT NULL,
    PRIMARY KEY (tenant_id, network_id, event_id)
) STRICT;
CREATE INDEX a2a_events_by_task ON a2a_events (tenant_id, network_id, task_id);
CREATE TABLE a2a_push (
    tenant_id TEXT NOT NULL,
    network_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    config_id TEXT NOT NULL,
    v INTEGER NOT NULL,
    delivered INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    next_at INTEGER NOT NULL,
    problem TEXT,
    content BLOB NOT NULL,
    PRIMARY KEY (tenant_id, network_id, task_id, config_id)
) STRICT;
CREATE INDEX a2a_push_by_time ON a2a_push (tenant_id, network_id, next_at);
";

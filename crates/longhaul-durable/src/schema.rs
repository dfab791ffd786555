//! The tables of durable execution. Each row carries the version of its record (`v`): rows of checkpoints written by
//! the first schema keep 1, everything else is 2.

use longhaul_store::Migrations;

use crate::{queue, stream};

/// The migrations of this crate; give them to [`longhaul_store::Store::open`].
pub const MIGRATIONS: Migrations =
    Migrations { component: "durable", steps: &[FIRST, SECOND, WAITS, queue::TABLES, stream::INDEX, ENDS] };

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

/// Places gain namespace and task; a checkpoint holds a whole frontier and the digest of everything before it. Rows of
/// the first schema are at namespace '' and task 0, their `frontier` is the bare name of a node, and their digest is
/// the text of the state's.
const SECOND: &str = "
ALTER TABLE executions ADD COLUMN state_version INTEGER NOT NULL DEFAULT 1;
ALTER TABLE executions ADD COLUMN parent_step TEXT;
ALTER TABLE executions ADD COLUMN cancel_requested_at INTEGER;
ALTER TABLE executions ADD COLUMN cancel_by TEXT;
ALTER TABLE executions ADD COLUMN cancel_reason TEXT;
ALTER TABLE executions ADD COLUMN closed_at INTEGER;
DROP INDEX executions_unfinished;
CREATE UNIQUE INDEX executions_unfinished ON executions (tenant_id, thread_id)
    WHERE status NOT IN ('completed', 'cancelled', 'abandoned');
CREATE INDEX executions_to_cancel ON executions (tenant_id, execution_id)
    WHERE cancel_requested_at IS NOT NULL AND closed_at IS NULL;
UPDATE executions SET closed_at = updated_at WHERE status IN ('completed', 'abandoned');
CREATE TABLE checkpoints_2 (
    tenant_id TEXT NOT NULL,
    execution_id TEXT NOT NULL,
    ns TEXT NOT NULL,
    superstep INTEGER NOT NULL,
    v INTEGER NOT NULL,
    nodes TEXT NOT NULL,
    frontier TEXT NOT NULL,
    form TEXT NOT NULL,
    data TEXT NOT NULL,
    digest BLOB NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, execution_id, ns, superstep)
) STRICT;
INSERT INTO checkpoints_2 (tenant_id, execution_id, ns, superstep, v, nodes, frontier, form, data, digest, at)
    SELECT tenant_id, execution_id, '', superstep, v, node, next, form, data, CAST(digest AS BLOB), at
    FROM checkpoints;
DROP TABLE checkpoints;
ALTER TABLE checkpoints_2 RENAME TO checkpoints;
CREATE TABLE snapshots (
    tenant_id TEXT NOT NULL,
    execution_id TEXT NOT NULL,
    ns TEXT NOT NULL,
    superstep INTEGER NOT NULL,
    v INTEGER NOT NULL,
    state TEXT NOT NULL,
    digest BLOB NOT NULL,
    PRIMARY KEY (tenant_id, execution_id, ns, superstep)
) STRICT;
CREATE TABLE tasks_done (
    tenant_id TEXT NOT NULL,
    execution_id TEXT NOT NULL,
    ns TEXT NOT NULL,
    superstep INTEGER NOT NULL,
    task INTEGER NOT NULL,
    v INTEGER NOT NULL,
    node TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    updates TEXT NOT NULL,
    route TEXT,
    at INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, execution_id, ns, superstep, task)
) STRICT, WITHOUT ROWID;
CREATE TABLE steps_2 (
    tenant_id TEXT NOT NULL,
    execution_id TEXT NOT NULL,
    ns TEXT NOT NULL,
    superstep INTEGER NOT NULL,
    task INTEGER NOT NULL,
    ordinal INTEGER NOT NULL,
    v INTEGER NOT NULL,
    node TEXT NOT NULL,
    name TEXT NOT NULL,
    effect TEXT NOT NULL,
    effect_key TEXT,
    result TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, execution_id, ns, superstep, task, ordinal)
) STRICT, WITHOUT ROWID;
INSERT INTO steps_2 (tenant_id, execution_id, ns, superstep, task, ordinal, v, node, name, effect, effect_key, result,
        at)
    SELECT tenant_id, execution_id, '', superstep, 0, ordinal, v, node, name, effect, effect_key, result, at FROM steps;
DROP TABLE steps;
ALTER TABLE steps_2 RENAME TO steps;
CREATE TABLE effects_2 (
    tenant_id TEXT NOT NULL,
    execution_id TEXT NOT NULL,
    ns TEXT NOT NULL,
    superstep INTEGER NOT NULL,
    task INTEGER NOT NULL,
    ordinal INTEGER NOT NULL,
    v INTEGER NOT NULL,
    node TEXT NOT NULL,
    name TEXT NOT NULL,
    probe INTEGER NOT NULL,
    intent_at INTEGER NOT NULL,
    receipt_at INTEGER,
    PRIMARY KEY (tenant_id, execution_id, ns, superstep, task, ordinal)
) STRICT, WITHOUT ROWID;
INSERT INTO effects_2 (tenant_id, execution_id, ns, superstep, task, ordinal, v, node, name, probe, intent_at,
        receipt_at)
    SELECT tenant_id, execution_id, '', superstep, 0, ordinal, v, node, name, 0, intent_at, receipt_at FROM effects;
DROP TABLE effects;
ALTER TABLE effects_2 RENAME TO effects;
CREATE INDEX effects_pending ON effects (tenant_id, execution_id) WHERE receipt_at IS NULL;
CREATE TABLE waits (
    tenant_id TEXT NOT NULL,
    wait_id TEXT NOT NULL,
    execution_id TEXT NOT NULL,
    ns TEXT NOT NULL,
    superstep INTEGER NOT NULL,
    task INTEGER NOT NULL,
    ordinal INTEGER NOT NULL,
    v INTEGER NOT NULL,
    node TEXT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    payload TEXT NOT NULL,
    schema TEXT,
    deadline_at INTEGER,
    default_value TEXT,
    status TEXT NOT NULL,
    value TEXT,
    request_id TEXT,
    actor TEXT,
    answered_at INTEGER,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, wait_id)
) STRICT;
CREATE UNIQUE INDEX waits_by_place ON waits (tenant_id, execution_id, ns, superstep, task, ordinal);
CREATE INDEX waits_open ON waits (tenant_id, execution_id) WHERE status = 'waiting';
CREATE INDEX waits_due ON waits (deadline_at) WHERE status = 'waiting';
CREATE TABLE answers (
    tenant_id TEXT NOT NULL,
    wait_id TEXT NOT NULL,
    attempt TEXT NOT NULL,
    v INTEGER NOT NULL,
    request_id TEXT NOT NULL,
    actor TEXT NOT NULL,
    value_digest BLOB NOT NULL,
    outcome TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, wait_id, attempt)
) STRICT, WITHOUT ROWID;
CREATE TABLE cache (
    tenant_id TEXT NOT NULL,
    cache_key BLOB NOT NULL,
    v INTEGER NOT NULL,
    updates TEXT NOT NULL,
    route TEXT,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, cache_key)
) STRICT, WITHOUT ROWID;
CREATE INDEX cache_by_end ON cache (expires_at);
";

/// Children are found from their parents, executions of which a wait has ended by that, waits from what was delivered for them or by the hash of their token, and
/// interventions are kept with whom they have reached.
const WAITS: &str = "
ALTER TABLE executions ADD COLUMN parent_execution_id TEXT;
CREATE INDEX executions_by_parent ON executions (tenant_id, parent_execution_id)
    WHERE parent_execution_id IS NOT NULL;
ALTER TABLE executions ADD COLUMN woken_at INTEGER;
CREATE INDEX executions_woken ON executions (woken_at) WHERE woken_at IS NOT NULL;
ALTER TABLE waits ADD COLUMN correlation TEXT NOT NULL DEFAULT '';
ALTER TABLE waits ADD COLUMN token_hash BLOB;
CREATE UNIQUE INDEX waits_by_token ON waits (token_hash) WHERE token_hash IS NOT NULL;
CREATE INDEX waits_for_events ON waits (tenant_id, name, correlation) WHERE status = 'waiting';
CREATE TABLE deliveries (
    tenant_id TEXT NOT NULL,
    user_id TEXT NOT NULL,
    event_id TEXT NOT NULL,
    v INTEGER NOT NULL,
    name TEXT NOT NULL,
    correlation TEXT NOT NULL,
    payload_digest BLOB NOT NULL,
    waits TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, user_id, event_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE interventions (
    tenant_id TEXT NOT NULL,
    execution_id TEXT NOT NULL,
    intervention_id TEXT NOT NULL,
    v INTEGER NOT NULL,
    number INTEGER NOT NULL,
    author TEXT NOT NULL,
    note TEXT NOT NULL,
    payload TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, execution_id, intervention_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE interventions_seen (
    tenant_id TEXT NOT NULL,
    execution_id TEXT NOT NULL,
    consumer TEXT NOT NULL,
    intervention_id TEXT NOT NULL,
    v INTEGER NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, execution_id, consumer, intervention_id)
) STRICT, WITHOUT ROWID;
";

/// How to see that an execution, a step or a wait exists; see the store's register of ids.
const ENDS: &str = "INSERT INTO link_ends (prefix, query) VALUES
    ('exec_', 'SELECT user_id FROM executions WHERE tenant_id = ?1 AND execution_id = ?2'),
    ('exec_/', 'SELECT e.user_id FROM steps s
        JOIN executions e ON e.tenant_id = s.tenant_id AND e.execution_id = s.execution_id
        WHERE s.tenant_id = ?1 AND s.execution_id = ?3
            AND ?2 = s.execution_id || ''/'' || s.ns || s.node || ''/'' || s.superstep
                || CASE WHEN s.ns = '''' AND s.task = 0 THEN '''' ELSE ''.'' || s.task END
                || ''/'' || s.name || ''#'' || s.ordinal
        LIMIT 1'),
    ('wait_', 'SELECT e.user_id FROM waits w
        JOIN executions e ON e.tenant_id = w.tenant_id AND e.execution_id = w.execution_id
        WHERE w.tenant_id = ?1 AND w.wait_id = ?2')";

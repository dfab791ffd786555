//! The tables of reviewed knowledge. Every one is keyed by tenant first.
//!
//! `shared_versions` holds every version of every entry and is never changed; `shared_heads` says which is the newest.
//! `shared_proposals` is what was wanted, by whom, on what evidence, and what became of it.

/// The step that makes them.
pub(crate) const STEP_6: &str = "
CREATE TABLE shared_schemas (
    tenant_id  TEXT    NOT NULL,
    schema_id  TEXT    NOT NULL,
    user_id    TEXT    NOT NULL,
    definition TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, schema_id)
) STRICT;

CREATE TABLE shared_proposals (
    tenant_id    TEXT    NOT NULL,
    proposal_id  TEXT    NOT NULL,
    user_id      TEXT    NOT NULL,
    session_id   TEXT    NOT NULL,
    task_id      TEXT    NOT NULL,
    trace_id     TEXT    NOT NULL,
    key          TEXT    NOT NULL,
    schema_id    TEXT,
    value        TEXT,
    evidence     TEXT    NOT NULL,
    why          TEXT    NOT NULL,
    proposer     TEXT    NOT NULL,
    base_version INTEGER NOT NULL,
    wish         TEXT    NOT NULL,
    state        TEXT    NOT NULL,
    created_at   INTEGER NOT NULL,
    decided_at   INTEGER,
    decided_by   TEXT,
    note         TEXT,
    version      INTEGER,
    schema       INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, proposal_id)
) STRICT;
CREATE INDEX shared_proposals_by_state ON shared_proposals (tenant_id, state, created_at);
CREATE INDEX shared_proposals_by_wish ON shared_proposals (tenant_id, wish);

CREATE TABLE shared_versions (
    tenant_id   TEXT    NOT NULL,
    key         TEXT    NOT NULL,
    version     INTEGER NOT NULL,
    user_id     TEXT    NOT NULL,
    session_id  TEXT    NOT NULL,
    task_id     TEXT    NOT NULL,
    trace_id    TEXT    NOT NULL,
    schema_id   TEXT,
    value       TEXT,
    evidence    TEXT    NOT NULL,
    action      TEXT    NOT NULL,
    of_version  INTEGER,
    proposal_id TEXT,
    actor       TEXT    NOT NULL,
    why         TEXT    NOT NULL,
    at          INTEGER NOT NULL,
    schema      INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, key, version)
) STRICT;

CREATE TABLE shared_heads (
    tenant_id TEXT    NOT NULL,
    key       TEXT    NOT NULL,
    user_id   TEXT    NOT NULL,
    version   INTEGER NOT NULL,
    memory_id TEXT,
    PRIMARY KEY (tenant_id, key)
) STRICT;
CREATE INDEX shared_heads_by_memory ON shared_heads (tenant_id, memory_id) WHERE memory_id IS NOT NULL;

INSERT INTO link_ends (prefix, query) VALUES
    ('proposal_', 'SELECT CAST(NULL AS TEXT) FROM shared_proposals WHERE tenant_id = ?1 AND proposal_id = ?2');
";

/// Version of what these rows hold.
pub(crate) const ROW_VERSION: i64 = 1;

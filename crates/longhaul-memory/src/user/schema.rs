//! The tables of user memory. Every one is keyed by tenant and user first.
//!
//! `memory_user_entries` holds every entry with the versions between which it stood: the state at a version is what had
//! begun by then and had not ended. Nothing is overwritten, so a roll-back finds what was; only an erasure deletes.

/// Step 4 of the migrations of memory.
pub(crate) const STEP_4: &str = "
CREATE TABLE memory_users (
    tenant_id   TEXT    NOT NULL,
    user_id     TEXT    NOT NULL,
    version     INTEGER NOT NULL,
    next_entry  INTEGER NOT NULL,
    memory_on   INTEGER NOT NULL,
    implicit_on INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, user_id)
) STRICT;

CREATE TABLE memory_user_entries (
    tenant_id    TEXT    NOT NULL,
    user_id      TEXT    NOT NULL,
    entry        INTEGER NOT NULL,
    version_from INTEGER NOT NULL,
    version_to   INTEGER,
    v            INTEGER NOT NULL,
    block        TEXT    NOT NULL,
    content      TEXT    NOT NULL,
    attribute    TEXT,
    slot_value   TEXT,
    origin       TEXT    NOT NULL,
    threads      TEXT    NOT NULL,
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    memory_id    TEXT,
    PRIMARY KEY (tenant_id, user_id, entry, version_from)
) STRICT;
CREATE INDEX memory_user_entries_now ON memory_user_entries (tenant_id, user_id, entry) WHERE version_to IS NULL;
CREATE INDEX memory_user_entries_mirrored ON memory_user_entries (tenant_id, memory_id) WHERE memory_id IS NOT NULL;

CREATE TABLE memory_user_versions (
    tenant_id   TEXT    NOT NULL,
    user_id     TEXT    NOT NULL,
    version     INTEGER NOT NULL,
    v           INTEGER NOT NULL,
    action      TEXT    NOT NULL,
    actor       TEXT    NOT NULL,
    why         TEXT    NOT NULL,
    proposal_id TEXT,
    at          INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, user_id, version)
) STRICT;

CREATE TABLE memory_proposals (
    tenant_id   TEXT    NOT NULL,
    user_id     TEXT    NOT NULL,
    proposal_id TEXT    NOT NULL,
    v           INTEGER NOT NULL,
    state       TEXT    NOT NULL,
    target_key  TEXT    NOT NULL,
    target      TEXT    NOT NULL,
    entry       INTEGER,
    confidence  REAL    NOT NULL,
    proposer    TEXT    NOT NULL,
    quote       TEXT,
    threads     TEXT    NOT NULL,
    created_at  INTEGER NOT NULL,
    decided_at  INTEGER,
    decided_by  TEXT,
    why         TEXT,
    version     INTEGER,
    memory_id   TEXT,
    PRIMARY KEY (tenant_id, user_id, proposal_id)
) STRICT;
CREATE INDEX memory_proposals_by_state ON memory_proposals (tenant_id, user_id, state, created_at);
CREATE INDEX memory_proposals_by_target ON memory_proposals (tenant_id, user_id, target_key);
CREATE INDEX memory_proposals_by_memory ON memory_proposals (tenant_id, memory_id) WHERE memory_id IS NOT NULL;

CREATE TABLE memory_user_cursors (
    tenant_id TEXT    NOT NULL,
    user_id   TEXT    NOT NULL,
    namespace TEXT    NOT NULL,
    seq       INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, user_id, namespace)
) STRICT;
";

/// Version of what these rows hold.
pub(crate) const ROW_VERSION: u32 = 1;

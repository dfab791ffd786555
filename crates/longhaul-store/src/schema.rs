//! The store's own tables. Every table that holds somebody's data is keyed by its tenant first (invariant 7).

use crate::Migrations;

/// The store's own migrations; [`crate::Store::open`] includes them.
pub const MIGRATIONS: Migrations =
    Migrations { component: "store", steps: &[FIRST, LEASE_TTL, BLOB_REFERENCES, BLOB_PLACES, LINK_ENDS, ERASURES] };

const FIRST: &str = "
CREATE TABLE tenants (
    tenant_id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;
CREATE TABLE users (
    tenant_id TEXT NOT NULL REFERENCES tenants,
    user_id TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, user_id)
) STRICT;
CREATE TABLE sessions (
    tenant_id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    user_id TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, session_id),
    FOREIGN KEY (tenant_id, user_id) REFERENCES users
) STRICT;
CREATE TABLE tasks (
    tenant_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    user_id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    thread_id TEXT NOT NULL,
    trace_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    title TEXT NOT NULL,
    dir TEXT,
    model TEXT,
    data TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, task_id),
    UNIQUE (tenant_id, thread_id),
    FOREIGN KEY (tenant_id, session_id) REFERENCES sessions
) STRICT;
CREATE INDEX tasks_by_dir ON tasks (tenant_id, dir);
CREATE TABLE events (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant_id TEXT NOT NULL,
    user_id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    trace_id TEXT NOT NULL,
    event_id TEXT NOT NULL,
    v INTEGER NOT NULL,
    at INTEGER NOT NULL,
    execution_id TEXT,
    step TEXT,
    kind TEXT NOT NULL,
    visibility TEXT NOT NULL,
    data TEXT NOT NULL
) STRICT;
CREATE INDEX events_by_task ON events (tenant_id, task_id, seq);
CREATE INDEX events_by_tenant ON events (tenant_id, seq);
CREATE TABLE leases (
    tenant_id TEXT NOT NULL,
    thread_id TEXT NOT NULL,
    token INTEGER NOT NULL,
    pid INTEGER NOT NULL,
    host TEXT NOT NULL,
    since INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, thread_id)
) STRICT;
";

/// How far ahead of its clock a holder moved the end of its lease: a row whose end lies further ahead than that was
/// written by a clock that has since been put back.
const LEASE_TTL: &str = "ALTER TABLE leases ADD COLUMN ttl_ms INTEGER NOT NULL DEFAULT 60000";

/// The queries that tell which blobs rows refer to; see `references`.
const BLOB_REFERENCES: &str = "CREATE TABLE blob_references (
    component TEXT NOT NULL,
    query TEXT NOT NULL,
    PRIMARY KEY (component, query)
) STRICT";

/// Content in a bucket, each under a key that is never used again; and what is being written, in rows or in a bucket,
/// so that what a dead process has left can be found. The bucket's name is kept with each, as it may be another one
/// tomorrow.
const BLOB_PLACES: &str = "
CREATE TABLE blob_objects (
    tenant_id TEXT NOT NULL,
    digest TEXT NOT NULL,
    place TEXT NOT NULL,
    object TEXT NOT NULL,
    encoding TEXT NOT NULL,
    size INTEGER NOT NULL,
    stored INTEGER NOT NULL,
    put_at INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, digest)
) STRICT;
CREATE TABLE blob_uploads (
    tenant_id TEXT NOT NULL,
    upload TEXT NOT NULL,
    place TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, upload)
) STRICT;
";

/// The queries that tell whether an id is there and whose it is; see `ends`.
const LINK_ENDS: &str = "CREATE TABLE link_ends (
    prefix TEXT NOT NULL PRIMARY KEY,
    query TEXT NOT NULL
) STRICT;
INSERT INTO link_ends (prefix, query) VALUES
    ('task_', 'SELECT user_id FROM tasks WHERE tenant_id = ?1 AND task_id = ?2'),
    ('sess_', 'SELECT user_id FROM sessions WHERE tenant_id = ?1 AND session_id = ?2'),
    ('evt_', 'SELECT user_id FROM events WHERE tenant_id = ?1 AND event_id = ?2 LIMIT 1');
CREATE INDEX events_by_id ON events (tenant_id, event_id);";

/// Erasures with their receipts; the blobs that one still has to remove, so that it can be said again; and the statements
/// by which components erase rows that nobody else knows, see `erasing`.
const ERASURES: &str = "
CREATE TABLE erasures (
    tenant_id TEXT NOT NULL,
    erasure_id TEXT NOT NULL,
    v INTEGER NOT NULL,
    user_id TEXT NOT NULL,
    asked TEXT NOT NULL,
    asked_digest TEXT NOT NULL,
    begun_at INTEGER NOT NULL,
    ended_at INTEGER,
    receipt TEXT NOT NULL,
    PRIMARY KEY (tenant_id, erasure_id)
) STRICT;
CREATE TABLE erasure_blobs (
    tenant_id TEXT NOT NULL,
    erasure_id TEXT NOT NULL,
    digest TEXT NOT NULL,
    referred_at INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, erasure_id, digest)
) STRICT;
CREATE TABLE erase_queries (
    component TEXT NOT NULL,
    subject TEXT NOT NULL,
    statement TEXT NOT NULL,
    PRIMARY KEY (component, subject, statement)
) STRICT;
";

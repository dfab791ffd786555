//! The tables of what becomes of memories: cold segments, where each cold memory is, and receipts of erasures.
//!
//! Invariant: a memory has a row in `memories` or one in `memory_cold`, never in both; a `live` segment's object exists
//! in the object store, and a `writing` or `gone` one's may.

/// The step that makes them.
pub(crate) const STEP_3: &str = "
CREATE TABLE memory_segments (
    tenant_id     TEXT    NOT NULL,
    namespace     TEXT    NOT NULL,
    segment       TEXT    NOT NULL,
    v             INTEGER NOT NULL,
    state         TEXT    NOT NULL,
    object        TEXT    NOT NULL,
    digest        TEXT    NOT NULL,
    documents     INTEGER NOT NULL,
    bytes         INTEGER NOT NULL,
    removed       BLOB    NOT NULL,
    to_rewrite    INTEGER NOT NULL,
    happened_from INTEGER NOT NULL,
    happened_to   INTEGER NOT NULL,
    summary       TEXT    NOT NULL,
    changed_at    INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, namespace, segment)
) STRICT;
CREATE INDEX memory_segments_by_state ON memory_segments (state, to_rewrite);

CREATE TABLE memory_cold (
    tenant_id  TEXT    NOT NULL,
    namespace  TEXT    NOT NULL,
    memory_id  TEXT    NOT NULL,
    segment    TEXT    NOT NULL,
    position   INTEGER NOT NULL,
    user_id    TEXT    NOT NULL,
    thread     TEXT,
    subject    TEXT,
    attribute  TEXT,
    expires_at INTEGER,
    PRIMARY KEY (tenant_id, memory_id)
) STRICT;
CREATE INDEX memory_cold_by_segment ON memory_cold (tenant_id, namespace, segment);
CREATE INDEX memory_cold_by_subject ON memory_cold (tenant_id, namespace, subject, attribute) WHERE subject IS NOT NULL;
CREATE INDEX memory_cold_by_expiry ON memory_cold (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE memory_receipts (
    tenant_id  TEXT    NOT NULL,
    receipt_id TEXT    NOT NULL,
    user_id    TEXT    NOT NULL,
    erased_at  INTEGER NOT NULL,
    v          INTEGER NOT NULL,
    receipt    TEXT    NOT NULL,
    PRIMARY KEY (tenant_id, receipt_id)
) STRICT;
";

/// Every table that ever held text of a memory or something derived from it; what a compaction rewrites.
pub(crate) const TABLES: &[&str] = &[
    "memories",
    "memory_postings",
    "memory_vectors",
    "memory_access",
    "memory_gone",
    "memory_partitions",
    "memory_segments",
    "memory_cold",
    "memory_receipts",
    "memory_user_entries",
    "memory_user_versions",
    "memory_user_cursors",
    "memory_remote",
    "memory_proposals",
    "memory_actions",
];

//! The tables of memory. Every one is keyed by tenant first.
//!
//! `memories` is the truth. The other tables are derived from it: postings and vectors can be deleted and come back.
//! Numbers (`seq`, `vector_seq`) are handed out within the tenant by its row in `memory_partitions`, whose lock a writer
//! holds until its commit; so the order of numbers is the order of commits, on every database, and "what is new since
//! number n" misses nothing.

use longhaul_store::Migrations;

/// The tables of this crate; give them to `Store::open`.
pub const MIGRATIONS: Migrations = Migrations { component: "memory", steps: &[STEP_1] };

/// Version of what a row of `memories` holds.
pub(crate) const ROW_VERSION: u32 = 1;

const STEP_1: &str = "
CREATE TABLE memory_partitions (
    tenant_id       TEXT    NOT NULL PRIMARY KEY,
    last_seq        INTEGER NOT NULL,
    last_vector_seq INTEGER NOT NULL,
    analyser        INTEGER NOT NULL,
    documents       INTEGER NOT NULL,
    terms           INTEGER NOT NULL
) STRICT;

CREATE TABLE memories (
    tenant_id   TEXT    NOT NULL,
    seq         INTEGER NOT NULL,
    memory_id   TEXT    NOT NULL,
    v           INTEGER NOT NULL,
    user_id     TEXT    NOT NULL,
    task_id     TEXT,
    collection  TEXT    NOT NULL,
    kind        TEXT    NOT NULL,
    source      TEXT    NOT NULL,
    content     TEXT    NOT NULL,
    meta        TEXT    NOT NULL,
    importance  REAL    NOT NULL,
    created_at  INTEGER NOT NULL,
    expires_at  INTEGER,
    PRIMARY KEY (tenant_id, seq),
    UNIQUE (tenant_id, memory_id)
) STRICT;
CREATE INDEX memories_by_filter
    ON memories (tenant_id, expires_at, collection, kind, task_id, created_at, user_id, seq);

CREATE TABLE memory_postings (
    tenant_id TEXT    NOT NULL,
    term      TEXT    NOT NULL,
    block     INTEGER NOT NULL,
    postings  BLOB    NOT NULL,
    PRIMARY KEY (tenant_id, term, block)
) STRICT, WITHOUT ROWID;

CREATE TABLE memory_vectors (
    tenant_id  TEXT    NOT NULL,
    seq        INTEGER NOT NULL,
    embedder   TEXT    NOT NULL,
    vector_seq INTEGER NOT NULL,
    vector     BLOB    NOT NULL,
    PRIMARY KEY (tenant_id, seq)
) STRICT;
CREATE INDEX memory_vectors_by_age ON memory_vectors (tenant_id, embedder, vector_seq);
";

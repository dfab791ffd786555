//! The tables of memory. Every one is keyed by tenant and namespace first: together they name a partition.
//!
//! `memories` is the truth. Postings and vectors are derived from it: they can be deleted and come back. Numbers (`seq`,
//! `change_seq`, `vector_seq`) are handed out within the partition by its row in `memory_partitions`, whose lock a writer
//! holds until its commit; so the order of numbers is the order of commits, on every database, and "what is new since
//! number n" misses nothing. Every write of a row takes a new `change_seq`; a deletion leaves one in `memory_gone`.

use longhaul_store::Migrations;

use crate::{actions, life, remote, user};

/// The tables of this crate; give them to `Store::open`. Each part appends its own step.
pub const MIGRATIONS: Migrations = Migrations {
    component: "memory",
    steps: &[
        STEP_1,
        STEP_2,
        life::schema::STEP_3,
        user::schema::STEP_4,
        actions::schema::STEP_5,
        remote::state::STEP_6,
        STEP_7,
    ],
};

/// Version of what a row of `memories` holds.
pub(crate) const ROW_VERSION: u32 = 2;

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

/// Namespaces, owners and grants; threads, time, facts, tags. What the first release wrote moves to the namespace `main`;
/// who wrote first owns it, and who else had written there may go on.
const STEP_2: &str = "
CREATE TABLE memory_partitions_2 (
    tenant_id       TEXT    NOT NULL,
    namespace       TEXT    NOT NULL,
    owner           TEXT    NOT NULL,
    purpose         TEXT    NOT NULL,
    frozen          INTEGER NOT NULL,
    last_seq        INTEGER NOT NULL,
    last_change     INTEGER NOT NULL,
    last_vector_seq INTEGER NOT NULL,
    analyser        INTEGER NOT NULL,
    documents       INTEGER NOT NULL,
    terms           INTEGER NOT NULL,
    created_at      INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, namespace)
) STRICT;
INSERT INTO memory_partitions_2 (tenant_id, namespace, owner, purpose, frozen, last_seq, last_change, last_vector_seq,
                                 analyser, documents, terms, created_at)
    SELECT p.tenant_id, 'main',
        COALESCE((SELECT m.user_id FROM memories m WHERE m.tenant_id = p.tenant_id ORDER BY m.seq LIMIT 1),
                 'user_default'),
        'memory', 0, p.last_seq, p.last_seq, p.last_vector_seq, p.analyser, p.documents, p.terms,
        COALESCE((SELECT min(m.created_at) FROM memories m WHERE m.tenant_id = p.tenant_id), 0)
    FROM memory_partitions p;
DROP TABLE memory_partitions;
ALTER TABLE memory_partitions_2 RENAME TO memory_partitions;

CREATE TABLE memory_grants (
    tenant_id  TEXT    NOT NULL,
    namespace  TEXT    NOT NULL,
    grantee    TEXT    NOT NULL,
    may_write  INTEGER NOT NULL,
    granted_by TEXT    NOT NULL,
    granted_at INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, namespace, grantee)
) STRICT;
INSERT INTO memory_grants (tenant_id, namespace, grantee, may_write, granted_by, granted_at)
    SELECT DISTINCT m.tenant_id, 'main', m.user_id, 1, p.owner, p.created_at
    FROM memories m JOIN memory_partitions p ON p.tenant_id = m.tenant_id
    WHERE m.user_id <> p.owner;

CREATE TABLE memories_2 (
    tenant_id     TEXT    NOT NULL,
    namespace     TEXT    NOT NULL,
    seq           INTEGER NOT NULL,
    change_seq    INTEGER NOT NULL,
    memory_id     TEXT    NOT NULL,
    v             INTEGER NOT NULL,
    user_id       TEXT    NOT NULL,
    task_id       TEXT,
    thread        TEXT,
    collection    TEXT    NOT NULL,
    kind          TEXT    NOT NULL,
    source        TEXT    NOT NULL,
    content       TEXT    NOT NULL,
    meta          TEXT    NOT NULL,
    tags          TEXT    NOT NULL,
    importance    REAL    NOT NULL,
    pinned        INTEGER NOT NULL,
    indexed       INTEGER NOT NULL,
    created_at    INTEGER NOT NULL,
    happened_at   INTEGER NOT NULL,
    expires_at    INTEGER,
    subject       TEXT,
    attribute     TEXT,
    valid_from    INTEGER,
    valid_to      INTEGER,
    superseded_by TEXT,
    superseded_at INTEGER,
    PRIMARY KEY (tenant_id, namespace, seq),
    UNIQUE (tenant_id, memory_id)
) STRICT;
INSERT INTO memories_2 (tenant_id, namespace, seq, change_seq, memory_id, v, user_id, task_id, collection, kind, source,
                        content, meta, tags, importance, pinned, indexed, created_at, happened_at, expires_at)
    SELECT tenant_id, 'main', seq, seq, memory_id, 2, user_id, task_id, collection, kind, source,
        content, meta, '[]', importance, 0, 3, created_at, created_at, expires_at
    FROM memories;
DROP TABLE memories;
ALTER TABLE memories_2 RENAME TO memories;
CREATE INDEX memories_by_change ON memories (tenant_id, namespace, change_seq);
CREATE INDEX memories_by_expiry ON memories (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX memories_by_subject ON memories (tenant_id, namespace, subject, attribute) WHERE subject IS NOT NULL;

CREATE TABLE memory_gone (
    tenant_id  TEXT    NOT NULL,
    namespace  TEXT    NOT NULL,
    change_seq INTEGER NOT NULL,
    seq        INTEGER NOT NULL,
    memory_id  TEXT    NOT NULL,
    PRIMARY KEY (tenant_id, namespace, change_seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE memory_postings_2 (
    tenant_id TEXT    NOT NULL,
    namespace TEXT    NOT NULL,
    term      TEXT    NOT NULL,
    block     INTEGER NOT NULL,
    postings  BLOB    NOT NULL,
    PRIMARY KEY (tenant_id, namespace, term, block)
) STRICT, WITHOUT ROWID;
INSERT INTO memory_postings_2 (tenant_id, namespace, term, block, postings)
    SELECT tenant_id, 'main', term, block, postings FROM memory_postings;
DROP TABLE memory_postings;
ALTER TABLE memory_postings_2 RENAME TO memory_postings;

CREATE TABLE memory_vectors_2 (
    tenant_id  TEXT    NOT NULL,
    namespace  TEXT    NOT NULL,
    seq        INTEGER NOT NULL,
    embedder   TEXT    NOT NULL,
    vector_seq INTEGER NOT NULL,
    vector     BLOB    NOT NULL,
    PRIMARY KEY (tenant_id, namespace, seq, embedder)
) STRICT;
INSERT INTO memory_vectors_2 (tenant_id, namespace, seq, embedder, vector_seq, vector)
    SELECT tenant_id, 'main', seq, embedder, vector_seq, vector FROM memory_vectors;
DROP TABLE memory_vectors;
ALTER TABLE memory_vectors_2 RENAME TO memory_vectors;
CREATE INDEX memory_vectors_by_age ON memory_vectors (tenant_id, namespace, embedder, vector_seq);

CREATE TABLE memory_access (
    tenant_id     TEXT    NOT NULL,
    namespace     TEXT    NOT NULL,
    memory_id     TEXT    NOT NULL,
    uses          INTEGER NOT NULL,
    last_used_at  INTEGER,
    shown         INTEGER NOT NULL,
    last_shown_at INTEGER,
    PRIMARY KEY (tenant_id, namespace, memory_id)
) STRICT, WITHOUT ROWID;
";

/// How to see that a memory exists, hot or cold; see the store's register of ids.
const STEP_7: &str = "INSERT INTO link_ends (prefix, query) VALUES
    ('mem_', 'SELECT user_id FROM memories WHERE tenant_id = ?1 AND memory_id = ?2
        UNION ALL SELECT user_id FROM memory_cold WHERE tenant_id = ?1 AND memory_id = ?2')";

//! The tables of corpora. Chunks are memories, in a partition of their version; here is which versions there are, of
//! which files they are made, and which chunk came of which file.
//!
//! Invariant: a version's row says `ready` from the transaction on that froze its partition, and nothing of it changes
//! after that but its removal. A removed version's row stays, so that its number is never given again.

use longhaul_store::Migrations;

/// The tables of this crate; give them to `Store::open` after those of memory.
pub const MIGRATIONS: Migrations = Migrations { component: "knowledge", steps: &[STEP_1] };

const STEP_1: &str = "
CREATE TABLE knowledge_versions (
    tenant_id    TEXT    NOT NULL,
    corpus       TEXT    NOT NULL,
    version      INTEGER NOT NULL,
    v            INTEGER NOT NULL,
    owner        TEXT    NOT NULL,
    state        TEXT    NOT NULL,
    source       TEXT    NOT NULL,
    selection    TEXT    NOT NULL,
    recipe       TEXT    NOT NULL,
    files        INTEGER NOT NULL,
    refused      INTEGER NOT NULL,
    chunks       INTEGER NOT NULL,
    bytes        INTEGER NOT NULL,
    created_at   INTEGER NOT NULL,
    completed_at INTEGER,
    PRIMARY KEY (tenant_id, corpus, version)
) STRICT;

CREATE TABLE knowledge_files (
    tenant_id TEXT    NOT NULL,
    corpus    TEXT    NOT NULL,
    version   INTEGER NOT NULL,
    name      TEXT    NOT NULL,
    digest    TEXT    NOT NULL,
    format    TEXT    NOT NULL,
    title     TEXT,
    bytes     INTEGER NOT NULL,
    chunks    INTEGER NOT NULL,
    done      INTEGER NOT NULL,
    problem   TEXT,
    PRIMARY KEY (tenant_id, corpus, version, name)
) STRICT;

CREATE TABLE knowledge_chunks (
    tenant_id TEXT    NOT NULL,
    corpus    TEXT    NOT NULL,
    version   INTEGER NOT NULL,
    digest    TEXT    NOT NULL,
    name      TEXT    NOT NULL,
    position  INTEGER NOT NULL,
    memory_id TEXT    NOT NULL,
    PRIMARY KEY (tenant_id, corpus, version, digest, name, position)
) STRICT;
CREATE INDEX knowledge_chunks_by_file ON knowledge_chunks (tenant_id, corpus, version, name, position);
";

//! The table of the shared cache.

/// A value is text, or the file that `file_id` names. `groups` is a JSON list; empty for everybody.
pub(crate) const TABLES: &str = "
CREATE TABLE cache_entries (
    tenant_id TEXT NOT NULL,
    network_id TEXT NOT NULL,
    cache_id TEXT NOT NULL,
    v INTEGER NOT NULL,
    value TEXT,
    file_id TEXT,
    media_type TEXT NOT NULL,
    groups TEXT NOT NULL,
    version INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    expires_at INTEGER,
    PRIMARY KEY (tenant_id, network_id, cache_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX cache_entries_by_maker ON cache_entries (tenant_id, network_id, created_by);
CREATE INDEX cache_entries_by_end ON cache_entries (tenant_id, network_id, expires_at);
";

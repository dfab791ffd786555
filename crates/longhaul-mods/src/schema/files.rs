//! The table of files that agents share; their contents are blobs.

/// `audience` is who may have it besides its owner: `*`, `c:CHANNEL`, `a:AGENT`, or groups (`g:` and a JSON list).
pub(crate) const TABLES: &str = "
CREATE TABLE mod_files (
    tenant_id TEXT NOT NULL,
    network_id TEXT NOT NULL,
    file_id TEXT NOT NULL,
    v INTEGER NOT NULL,
    owner TEXT NOT NULL,
    filename TEXT NOT NULL,
    media_type TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    digest TEXT NOT NULL,
    audience TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, network_id, file_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX mod_files_by_owner ON mod_files (tenant_id, network_id, owner, bytes);
INSERT INTO blob_references (component, query) VALUES ('mods', 'SELECT tenant_id, digest FROM mod_files');
";

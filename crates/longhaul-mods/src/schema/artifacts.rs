//! The tables of shared artifacts; each version's content is a record of the workspace.

/// `groups` is a JSON list; empty for everybody.
pub(crate) const TABLES: &str = "
CREATE TABLE shared_artifacts (
    tenant_id TEXT NOT NULL,
    network_id TEXT NOT NULL,
    artifact_id TEXT NOT NULL,
    v INTEGER NOT NULL,
    name TEXT,
    media_type TEXT NOT NULL,
    groups TEXT NOT NULL,
    version INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, network_id, artifact_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE shared_artifact_versions (
    tenant_id TEXT NOT NULL,
    network_id TEXT NOT NULL,
    artifact_id TEXT NOT NULL,
    version INTEGER NOT NULL,
    record_id TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    made_by TEXT NOT NULL,
    made_at INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, network_id, artifact_id, version)
) STRICT, WITHOUT ROWID;
";

//! The tables of `wiki`.

/// Pages as they are, every version of them, and proposed changes. Tenant and network first.
pub(crate) const TABLES: &str = "
CREATE TABLE wiki_pages (
    tenant_id TEXT NOT NULL, network_id TEXT NOT NULL, page_path TEXT NOT NULL,
    title TEXT NOT NULL, content TEXT NOT NULL, folded TEXT NOT NULL, category TEXT, tags TEXT NOT NULL,
    created_by TEXT NOT NULL, created_at INTEGER NOT NULL,
    version INTEGER NOT NULL, modified_by TEXT NOT NULL, modified_at INTEGER NOT NULL,
    locked_by TEXT, locked_until INTEGER, lock_reason TEXT,
    PRIMARY KEY (tenant_id, network_id, page_path)) STRICT;
CREATE INDEX wiki_pages_by_creation ON wiki_pages (tenant_id, network_id, created_at);
CREATE INDEX wiki_pages_by_owner ON wiki_pages (tenant_id, network_id, created_by);
CREATE TABLE wiki_versions (
    tenant_id TEXT NOT NULL, network_id TEXT NOT NULL, page_path TEXT NOT NULL, version INTEGER NOT NULL,
    version_id TEXT NOT NULL, content TEXT NOT NULL, edited_by TEXT NOT NULL, edited_at INTEGER NOT NULL,
    edit_type TEXT NOT NULL, parent_version INTEGER,
    PRIMARY KEY (tenant_id, network_id, page_path, version)) STRICT;
CREATE TABLE wiki_proposals (
    tenant_id TEXT NOT NULL, network_id TEXT NOT NULL, proposal_id TEXT NOT NULL, page_path TEXT NOT NULL,
    base_version INTEGER NOT NULL, content TEXT NOT NULL, rationale TEXT NOT NULL, proposed_by TEXT NOT NULL,
    created_at INTEGER NOT NULL, status TEXT NOT NULL, resolved_by TEXT, resolved_at INTEGER, comments TEXT,
    PRIMARY KEY (tenant_id, network_id, proposal_id)) STRICT;
CREATE INDEX wiki_proposals_by_page ON wiki_proposals (tenant_id, network_id, page_path, status, created_at);
CREATE INDEX wiki_proposals_by_status ON wiki_proposals (tenant_id, network_id, status, created_at);
";

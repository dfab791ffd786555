//! The tables of `memory`.

/// Which memories the network has, who they come from, and what they are about; the memories themselves are rows of
/// long-term memory. Tenant and network first.
pub(crate) const TABLES: &str = "
CREATE TABLE shared_memories (
    tenant_id TEXT NOT NULL, network_id TEXT NOT NULL, memory_id TEXT NOT NULL,
    collection TEXT NOT NULL, group_name TEXT, channel TEXT, author_id TEXT NOT NULL, event_id TEXT NOT NULL,
    subject_id TEXT NOT NULL, within_id TEXT, kept_at INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, network_id, memory_id)) STRICT;
CREATE UNIQUE INDEX shared_memories_by_event
    ON shared_memories (tenant_id, network_id, author_id, event_id, collection);
CREATE INDEX shared_memories_by_subject ON shared_memories (tenant_id, network_id, subject_id);
CREATE INDEX shared_memories_by_whole ON shared_memories (tenant_id, network_id, within_id);
CREATE INDEX shared_memories_by_collection ON shared_memories (tenant_id, network_id, collection, kept_at);
";

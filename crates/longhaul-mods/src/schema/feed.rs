//! The tables of the feed.

/// `words` is what is searched: title and content in lower case. `groups` is a JSON list; empty for everybody.
pub(crate) const TABLES: &str = "
CREATE TABLE feed_posts (
    tenant_id TEXT NOT NULL,
    network_id TEXT NOT NULL,
    post_id TEXT NOT NULL,
    v INTEGER NOT NULL,
    n INTEGER NOT NULL,
    author TEXT NOT NULL,
    title TEXT NOT NULL,
    content TEXT NOT NULL,
    words TEXT NOT NULL,
    tags TEXT NOT NULL,
    groups TEXT NOT NULL,
    attachments TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, network_id, post_id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX feed_posts_by_number ON feed_posts (tenant_id, network_id, n);
CREATE TABLE feed_tags (
    tenant_id TEXT NOT NULL,
    network_id TEXT NOT NULL,
    tag TEXT NOT NULL,
    n INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, network_id, tag, n)
) STRICT, WITHOUT ROWID;
CREATE TABLE feed_groups (
    tenant_id TEXT NOT NULL,
    network_id TEXT NOT NULL,
    n INTEGER NOT NULL,
    agent_group TEXT NOT NULL,
    PRIMARY KEY (tenant_id, network_id, n, agent_group)
) STRICT, WITHOUT ROWID;
";

//! The tables of `forum`.

/// Topics with their folded text, the groups that may see one, comments and votes. Tenant and network first.
pub(crate) const TABLES: &str = "
CREATE TABLE forum_topics (
    tenant_id TEXT NOT NULL, network_id TEXT NOT NULL, topic_id TEXT NOT NULL,
    title TEXT NOT NULL, content TEXT NOT NULL, folded TEXT NOT NULL, owner_id TEXT NOT NULL, allowed_groups TEXT,
    created_at INTEGER NOT NULL, edited_at INTEGER, last_activity INTEGER NOT NULL,
    upvotes INTEGER NOT NULL, downvotes INTEGER NOT NULL, score INTEGER NOT NULL,
    comment_count INTEGER NOT NULL, comments_made INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, network_id, topic_id)) STRICT;
CREATE INDEX forum_topics_by_activity ON forum_topics (tenant_id, network_id, last_activity);
CREATE INDEX forum_topics_by_score ON forum_topics (tenant_id, network_id, score);
CREATE INDEX forum_topics_by_owner ON forum_topics (tenant_id, network_id, owner_id, created_at);
CREATE TABLE forum_audience (
    tenant_id TEXT NOT NULL, network_id TEXT NOT NULL, topic_id TEXT NOT NULL, group_name TEXT NOT NULL,
    PRIMARY KEY (tenant_id, network_id, topic_id, group_name)) STRICT;
CREATE TABLE forum_comments (
    tenant_id TEXT NOT NULL, network_id TEXT NOT NULL, comment_id TEXT NOT NULL,
    topic_id TEXT NOT NULL, nth INTEGER NOT NULL, parent_comment_id TEXT, thread_level INTEGER NOT NULL,
    author_id TEXT NOT NULL, content TEXT NOT NULL, created_at INTEGER NOT NULL, edited_at INTEGER,
    is_removed INTEGER NOT NULL, upvotes INTEGER NOT NULL, downvotes INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, network_id, comment_id)) STRICT;
CREATE INDEX forum_comments_by_topic ON forum_comments (tenant_id, network_id, topic_id, nth);
CREATE INDEX forum_comments_by_parent ON forum_comments (tenant_id, network_id, parent_comment_id);
CREATE INDEX forum_comments_by_author ON forum_comments (tenant_id, network_id, author_id, created_at);
CREATE TABLE forum_votes (
    tenant_id TEXT NOT NULL, network_id TEXT NOT NULL, target_id TEXT NOT NULL, voter_id TEXT NOT NULL,
    topic_id TEXT NOT NULL, vote INTEGER NOT NULL, voted_at INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, network_id, target_id, voter_id)) STRICT;
CREATE INDEX forum_votes_by_topic ON forum_votes (tenant_id, network_id, topic_id);
";

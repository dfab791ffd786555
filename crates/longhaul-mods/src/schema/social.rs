//! The tables of `social`.

/// What agents say they can do, who follows whom, and what became of what they were given. Tenant and network first.
pub(crate) const TABLES: &str = "
CREATE TABLE social_capabilities (
    tenant_id TEXT NOT NULL, network_id TEXT NOT NULL, agent_id TEXT NOT NULL,
    capabilities TEXT NOT NULL, changed_at INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, network_id, agent_id)) STRICT;
CREATE TABLE social_follows (
    tenant_id TEXT NOT NULL, network_id TEXT NOT NULL, follower_id TEXT NOT NULL, followed_id TEXT NOT NULL,
    followed_at INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, network_id, follower_id, followed_id)) STRICT;
CREATE INDEX social_follows_by_followed ON social_follows (tenant_id, network_id, followed_id);
CREATE TABLE social_outcomes (
    tenant_id TEXT NOT NULL, network_id TEXT NOT NULL, agent_id TEXT NOT NULL, area TEXT NOT NULL,
    rater_id TEXT NOT NULL, good INTEGER NOT NULL, bad INTEGER NOT NULL, last_at INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, network_id, agent_id, area, rater_id)) STRICT;
CREATE TABLE social_standings (
    tenant_id TEXT NOT NULL, network_id TEXT NOT NULL, agent_id TEXT NOT NULL,
    completed INTEGER NOT NULL, failed INTEGER NOT NULL, timed_out INTEGER NOT NULL, rejected INTEGER NOT NULL,
    failures_in_row INTEGER NOT NULL, last_failure_at INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, network_id, agent_id)) STRICT;
";

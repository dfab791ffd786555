//! The tables of networks. Every row is keyed by its tenant and network first (invariant 7).
//!
//! `network_events` is the log: one row an event, however many receive it; `seq` rises in the order of commits, `route`
//! says who it is for. The row with `answered = 1` is what a sender's id led to, with the reply that is repeated.

use longhaul_store::Migrations;

/// The tables of this crate.
pub const MIGRATIONS: Migrations = Migrations { component: "network", steps: &[FIRST] };

const FIRST: &str = "
CREATE TABLE networks (
    tenant_id TEXT NOT NULL,
    network_id TEXT NOT NULL,
    v INTEGER NOT NULL,
    uuid TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    floor_seq INTEGER NOT NULL,
    profile TEXT,
    PRIMARY KEY (tenant_id, network_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE network_agents (
    tenant_id TEXT NOT NULL,
    network_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    v INTEGER NOT NULL,
    agent_group TEXT NOT NULL,
    secret_digest TEXT NOT NULL,
    generation INTEGER NOT NULL,
    metadata TEXT NOT NULL,
    capabilities TEXT NOT NULL,
    via TEXT NOT NULL,
    joined_at INTEGER NOT NULL,
    joined_seq INTEGER NOT NULL,
    last_seen INTEGER NOT NULL,
    cursor_seq INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, network_id, agent_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE network_channels (
    tenant_id TEXT NOT NULL,
    network_id TEXT NOT NULL,
    channel TEXT NOT NULL,
    description TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, network_id, channel)
) STRICT, WITHOUT ROWID;
CREATE TABLE network_members (
    tenant_id TEXT NOT NULL,
    network_id TEXT NOT NULL,
    channel TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    since_seq INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, network_id, channel, agent_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX network_members_by_agent ON network_members (tenant_id, network_id, agent_id);
CREATE TABLE network_subscriptions (
    tenant_id TEXT NOT NULL,
    network_id TEXT NOT NULL,
    subscription_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    patterns TEXT NOT NULL,
    channels TEXT NOT NULL,
    PRIMARY KEY (tenant_id, network_id, subscription_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX network_subscriptions_by_agent ON network_subscriptions (tenant_id, network_id, agent_id);
CREATE TABLE network_observers (
    tenant_id TEXT NOT NULL,
    network_id TEXT NOT NULL,
    observer TEXT NOT NULL,
    cursor_seq INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, network_id, observer)
) STRICT, WITHOUT ROWID;
CREATE TABLE network_invitations (
    tenant_id TEXT NOT NULL,
    network_id TEXT NOT NULL,
    digest TEXT NOT NULL,
    agent_group TEXT NOT NULL,
    invited_by TEXT NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, network_id, digest)
) STRICT, WITHOUT ROWID;
CREATE TABLE network_events (
    tenant_id TEXT NOT NULL,
    network_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    v INTEGER NOT NULL,
    event_id TEXT NOT NULL,
    origin_id TEXT,
    answered INTEGER NOT NULL,
    name TEXT NOT NULL,
    sender TEXT NOT NULL,
    sender_group TEXT,
    route TEXT NOT NULL,
    destination TEXT,
    at INTEGER NOT NULL,
    payload TEXT NOT NULL,
    rest TEXT,
    fingerprint TEXT,
    reply TEXT,
    PRIMARY KEY (tenant_id, network_id, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX network_events_by_route ON network_events (tenant_id, network_id, route, seq);
CREATE UNIQUE INDEX network_events_answered ON network_events (tenant_id, network_id, origin_id, sender)
    WHERE answered = 1;
CREATE INDEX network_events_by_id ON network_events (tenant_id, network_id, event_id)
    WHERE event_id <> origin_id;
";

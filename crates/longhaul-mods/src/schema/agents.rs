//! The tables of agents: what they spent, which of them rest, and what stands decided.

/// The first step.
pub(super) const TABLES: &str = "
CREATE TABLE agent_spending (
    tenant_id TEXT NOT NULL,
    network_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    task TEXT NOT NULL,
    spending_id TEXT NOT NULL,
    tokens INTEGER NOT NULL,
    settled INTEGER NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, network_id, spending_id)
) STRICT;
CREATE INDEX agent_spending_by_agent ON agent_spending (tenant_id, network_id, agent_id, at);
CREATE INDEX agent_spending_by_task ON agent_spending (tenant_id, network_id, task);
CREATE TABLE agent_breakers (
    tenant_id TEXT NOT NULL,
    network_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    failures INTEGER NOT NULL,
    rests_until INTEGER NOT NULL,
    why TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, network_id, agent_id)
) STRICT;
CREATE TABLE network_decisions (
    tenant_id TEXT NOT NULL,
    network_id TEXT NOT NULL,
    object TEXT NOT NULL,
    version INTEGER NOT NULL,
    base_version INTEGER NOT NULL,
    agent_id TEXT NOT NULL,
    value TEXT NOT NULL,
    reason TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, network_id, object, version)
) STRICT;
";

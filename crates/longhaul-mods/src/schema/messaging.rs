//! The tables of messaging. What is said stands in the network's log and nowhere else; here is what belongs to it.

/// `message_id` and `event_id` are ids of the log's events, `strand` is a thread or a conversation of two.
pub(crate) const TABLES: &str = "
CREATE TABLE messaging_strands (
    tenant_id TEXT NOT NULL,
    network_id TEXT NOT NULL,
    strand TEXT NOT NULL,
    v INTEGER NOT NULL,
    channel TEXT,
    low TEXT,
    high TEXT,
    count INTEGER NOT NULL,
    last_sender TEXT NOT NULL,
    last_text TEXT NOT NULL,
    last_at INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, network_id, strand)
) STRICT, WITHOUT ROWID;
CREATE INDEX messaging_strands_by_channel ON messaging_strands (tenant_id, network_id, channel);
CREATE INDEX messaging_strands_by_low ON messaging_strands (tenant_id, network_id, low);
CREATE INDEX messaging_strands_by_high ON messaging_strands (tenant_id, network_id, high);
CREATE TABLE messaging_entries (
    tenant_id TEXT NOT NULL,
    network_id TEXT NOT NULL,
    strand TEXT NOT NULL,
    n INTEGER NOT NULL,
    event_id TEXT NOT NULL,
    PRIMARY KEY (tenant_id, network_id, strand, n)
) STRICT, WITHOUT ROWID;
CREATE TABLE messaging_reactions (
    tenant_id TEXT NOT NULL,
    network_id TEXT NOT NULL,
    message_id TEXT NOT NULL,
    reaction TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, network_id, message_id, reaction, agent_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE messaging_channels (
    tenant_id TEXT NOT NULL,
    network_id TEXT NOT NULL,
    channel TEXT NOT NULL,
    v INTEGER NOT NULL,
    private INTEGER NOT NULL,
    announcement TEXT NOT NULL,
    announced_by TEXT,
    announced_at INTEGER,
    PRIMARY KEY (tenant_id, network_id, channel)
) STRICT, WITHOUT ROWID;
CREATE TABLE messaging_counts (
    tenant_id TEXT NOT NULL,
    network_id TEXT NOT NULL,
    channel TEXT NOT NULL,
    seq INTEGER NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, network_id, channel, seq)
) STRICT, WITHOUT ROWID;
CREATE TABLE messaging_streams (
    tenant_id TEXT NOT NULL,
    network_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    stream_id TEXT NOT NULL,
    v INTEGER NOT NULL,
    destination TEXT NOT NULL,
    floor_seq INTEGER NOT NULL,
    parts INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    last_at INTEGER NOT NULL,
    ended INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, network_id, agent_id, stream_id)
) STRICT, WITHOUT ROWID;
";

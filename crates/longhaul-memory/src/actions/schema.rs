//! The table of actions: what was done to which file or thing, how often, and the memory that says so.

/// Step 5 of the migrations of memory.
pub(crate) const STEP_5: &str = "
CREATE TABLE memory_actions (
    tenant_id  TEXT    NOT NULL,
    namespace  TEXT    NOT NULL,
    action_id  TEXT    NOT NULL,
    v          INTEGER NOT NULL,
    file       TEXT    NOT NULL,
    kind       TEXT    NOT NULL,
    target     TEXT    NOT NULL,
    source     TEXT    NOT NULL,
    times      INTEGER NOT NULL,
    first_at   INTEGER NOT NULL,
    last_at    INTEGER NOT NULL,
    expires_at INTEGER,
    memory_id  TEXT    NOT NULL,
    PRIMARY KEY (tenant_id, namespace, action_id)
) STRICT;
CREATE INDEX memory_actions_by_target ON memory_actions (tenant_id, namespace, target, last_at);
CREATE INDEX memory_actions_by_file ON memory_actions (tenant_id, namespace, file, first_at);
CREATE INDEX memory_actions_by_memory ON memory_actions (tenant_id, memory_id);
CREATE INDEX memory_actions_by_expiry ON memory_actions (tenant_id, namespace, expires_at) WHERE expires_at IS NOT NULL;
";

/// Version of what these rows hold.
pub(crate) const ROW_VERSION: u32 = 1;

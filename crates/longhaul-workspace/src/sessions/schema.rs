//! The tables of conversations. Every one is keyed by tenant first, every row carries its user.
//!
//! `messages` is the truth of what was said; a message is never changed, and goes only with its whole conversation.
//! `session_states` has one row for each conversation, whose lock a writer holds until its commit: so messages are
//! numbered without gaps in the order of commits, whoever writes.

/// Step 5 of the migrations of the workspace.
pub(crate) const STEP_5: &str = "
CREATE TABLE messages (
    tenant_id   TEXT    NOT NULL,
    session_id  TEXT    NOT NULL,
    seq         INTEGER NOT NULL,
    message_id  TEXT    NOT NULL,
    user_id     TEXT    NOT NULL,
    task_id     TEXT    NOT NULL,
    trace_id    TEXT    NOT NULL,
    role        TEXT    NOT NULL,
    content     TEXT    NOT NULL,
    tool_calls  TEXT,
    answers     TEXT,
    attachments TEXT,
    tokens      INTEGER NOT NULL,
    created_at  INTEGER NOT NULL,
    schema      INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, session_id, seq)
) STRICT;
CREATE UNIQUE INDEX messages_by_id ON messages (tenant_id, message_id);
CREATE INDEX messages_by_user ON messages (tenant_id, user_id, created_at);
CREATE INDEX messages_by_task ON messages (tenant_id, task_id, created_at);

CREATE TABLE session_states (
    tenant_id   TEXT    NOT NULL,
    session_id  TEXT    NOT NULL,
    user_id     TEXT    NOT NULL,
    task_id     TEXT    NOT NULL,
    trace_id    TEXT    NOT NULL,
    memo        TEXT    NOT NULL,
    version     INTEGER NOT NULL,
    summary     TEXT,
    window_from INTEGER NOT NULL,
    last_seq    INTEGER NOT NULL,
    bytes       INTEGER NOT NULL,
    title       TEXT    NOT NULL,
    deleting    INTEGER NOT NULL,
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    schema      INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, session_id)
) STRICT;
CREATE INDEX session_states_by_user ON session_states (tenant_id, user_id, updated_at);

INSERT INTO link_ends (prefix, query) VALUES
    ('msg_', 'SELECT user_id FROM messages WHERE tenant_id = ?1 AND message_id = ?2');
";

/// Version of what these rows hold.
pub(crate) const ROW_VERSION: i64 = 1;

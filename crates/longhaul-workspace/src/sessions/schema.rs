//! The tables of conversations. Who talks with whom is the store's `sessions`; what was said is here.

/// The step that makes them.
pub(crate) const STEP_5: &str = "create table messages (
        tenant_id text not null,
        session_id text not null,
        seq integer not null,
        message_id text not null,
        user_id text not null,
        task_id text,
        trace_id text not null,
        role text not null,
        content text not null,
        tool_calls text not null,
        attachments text not null,
        tokens integer not null,
        created_at integer not null,
        schema integer not null,
        primary key (tenant_id, session_id, seq)
    ) strict;
    create unique index messages_by_id on messages (tenant_id, message_id);
    create index messages_by_task on messages (tenant_id, task_id) where task_id is not null;
    create table session_states (
        tenant_id text not null,
        session_id text not null,
        user_id text not null,
        memo text not null,
        window_from integer not null,
        summary text not null,
        version integer not null,
        updated_at integer not null,
        primary key (tenant_id, session_id)
    ) strict;
    insert into link_ends (prefix, query) values
        ('msg_', 'select user_id from messages where tenant_id = ?1 and message_id = ?2');";

//! What a person told a project's runs: to pause, to leave the folder to them, a word for the agent; and how far a
//! person was notified of its events.

pub(super) const TABLES: &str = "create table run_orders (
    tenant_id text not null,
    task_id text not null,
    kind text not null,
    given_by text not null,
    reason text not null,
    at bigint not null,
    schema integer not null,
    primary key (tenant_id, task_id, kind)
);
create table run_words (
    tenant_id text not null,
    task_id text not null,
    number bigint not null,
    given_by text not null,
    said text not null,
    at bigint not null,
    delivered_at bigint,
    session integer,
    schema integer not null,
    primary key (tenant_id, task_id, number)
);
create table run_notices (
    tenant_id text not null,
    task_id text not null,
    told_to bigint not null,
    schema integer not null,
    primary key (tenant_id, task_id)
);
insert into erase_queries (component, subject, statement)
    select 'harness', s.subject, 'delete from ' || t.name || ' where tenant_id = ?1 and task_id in (
        select task_id from tasks where tenant_id = ?1 and ' || s.subject_column || ' = ?2)'
    from (select 'run_orders' as name union select 'run_words' union select 'run_notices') t
        cross join (select 'user' as subject, 'user_id' as subject_column union select 'session', 'session_id'
            union select 'task', 'task_id') s";

//! What a person told a project's runs: to pause, to leave the folder to them.

pub(super) const TABLES: &str = "create table run_orders (
    tenant_id text not null,
    task_id text not null,
    kind text not null,
    given_by text not null,
    reason text not null,
    at integer not null,
    schema integer not null,
    primary key (tenant_id, task_id, kind)
);
insert into erase_queries (component, subject, statement)
    select 'harness', s.subject, 'delete from ' || t.name || ' where tenant_id = ?1 and task_id in (
        select task_id from tasks where tenant_id = ?1 and ' || s.subject_column || ' = ?2)'
    from (select 'run_orders' as name) t
        cross join (select 'user' as subject, 'user_id' as subject_column union select 'session', 'session_id'
            union select 'task', 'task_id') s";

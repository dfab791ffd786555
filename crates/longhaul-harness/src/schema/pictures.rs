//! Which pictures of `visual` checks were accepted. The pictures themselves are records of the workspace.

pub(super) const TABLES: &str = "create table accepted_pictures (
    tenant_id text not null,
    task_id text not null,
    feature_id text not null,
    name text not null,
    record text not null,
    accepted_by text not null,
    at integer not null,
    schema integer not null,
    primary key (tenant_id, task_id, feature_id, name)
);
insert into erase_queries (component, subject, statement)
    select 'harness', s.subject, 'delete from accepted_pictures where tenant_id = ?1 and task_id in (
        select task_id from tasks where tenant_id = ?1 and ' || s.subject_column || ' = ?2)'
    from (select 'user' as subject, 'user_id' as subject_column union select 'session', 'session_id'
            union select 'task', 'task_id') s";

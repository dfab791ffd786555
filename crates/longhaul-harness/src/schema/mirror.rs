//! The git remote through which a project's folder reaches another machine.

pub(super) const TABLES: &str = "create table mirrors (
    tenant_id text not null,
    task_id text not null,
    remote text not null,
    machine text,
    pushed text,
    at integer not null,
    schema integer not null,
    primary key (tenant_id, task_id)
);
insert into erase_queries (component, subject, statement)
    select 'harness', s.subject, 'delete from ' || t.name || ' where tenant_id = ?1 and task_id in (
        select task_id from tasks where tenant_id = ?1 and ' || s.subject_column || ' = ?2)'
    from (select 'mirrors' as name) t
        cross join (select 'user' as subject, 'user_id' as subject_column union select 'session', 'session_id'
            union select 'task', 'task_id') s";

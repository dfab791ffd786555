//! What a project's model calls reserved and used, and how long its runs worked. Money is in millionths of the price
//! table's currency.

pub(super) const TABLES: &str = "create table spending (
    tenant_id text not null,
    task_id text not null,
    reservation_id text not null,
    session integer not null,
    model text not null,
    state text not null,
    reserved_tokens integer not null,
    reserved_money integer not null,
    prompt_tokens integer not null,
    answer_tokens integer not null,
    cached_tokens integer not null,
    money integer not null,
    at integer not null,
    schema integer not null,
    primary key (tenant_id, task_id, reservation_id)
);
create table run_times (
    tenant_id text not null,
    task_id text not null,
    run_id text not null,
    started_at integer not null,
    worked_ms integer not null,
    schema integer not null,
    primary key (tenant_id, task_id, run_id)
);
insert into erase_queries (component, subject, statement)
    select 'harness', s.subject, 'delete from ' || t.name || ' where tenant_id = ?1 and task_id in (
        select task_id from tasks where tenant_id = ?1 and ' || s.subject_column || ' = ?2)'
    from (select 'spending' as name union select 'run_times') t
        cross join (select 'user' as subject, 'user_id' as subject_column union select 'session', 'session_id'
            union select 'task', 'task_id') s";

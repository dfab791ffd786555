//! What people and reviewers changed of a locked plan, and what agents propose to change.

pub(super) const TABLES: &str = "alter table features add column priority integer not null default 3;
alter table features add column retired_at integer;
create table feature_changes (
    tenant_id text not null,
    task_id text not null,
    seq integer not null,
    feature_id text not null,
    change text not null,
    changed_by text not null,
    reason text not null,
    detail text not null,
    at integer not null,
    schema integer not null,
    primary key (tenant_id, task_id, seq)
);
create table check_proposals (
    tenant_id text not null,
    task_id text not null,
    proposal_id text not null,
    feature_id text not null,
    session integer not null,
    state text not null,
    proposal text not null,
    at integer not null,
    decided_at integer,
    schema integer not null,
    primary key (tenant_id, task_id, proposal_id)
);
create unique index one_pending_proposal on check_proposals (tenant_id, task_id, feature_id) where state = 'pending';
insert into erase_queries (component, subject, statement)
    select 'harness', s.subject, 'delete from ' || t.name || ' where tenant_id = ?1 and task_id in (
        select task_id from tasks where tenant_id = ?1 and ' || s.subject_column || ' = ?2)'
    from (select 'feature_changes' as name union select 'check_proposals') t
        cross join (select 'user' as subject, 'user_id' as subject_column union select 'session', 'session_id'
            union select 'task', 'task_id') s";

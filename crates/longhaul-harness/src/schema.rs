//! The harness's tables. Every one is keyed by tenant and task first (invariant 7).

mod mirror;
mod orders;
mod pictures;
mod plan;
mod spending;

use longhaul_store::Migrations;

/// Tables of features, verdicts and work sessions.
pub const MIGRATIONS: Migrations = Migrations {
    component: "harness",
    steps: &[
        "create table features (
        tenant_id text not null,
        task_id text not null,
        feature_id text not null,
        position integer not null,
        category text not null,
        description text not null,
        steps text not null,
        depends_on text not null,
        checks text not null,
        checks_hash text not null,
        locked_at integer not null,
        schema integer not null,
        primary key (tenant_id, task_id, feature_id)
    );
    create table feature_standing (
        tenant_id text not null,
        task_id text not null,
        feature_id text not null,
        standing text not null,
        schema integer not null,
        primary key (tenant_id, task_id, feature_id)
    );
    create table verdicts (
        tenant_id text not null,
        task_id text not null,
        verdict_id text not null,
        feature_id text not null,
        session integer not null,
        purpose text not null,
        passed integer not null,
        commit_id text,
        tree_id text not null,
        checks_hash text not null,
        verdict text not null,
        at integer not null,
        schema integer not null,
        primary key (tenant_id, task_id, verdict_id)
    );
    create index verdicts_by_feature on verdicts (tenant_id, task_id, feature_id, at);
    create table work_sessions (
        tenant_id text not null,
        task_id text not null,
        number integer not null,
        entry text not null,
        schema integer not null,
        primary key (tenant_id, task_id, number)
    );",
        ENDS,
        ERASING,
        plan::TABLES,
        spending::TABLES,
        orders::TABLES,
        mirror::TABLES,
        pictures::TABLES,
    ],
};

/// How the rows of a task go when it, its session or its user is erased; see the store's `erasing`.
const ERASING: &str = "insert into erase_queries (component, subject, statement)
    select 'harness', s.subject, 'delete from ' || t.name || ' where tenant_id = ?1 and task_id in (
        select task_id from tasks where tenant_id = ?1 and ' || s.subject_column || ' = ?2)'
    from (select 'features' as name union select 'feature_standing' union select 'verdicts'
            union select 'work_sessions') t
        cross join (select 'user' as subject, 'user_id' as subject_column union select 'session', 'session_id'
            union select 'task', 'task_id') s";

/// How to see that a verdict exists; see the store's register of ids.
const ENDS: &str = "create index verdicts_by_id on verdicts (tenant_id, verdict_id);
insert into link_ends (prefix, query) values
    ('verdict_', 'select t.user_id from verdicts v
        left join tasks t on t.tenant_id = v.tenant_id and t.task_id = v.task_id
        where v.tenant_id = ?1 and v.verdict_id = ?2 limit 1')";

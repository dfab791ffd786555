//! The tables of the workspace. Every one is keyed by its tenant first (invariant 7).
//!
//! `records` is the truth of what was kept; `contents` holds small contents once for each tenant, larger ones are blobs
//! of the store. `record_tasks` has a row for each task that records were ever kept for: who owns them, where their
//! index is, and their last number. Conversations and reviews are in `sessions` and `review`.

use longhaul_store::Migrations;

use crate::{review, sessions};

/// Tables of records, links, milestones, conversations and reviews, and the word to the store that records hold blobs.
pub const MIGRATIONS: Migrations = Migrations {
    component: "workspace",
    steps: &[TABLES, HOLDS_BLOBS, STEP_3, STEP_4, sessions::schema::STEP_5, review::schema::STEP_6],
};

const TABLES: &str = "create table records (
        tenant_id text not null,
        record_id text not null,
        task_id text not null,
        collection text not null,
        kind text not null,
        media_type text not null,
        summary text not null,
        source text not null,
        digest text not null,
        size integer not null,
        created_at integer not null,
        schema integer not null,
        primary key (tenant_id, record_id)
    );
    create index records_by_task on records (tenant_id, task_id, collection, created_at);
    create table links (
        tenant_id text not null,
        source_id text not null,
        relation text not null,
        target_id text not null,
        created_at integer not null,
        primary key (tenant_id, source_id, relation, target_id)
    );
    create index links_by_target on links (tenant_id, target_id);";

const HOLDS_BLOBS: &str =
    "insert into blob_references (component, query) values ('workspace', 'select tenant_id, digest from records')";

/// Records of tasks with versions, small contents in rows. What the first release kept stays: its records belong to
/// their tasks' users, and have blobs and no index.
const STEP_3: &str = "create table records_2 (
        tenant_id text not null,
        record_id text not null,
        user_id text not null,
        session_id text not null,
        task_id text not null,
        trace_id text not null,
        execution_id text,
        step text,
        seq integer not null,
        collection text not null,
        kind text not null,
        name text,
        version integer not null,
        media_type text not null,
        summary text not null,
        source text not null,
        meta text not null,
        digest text not null,
        size integer not null,
        place text not null,
        subject text,
        created_at integer not null,
        expires_at integer,
        superseded_by text,
        parts integer not null,
        schema integer not null,
        primary key (tenant_id, record_id)
    ) strict;
    insert into records_2 (tenant_id, record_id, user_id, session_id, task_id, trace_id, seq, collection, kind, version,
            media_type, summary, source, meta, digest, size, place, created_at, parts, schema)
        select r.tenant_id, r.record_id, coalesce(t.user_id, 'user_default'), coalesce(t.session_id, 'sess_default'),
            r.task_id, coalesce(t.trace_id, 'trace_default'),
            row_number() over (partition by r.tenant_id, r.task_id order by r.created_at, r.record_id),
            r.collection, r.kind, 1, r.media_type, r.summary, r.source, '{}', r.digest, r.size, 'blob', r.created_at, 0, 2
        from records r left join tasks t on t.tenant_id = r.tenant_id and t.task_id = r.task_id;
    drop table records;
    alter table records_2 rename to records;
    create unique index records_by_seq on records (tenant_id, task_id, seq);
    create index records_by_task on records (tenant_id, task_id, collection, seq);
    create unique index records_by_name on records (tenant_id, task_id, name, version) where name is not null;
    create index records_by_digest on records (tenant_id, digest);
    create index records_by_subject on records (tenant_id, subject) where subject is not null;
    create index records_by_expiry on records (expires_at) where expires_at is not null;
    update blob_references set query = 'select tenant_id, digest from records where place = ''blob'''
        where component = 'workspace';
    create table contents (
        tenant_id text not null,
        digest text not null,
        encoding text not null,
        size integer not null,
        data blob not null,
        primary key (tenant_id, digest)
    ) strict;
    create table record_tasks (
        tenant_id text not null,
        task_id text not null,
        user_id text not null,
        namespace text not null,
        last_seq integer not null,
        written_at integer not null,
        primary key (tenant_id, task_id)
    ) strict;
    insert into record_tasks (tenant_id, task_id, user_id, namespace, last_seq, written_at)
        select tenant_id, task_id, min(user_id), '', max(seq), max(created_at) from records
        group by tenant_id, task_id;
    create index record_tasks_by_user on record_tasks (tenant_id, user_id, written_at);
    create index record_tasks_by_namespace on record_tasks (tenant_id, namespace);
    insert into link_ends (prefix, query) values
        ('rec_', 'select user_id from records where tenant_id = ?1 and record_id = ?2');";

/// Links with who made them, and milestones.
const STEP_4: &str = "create table links_2 (
        tenant_id text not null,
        source_id text not null,
        relation text not null,
        target_id text not null,
        user_id text not null,
        task_id text,
        note text,
        created_at integer not null,
        primary key (tenant_id, source_id, relation, target_id)
    ) strict;
    insert into links_2 (tenant_id, source_id, relation, target_id, user_id, task_id, created_at)
        select l.tenant_id, l.source_id, l.relation, l.target_id, coalesce(r.user_id, 'user_default'), r.task_id,
            l.created_at
        from links l left join records r on r.tenant_id = l.tenant_id and r.record_id = l.source_id;
    drop table links;
    alter table links_2 rename to links;
    create index links_by_target on links (tenant_id, target_id);
    create index links_by_task on links (tenant_id, task_id) where task_id is not null;
    create table milestones (
        tenant_id text not null,
        milestone_id text not null,
        user_id text not null,
        session_id text not null,
        task_id text not null,
        trace_id text not null,
        name text not null,
        version integer not null,
        execution_id text,
        superstep integer,
        refs text not null,
        note text,
        created_at integer not null,
        schema integer not null,
        primary key (tenant_id, milestone_id)
    ) strict;
    create unique index milestones_by_name on milestones (tenant_id, task_id, name, version);
    create table milestone_records (
        tenant_id text not null,
        record_id text not null,
        milestone_id text not null,
        primary key (tenant_id, record_id, milestone_id)
    ) strict, without rowid;
    insert into link_ends (prefix, query) values
        ('milestone_', 'select user_id from milestones where tenant_id = ?1 and milestone_id = ?2');";

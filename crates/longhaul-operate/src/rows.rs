//! Rows of several crates, read side by side for somebody who asks about one of them.
//!
//! It owns no table; what a row means its own crate says. Invariant: everything is of one tenant and user, but for
//! [`owners`] and [`components`], which give no content.

use longhaul_core::{ExecutionId, Scope, TaskId, TenantId, UserId};
use longhaul_durable::Point;
use longhaul_store::{IdStanding, ReadTx, Row, StoreError, Value, values};

use crate::{
    explaining::{Fact, Line},
    moments::moment,
    whereabouts::Reached,
};

/// Crates whose tables are in the store.
pub(super) fn components(read: &ReadTx<'_>) -> Result<Vec<String>, StoreError> {
    read.query("SELECT component FROM schema_versions", &[], |row| row.get(0))
}

/// Who has executions here, and how many.
pub(super) fn owners(read: &ReadTx<'_>) -> Result<Vec<(TenantId, UserId, u64)>, StoreError> {
    read.query(
        "SELECT tenant_id, user_id, count(*) FROM executions GROUP BY tenant_id, user_id
         ORDER BY count(*) DESC, tenant_id, user_id LIMIT 20",
        &[],
        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
    )
}

/// How much the user has here.
pub(super) fn of_owner(read: &ReadTx<'_>, scope: &Scope) -> Result<Vec<Fact>, StoreError> {
    let mut facts = Vec::new();
    for (name, sql) in [
        ("tasks", "SELECT count(*) FROM tasks WHERE tenant_id = ?1 AND user_id = ?2"),
        ("sessions", "SELECT count(*) FROM sessions WHERE tenant_id = ?1 AND user_id = ?2"),
        ("executions", "SELECT count(*) FROM executions WHERE tenant_id = ?1 AND user_id = ?2"),
        ("events", "SELECT count(*) FROM events WHERE tenant_id = ?1 AND user_id = ?2"),
    ] {
        let many: u64 = read.query_one(sql, &values![&scope.tenant, &scope.user], |row| row.get(0))?;
        facts.push(Fact::new(name, format!("{many} of {}", scope.user)));
    }
    Ok(facts)
}

/// A row of which the first column is a moment and the others have these names.
pub(super) struct Found {
    pub(super) facts: Vec<Fact>,
}

/// How one kind of id is found: the table's crate, the question, the names of its columns.
pub(super) struct Kind {
    pub(super) prefix: &'static str,
    pub(super) name: &'static str,
    pub(super) component: &'static str,
    sql: &'static str,
    columns: &'static [&'static str],
}

/// Every kind that is one row. `?1` tenant, `?2` user, `?3` id. A column whose name begins with `at:` is a moment.
pub(super) const KINDS: &[Kind] = &[
    Kind {
        prefix: "task_",
        name: "task",
        component: "store",
        sql: "SELECT session_id, trace_id, thread_id, kind, title, dir, model, created_at, updated_at
              FROM tasks WHERE tenant_id = ?1 AND user_id = ?2 AND task_id = ?3",
        columns: &["session", "trace", "thread", "kind", "title", "folder", "model", "at:created", "at:changed"],
    },
    Kind {
        prefix: "sess_",
        name: "session",
        component: "store",
        sql: "SELECT created_at FROM sessions WHERE tenant_id = ?1 AND user_id = ?2 AND session_id = ?3",
        columns: &["at:created"],
    },
    Kind {
        prefix: "evt_",
        name: "event",
        component: "store",
        sql: "SELECT kind, visibility, seq, session_id, task_id, trace_id, execution_id, step, at, data
              FROM events WHERE tenant_id = ?1 AND user_id = ?2 AND event_id = ?3",
        columns: &[
            "kind",
            "visible to",
            "number",
            "session",
            "task",
            "trace",
            "execution",
            "step",
            "at:committed",
            "content",
        ],
    },
    Kind {
        prefix: "rec_",
        name: "record",
        component: "workspace",
        sql: "SELECT task_id, session_id, trace_id, execution_id, step, collection, kind, name, version, media_type,
                  summary, source, subject, digest, size, superseded_by, created_at, expires_at
              FROM records WHERE tenant_id = ?1 AND user_id = ?2 AND record_id = ?3",
        columns: &[
            "task",
            "session",
            "trace",
            "execution",
            "step",
            "collection",
            "kind",
            "name",
            "version",
            "type",
            "summary",
            "source",
            "about",
            "digest",
            "bytes",
            "superseded",
            "at:recorded",
            "at:expires",
        ],
    },
    Kind {
        prefix: "milestone_",
        name: "milestone",
        component: "workspace",
        sql: "SELECT task_id, session_id, trace_id, name, version, execution_id, superstep, refs, note, created_at
              FROM milestones WHERE tenant_id = ?1 AND user_id = ?2 AND milestone_id = ?3",
        columns: &[
            "task",
            "session",
            "trace",
            "name",
            "version",
            "execution",
            "superstep",
            "refers to",
            "note",
            "at:reached",
        ],
    },
    Kind {
        prefix: "msg_",
        name: "message",
        component: "workspace",
        sql: "SELECT session_id, task_id, trace_id, role, seq, content, attachments, tokens, created_at
              FROM messages WHERE tenant_id = ?1 AND user_id = ?2 AND message_id = ?3",
        columns: &["session", "task", "trace", "role", "number", "content", "attached", "tokens", "at:said"],
    },
    Kind {
        prefix: "note_",
        name: "intervention",
        component: "durable",
        sql: "SELECT i.execution_id, i.author, i.number, i.at FROM interventions i
              JOIN executions e ON e.tenant_id = i.tenant_id AND e.execution_id = i.execution_id
              WHERE i.tenant_id = ?1 AND e.user_id = ?2 AND i.intervention_id = ?3",
        columns: &["execution", "author", "number", "at:added"],
    },
    Kind {
        prefix: "mem_",
        name: "memory",
        component: "memory",
        sql: "SELECT task_id, collection, kind, source, content, meta, created_at, expires_at
              FROM memories WHERE tenant_id = ?1 AND user_id = ?2 AND memory_id = ?3",
        columns: &["task", "collection", "kind", "source", "content", "details", "at:remembered", "at:expires"],
    },
    Kind {
        prefix: "verdict_",
        name: "verdict",
        component: "harness",
        sql: "SELECT v.task_id, v.feature_id, v.session, v.purpose, v.passed, v.commit_id, v.tree_id, v.at
              FROM verdicts v WHERE v.tenant_id = ?1 AND v.verdict_id = ?3 AND NOT EXISTS (SELECT 1 FROM tasks t
                  WHERE t.tenant_id = v.tenant_id AND t.task_id = v.task_id AND t.user_id <> ?2)",
        columns: &["task", "feature", "work session", "purpose", "passed", "commit", "tree", "at:given"],
    },
];

/// The row of this id.
pub(super) fn find(read: &ReadTx<'_>, scope: &Scope, kind: &Kind, id: &str) -> Result<Option<Found>, StoreError> {
    read.query_optional(kind.sql, &values![&scope.tenant, &scope.user, id], |row| {
        let mut facts = Vec::new();
        for (column, name) in kind.columns.iter().enumerate() {
            let Some(value) = cell(row, column)? else { continue };
            let (name, value) = match (name.strip_prefix("at:"), value.parse::<i64>()) {
                (Some(name), Ok(at)) => (name, format!("{} UTC", moment(at))),
                (Some(name), Err(_)) => (name, value),
                (None, _) => (*name, value),
            };
            facts.push(Fact::new(name, value));
        }
        Ok(Found { facts })
    })
}

/// Text or a number, as text; nothing where there is none.
fn cell(row: &Row<'_>, column: usize) -> Result<Option<String>, StoreError> {
    if let Ok(text) = row.get::<Option<String>>(column) {
        return Ok(text.filter(|text| !text.is_empty()));
    }
    Ok(row.get::<Option<i64>>(column)?.map(|number| number.to_string()))
}

/// The events for which the condition holds, the oldest first: the newest `limit`. `?1` tenant, `?2` user, `?3` value.
pub(super) fn events(
    read: &ReadTx<'_>,
    scope: &Scope,
    column: &'static str,
    value: &str,
    limit: u32,
) -> Result<Vec<Line>, StoreError> {
    let mut found = read.query(
        &format!(
            "SELECT at, kind, event_id, step, data, execution_id FROM events
             WHERE tenant_id = ?1 AND user_id = ?2 AND {column} = ?3 ORDER BY seq DESC LIMIT {limit}"
        ),
        &values![&scope.tenant, &scope.user, value],
        |row| {
            let kind: String = row.get(1)?;
            let data: serde_json::Value = row.get(4)?;
            let what = match told(&data) {
                told if told.is_empty() => kind,
                told => format!("{kind} {told}"),
            };
            Ok(Line { at: row.get(0)?, kind: "event", what, id: row.get(2)?, step: row.get(3)? })
        },
    )?;
    found.reverse();
    Ok(found)
}

/// The short parts of an event's content: `superstep 3, name publish?`.
fn told(data: &serde_json::Value) -> String {
    let parts = data.as_object().into_iter().flatten().filter_map(|(name, value)| {
        if value.is_null() {
            return None;
        }
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        (value.chars().count() <= 200).then(|| format!("{name} {value}"))
    });
    parts.collect::<Vec<_>>().join(", ")
}

/// A link, as it is told of one of its ends.
#[derive(Debug, Clone)]
pub(super) struct LinkRow {
    /// The end that was asked about.
    pub(super) asked: String,
    pub(super) source: String,
    pub(super) relation: String,
    pub(super) target: String,
    pub(super) note: Option<String>,
    pub(super) at: i64,
}

/// The user's links of an id, those from it first: 100 each way at most.
pub(super) fn links_of(read: &ReadTx<'_>, scope: &Scope, id: &str) -> Result<Vec<LinkRow>, StoreError> {
    let mut found = Vec::new();
    for column in ["source_id", "target_id"] {
        found.extend(read.query(
            &format!(
                "SELECT source_id, relation, target_id, note, created_at FROM links
                 WHERE tenant_id = ?1 AND {column} = ?3 AND user_id = ?2
                 ORDER BY created_at, relation, source_id, target_id LIMIT 100"
            ),
            &values![&scope.tenant, &scope.user, id],
            |row| {
                let (source, relation, target) = (row.get(0)?, row.get(1)?, row.get(2)?);
                Ok(LinkRow { asked: id.to_owned(), source, relation, target, note: row.get(3)?, at: row.get(4)? })
            },
        )?);
    }
    Ok(found)
}

/// What an id is linked with as evidence, either way: relation and the other id.
pub(super) fn links(read: &ReadTx<'_>, scope: &Scope, id: &str) -> Result<Vec<Fact>, StoreError> {
    let fact = |link: LinkRow| {
        if link.source == link.asked {
            Fact::new(link.relation, link.target)
        } else {
            Fact::new(format!("is what it {}", link.relation), link.source)
        }
    };
    Ok(links_of(read, scope, id)?.into_iter().map(fact).collect())
}

/// Links of which an end is not there, or is of no known kind.
pub(super) fn dangling_links(read: &ReadTx<'_>) -> Result<Vec<String>, StoreError> {
    let ends = read.query(
        "SELECT tenant_id, user_id, source_id FROM links UNION SELECT tenant_id, user_id, target_id FROM links",
        &[],
        |row| Ok((Scope { tenant: row.get(0)?, user: row.get(1)? }, row.get::<String>(2)?)),
    )?;
    let mut wrong = Vec::new();
    for (scope, id) in ends {
        match read.standing_of(&scope, &id)? {
            IdStanding::There { .. } => {}
            IdStanding::Gone => wrong.push(format!("{id} is linked and not there")),
            IdStanding::UnknownKind { .. } => wrong.push(format!("{id} is linked and of no known kind")),
        }
    }
    Ok(wrong)
}

/// A record as it stands in a list.
#[derive(Debug, Clone)]
pub(super) struct RecordRow {
    pub(super) id: String,
    pub(super) kind: String,
    pub(super) summary: String,
    pub(super) at: i64,
}

/// The newest records that an execution has made, oldest first.
pub(super) fn records_of_execution(
    read: &ReadTx<'_>,
    scope: &Scope,
    execution: &str,
    limit: usize,
) -> Result<Vec<RecordRow>, StoreError> {
    let mut found = read.query(
        &format!(
            "SELECT record_id, kind, summary, created_at FROM records
             WHERE tenant_id = ?1 AND user_id = ?2 AND execution_id = ?3
                 AND task_id = (SELECT task_id FROM executions WHERE tenant_id = ?1 AND execution_id = ?3)
             ORDER BY seq DESC LIMIT {limit}"
        ),
        &values![&scope.tenant, &scope.user, execution],
        |row| Ok(RecordRow { id: row.get(0)?, kind: row.get(1)?, summary: row.get(2)?, at: row.get(3)? }),
    )?;
    found.reverse();
    Ok(found)
}

/// The last milestone of a task.
pub(super) fn last_milestone(read: &ReadTx<'_>, scope: &Scope, task: &TaskId) -> Result<Option<Reached>, StoreError> {
    if !components(read)?.iter().any(|known| known == "workspace") {
        return Ok(None);
    }
    read.query_optional(
        "SELECT milestone_id, name, version, created_at, execution_id, superstep, note FROM milestones
         WHERE tenant_id = ?1 AND user_id = ?2 AND task_id = ?3
         ORDER BY created_at DESC, milestone_id DESC LIMIT 1",
        &values![&scope.tenant, &scope.user, task],
        |row| {
            let (execution, superstep) = (row.get::<Option<ExecutionId>>(4)?, row.get::<Option<u64>>(5)?);
            let checkpoint = execution.zip(superstep).map(|(id, superstep)| Point::new(&id, superstep).to_string());
            Ok(Reached {
                milestone: row.get(0)?,
                name: row.get(1)?,
                version: row.get(2)?,
                at: row.get(3)?,
                checkpoint,
                note: row.get::<Option<String>>(6)?.unwrap_or_default(),
            })
        },
    )
}

/// References that stand in rows of the workspace: whose, where, and the value they stand in.
pub(super) fn kept_references(read: &ReadTx<'_>) -> Result<Vec<(TenantId, String, serde_json::Value)>, StoreError> {
    let mut found = Vec::new();
    for sql in [
        "SELECT tenant_id, 'the message ' || message_id, attachments FROM messages WHERE attachments LIKE '%\"rec_%'",
        "SELECT tenant_id, 'a tool call of the message ' || message_id, tool_calls FROM messages
         WHERE tool_calls LIKE '%\"rec_%'",
        "SELECT tenant_id, 'the milestone ' || milestone_id, refs FROM milestones WHERE refs LIKE '%\"rec_%'",
    ] {
        read.for_each(sql, &[], |row| {
            let text: String = row.get(2)?;
            let (tenant, place) = (row.get(0)?, row.get(1)?);
            match serde_json::from_str(&text) {
                Ok(value) => found.push((tenant, place, value)),
                Err(_) => found.push((tenant, format!("{place}, which is no JSON,"), serde_json::Value::Null)),
            }
            Ok(true)
        })?;
    }
    Ok(found)
}

/// An event as a chain tells it.
#[derive(Debug, Clone)]
pub(super) struct Told {
    pub(super) id: String,
    pub(super) at: i64,
    pub(super) what: String,
}

/// The newest event of an execution for which the condition on `?4` holds.
pub(super) fn newest_event(
    read: &ReadTx<'_>,
    scope: &Scope,
    execution: &str,
    condition: &str,
    value: &str,
) -> Result<Option<Told>, StoreError> {
    read.query_optional(
        &format!(
            "SELECT event_id, at, kind, data FROM events
             WHERE tenant_id = ?1 AND user_id = ?2 AND execution_id = ?3 AND {condition} ORDER BY seq DESC LIMIT 1"
        ),
        &values![&scope.tenant, &scope.user, execution, value],
        |row| {
            let (kind, data): (String, serde_json::Value) = (row.get(2)?, row.get(3)?);
            let told = told(&data);
            let what = if told.is_empty() { kind } else { format!("{kind}: {told}") };
            Ok(Told { id: row.get(0)?, at: row.get(1)?, what })
        },
    )
}

/// The execution and the step of a row of this kind: `None` where the row or its execution is not there.
pub(super) fn place_of(
    read: &ReadTx<'_>,
    scope: &Scope,
    kind: &Kind,
    id: &str,
) -> Result<Option<(ExecutionId, Option<String>)>, StoreError> {
    let sql = match kind.prefix {
        "evt_" => {
            "SELECT execution_id, step FROM events
             WHERE tenant_id = ?1 AND user_id = ?2 AND event_id = ?3 AND execution_id IS NOT NULL"
        }
        "rec_" => {
            "SELECT execution_id, step FROM records
             WHERE tenant_id = ?1 AND user_id = ?2 AND record_id = ?3 AND execution_id IS NOT NULL"
        }
        "milestone_" => {
            "SELECT execution_id, NULL FROM milestones
             WHERE tenant_id = ?1 AND user_id = ?2 AND milestone_id = ?3 AND execution_id IS NOT NULL"
        }
        _ => return Ok(None),
    };
    read.query_optional(sql, &values![&scope.tenant, &scope.user, id], |row| Ok((row.get(0)?, row.get(1)?)))
}

/// How many rows there are of what belongs to a task.
pub(super) fn belongings(
    read: &ReadTx<'_>,
    scope: &Scope,
    task: &str,
    known: &[String],
) -> Result<Vec<Fact>, StoreError> {
    let mut facts = Vec::new();
    for (component, name, sql) in [
        ("workspace", "records", "SELECT count(*) FROM records WHERE tenant_id = ?1 AND task_id = ?2"),
        ("workspace", "milestones", "SELECT count(*) FROM milestones WHERE tenant_id = ?1 AND task_id = ?2"),
        ("workspace", "messages", "SELECT count(*) FROM messages WHERE tenant_id = ?1 AND task_id = ?2"),
        ("memory", "memories", "SELECT count(*) FROM memories WHERE tenant_id = ?1 AND task_id = ?2"),
        ("harness", "verdicts", "SELECT count(*) FROM verdicts WHERE tenant_id = ?1 AND task_id = ?2"),
    ] {
        if known.iter().any(|known| known == component) {
            let many: u64 = read.query_one(sql, &values![&scope.tenant, task], |row| row.get(0))?;
            if many > 0 {
                facts.push(Fact::new(name, many.to_string()));
            }
        }
    }
    Ok(facts)
}

/// The tasks of a session.
pub(super) fn tasks_of(read: &ReadTx<'_>, scope: &Scope, session: &str) -> Result<Vec<Fact>, StoreError> {
    let params: [Value; 3] = values![&scope.tenant, &scope.user, session];
    read.query(
        "SELECT task_id, title FROM tasks WHERE tenant_id = ?1 AND user_id = ?2 AND session_id = ?3
         ORDER BY created_at LIMIT 100",
        &params,
        |row| Ok(Fact::new("task", format!("{} {}", row.text(0)?, row.text(1)?))),
    )
}

//! Rows of several crates, read side by side for somebody who asks about one of them.
//!
//! It owns no table; what a row means its own crate says. Invariant: everything is of one tenant and user, but for
//! [`owners`] and [`components`], which give no content.

use longhaul_core::{Scope, TenantId, UserId};
use longhaul_store::{ReadTx, Row, StoreError, Value, values};

use crate::explaining::{Fact, Line};

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
        sql: "SELECT r.task_id, r.collection, r.kind, r.media_type, r.summary, r.source, r.digest, r.size, r.created_at
              FROM records r WHERE r.tenant_id = ?1 AND r.record_id = ?3 AND NOT EXISTS (SELECT 1 FROM tasks t
                  WHERE t.tenant_id = r.tenant_id AND t.task_id = r.task_id AND t.user_id <> ?2)",
        columns: &["task", "collection", "kind", "type", "summary", "source", "digest", "bytes", "at:recorded"],
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
                (Some(name), Ok(at)) => (name, format!("{} UTC", crate::moments::moment(at))),
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

/// What an id is linked with as evidence, either way: relation and the other id.
pub(super) fn links(read: &ReadTx<'_>, scope: &Scope, id: &str) -> Result<Vec<Fact>, StoreError> {
    let fact = |row: &Row<'_>| Ok(Fact::new(row.text(0)?, row.text(1)?));
    let key = values![&scope.tenant, id];
    let mut found = read.query(
        "SELECT relation, target_id FROM links WHERE tenant_id = ?1 AND source_id = ?2 ORDER BY created_at LIMIT 100",
        &key,
        fact,
    )?;
    found.extend(read.query(
        "SELECT relation, source_id FROM links WHERE tenant_id = ?1 AND target_id = ?2 ORDER BY created_at LIMIT 100",
        &key,
        |row| Ok(Fact::new(format!("is what it {}", row.text(0)?), row.text(1)?)),
    )?);
    Ok(found)
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

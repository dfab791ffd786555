//! The event log: appended to within a transaction, numbered, read by task.
//!
//! Invariant: an event is in the log exactly when the rows of the same transaction are (invariant 2).

use longhaul_core::{
    Event, EventDraft, EventId, ExecutionId, Scope, TaskId, TaskScope, Visibility, limits::EVENT_DATA_BYTES_MAX,
};

use crate::{ReadTx, Row, StoreError, Tx, values};

/// Version of the envelope that this release writes.
const ENVELOPE: u32 = 1;

impl Tx<'_> {
    /// Appends an event. It gets its number now and is published to [`crate::Store::subscribe`] after the commit.
    ///
    /// # Errors
    /// [`StoreError::EventTooLarge`], and those of the database.
    pub fn append_event(
        &mut self,
        scope: &TaskScope,
        execution: Option<&ExecutionId>,
        step: Option<&str>,
        draft: EventDraft,
    ) -> Result<Event, StoreError> {
        let data = draft.data.to_string();
        if data.len() > EVENT_DATA_BYTES_MAX {
            return Err(StoreError::EventTooLarge {
                kind: draft.kind,
                bytes: data.len(),
                bytes_max: EVENT_DATA_BYTES_MAX,
            });
        }
        let id = EventId::from_body(&self.ambient().ids.body());
        let at = self.now();
        let seq = self.insert(
            "INSERT INTO events (tenant_id, user_id, session_id, task_id, trace_id, event_id, v, at, execution_id,
                 step, kind, visibility, data)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
            &values![
                &scope.scope.tenant,
                &scope.scope.user,
                &scope.session,
                &scope.task,
                &scope.trace,
                &id,
                ENVELOPE,
                at,
                execution,
                step,
                &draft.kind,
                match draft.visibility {
                    Visibility::Business => "business",
                    Visibility::Internal => "internal",
                },
                data,
            ],
        )?;
        let event = Event {
            v: ENVELOPE,
            seq,
            id,
            at,
            scope: scope.clone(),
            execution: execution.cloned(),
            step: step.map(str::to_owned),
            kind: draft.kind,
            visibility: draft.visibility,
            data: draft.data,
        };
        self.appended.push(event.clone());
        Ok(event)
    }
}

/// What [`event`] reads.
pub(crate) const COLUMNS: &str = "SELECT seq, v, event_id, at, tenant_id, user_id, session_id, task_id, trace_id,
    execution_id, step, kind, visibility, data FROM events";

/// The events of one user, oldest first: those after number `after_seq`, of one task or of all, at most `limit`.
///
/// # Errors
/// Those of the database.
pub fn events(
    read: &ReadTx<'_>,
    scope: &Scope,
    task: Option<&TaskId>,
    after_seq: i64,
    limit: u32,
) -> Result<Vec<Event>, StoreError> {
    match task {
        Some(task) => read.query(
            &format!(
                "{COLUMNS} WHERE tenant_id = ?1 AND user_id = ?2 AND task_id = ?3 AND seq > ?4 ORDER BY seq LIMIT ?5"
            ),
            &values![&scope.tenant, &scope.user, task, after_seq, limit],
            event,
        ),
        None => read.query(
            &format!("{COLUMNS} WHERE tenant_id = ?1 AND user_id = ?2 AND seq > ?3 ORDER BY seq LIMIT ?4"),
            &values![&scope.tenant, &scope.user, after_seq, limit],
            event,
        ),
    }
}

/// Executions that are asked for in one statement.
const EXECUTIONS: usize = 500;

/// The events of one user that these executions caused, oldest first: those after number `after_seq`, at most `limit`.
///
/// # Errors
/// Those of the database.
pub fn events_of(
    read: &ReadTx<'_>,
    scope: &Scope,
    executions: &[ExecutionId],
    after_seq: i64,
    limit: u32,
) -> Result<Vec<Event>, StoreError> {
    let mut found = Vec::new();
    for some in executions.chunks(EXECUTIONS) {
        let mut params = values![&scope.tenant, &scope.user, after_seq, limit].to_vec();
        let mut list = String::new();
        for execution in some {
            params.push(execution.into());
            list.push_str(if list.is_empty() { "?" } else { ", ?" });
            list.push_str(&params.len().to_string());
        }
        found.append(&mut read.query(
            &format!(
                "{COLUMNS} WHERE tenant_id = ?1 AND user_id = ?2 AND seq > ?3 AND execution_id IS NOT NULL
                     AND execution_id IN ({list})
                 ORDER BY seq LIMIT ?4"
            ),
            &params,
            event,
        )?);
    }
    found.sort_by_key(|event| event.seq);
    found.truncate(limit as usize);
    Ok(found)
}

pub(crate) fn event(row: &Row<'_>) -> Result<Event, StoreError> {
    Ok(Event {
        seq: row.get(0)?,
        v: row.get(1)?,
        id: row.get(2)?,
        at: row.get(3)?,
        scope: TaskScope {
            scope: Scope { tenant: row.get(4)?, user: row.get(5)? },
            session: row.get(6)?,
            task: row.get(7)?,
            trace: row.get(8)?,
        },
        execution: row.get(9)?,
        step: row.get(10)?,
        kind: row.get(11)?,
        visibility: match row.text(12)? {
            "business" => Visibility::Business,
            "internal" => Visibility::Internal,
            other => {
                return Err(StoreError::Column {
                    column: 12,
                    expected: "business or internal",
                    found: format!("the text {other:?}"),
                });
            }
        },
        data: row.get(13)?,
    })
}

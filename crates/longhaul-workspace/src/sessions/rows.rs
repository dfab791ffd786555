//! Reading and writing the rows of conversations.
//!
//! Invariants: no statement here crosses from one tenant or user to another (invariant 7); whoever holds a locked
//! [`State`] has the conversation to itself until its transaction ends.

use longhaul_core::{MessageId, SessionId, TaskId, TaskScope, TimeMs, TraceId, UserId};
use longhaul_store::{ReadTx, Row, StoreError, Tx, tasks, values};
use serde::{Serialize, de::DeserializeOwned};

use super::{NewMessage, Role, SessionError, StoredMessage, schema::ROW_VERSION};

/// The row of a conversation.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct State {
    pub(super) session: SessionId,
    pub(super) user: UserId,
    pub(super) task: TaskId,
    pub(super) trace: TraceId,
    pub(super) memo: String,
    pub(super) version: u64,
    pub(super) summary: Option<String>,
    pub(super) window_from: i64,
    pub(super) last_seq: i64,
    pub(super) bytes: u64,
    pub(super) title: String,
    pub(super) deleting: bool,
    pub(super) created_at: TimeMs,
    pub(super) updated_at: TimeMs,
}

pub(super) const STATE: &str = "session_id, user_id, task_id, trace_id, memo, version, summary, window_from, last_seq,
    bytes, title, deleting, created_at, updated_at";

pub(super) fn state_row(row: &Row<'_>) -> Result<State, StoreError> {
    Ok(State {
        session: row.get(0)?,
        user: row.get(1)?,
        task: row.get(2)?,
        trace: row.get(3)?,
        memo: row.get(4)?,
        version: row.get(5)?,
        summary: row.get::<Option<String>>(6)?.filter(|summary| !summary.is_empty()),
        window_from: row.get(7)?,
        last_seq: row.get(8)?,
        bytes: row.get(9)?,
        title: row.get(10)?,
        deleting: row.get(11)?,
        created_at: row.get(12)?,
        updated_at: row.get(13)?,
    })
}

/// The row of a conversation, if it is the user's.
pub(super) fn state(read: &ReadTx<'_>, owner: &TaskScope) -> Result<Option<State>, StoreError> {
    let sql = format!("SELECT {STATE} FROM session_states WHERE tenant_id = ?1 AND session_id = ?2 AND user_id = ?3");
    read.query_optional(&sql, &values![&owner.scope.tenant, &owner.session, &owner.scope.user], state_row)
}

/// The row of a conversation, locked until the transaction ends; a conversation begins with it.
pub(super) fn lock(tx: &mut Tx<'_>, owner: &TaskScope) -> Result<State, SessionError> {
    let now = tx.now();
    let sql = format!(
        "INSERT INTO session_states (tenant_id, session_id, user_id, task_id, trace_id, memo, version, summary,
             window_from, last_seq, bytes, title, deleting, created_at, updated_at, schema)
         VALUES (?1, ?2, ?3, ?4, ?5, '', 0, NULL, 1, 0, 0, '', 0, ?6, ?6, ?7)
         ON CONFLICT (tenant_id, session_id) DO UPDATE SET version = session_states.version RETURNING {STATE}"
    );
    let (tenant, user) = (&owner.scope.tenant, &owner.scope.user);
    let key = values![tenant, &owner.session, user, &owner.task, &owner.trace, now, ROW_VERSION];
    let state = tx.query_one(&sql, &key, state_row)?;
    if state.last_seq == 0 && tasks::begin_session(tx, &owner.scope, &owner.session)? != owner.scope.user {
        return Err(SessionError::NotYours { session: owner.session.clone() });
    }
    if state.user != owner.scope.user {
        return Err(SessionError::NotYours { session: owner.session.clone() });
    }
    if state.deleting {
        return Err(SessionError::BeingDeleted { session: owner.session.clone() });
    }
    Ok(state)
}

fn printed<T: Serialize>(values: &[T]) -> Option<String> {
    (!values.is_empty()).then(|| serde_json::to_string(values).unwrap_or_default())
}

/// Writes a message under its number.
pub(super) fn insert(tx: &mut Tx<'_>, owner: &TaskScope, message: &StoredMessage) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO messages (tenant_id, session_id, seq, message_id, user_id, task_id, trace_id, role, content,
             tool_calls, answers, attachments, tokens, created_at, schema)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
        &values![
            &owner.scope.tenant,
            &message.session,
            message.seq,
            &message.id,
            &message.user,
            &message.task,
            &message.trace,
            message.role.as_str(),
            &message.content,
            printed(&message.tool_calls),
            message.answers.clone(),
            printed(&message.attachments),
            message.tokens,
            message.at,
            ROW_VERSION
        ],
    )?;
    Ok(())
}

/// Notes in the conversation's row that messages were added.
pub(super) fn advance(tx: &mut Tx<'_>, owner: &TaskScope, state: &State) -> Result<(), StoreError> {
    let now = tx.now();
    tx.execute(
        "UPDATE session_states SET last_seq = ?3, bytes = ?4, title = ?5, updated_at = ?6
         WHERE tenant_id = ?1 AND session_id = ?2",
        &values![&owner.scope.tenant, &owner.session, state.last_seq, state.bytes, &state.title, now],
    )?;
    Ok(())
}

pub(super) const MESSAGE: &str = "message_id, session_id, seq, user_id, task_id, trace_id, role, content, tool_calls,
    answers, attachments, tokens, created_at";

pub(super) fn message_row(row: &Row<'_>) -> Result<StoredMessage, StoreError> {
    let id = row.get(0)?;
    let role = Role::parse(row.text(6)?);
    let json = |column: usize| row.get::<Option<String>>(column);
    let (calls, attachments) = (json(8)?, json(10)?);
    Ok(StoredMessage {
        session: row.get(1)?,
        seq: row.get(2)?,
        user: row.get(3)?,
        task: row.get(4)?,
        trace: row.get(5)?,
        role: role.map_err(|_| StoreError::Column {
            column: 6,
            expected: "a role",
            found: row.text(6).unwrap_or("").chars().take(40).collect(),
        })?,
        content: row.get(7)?,
        tool_calls: listed(calls.as_deref(), &id)?,
        answers: row.get(9)?,
        attachments: listed(attachments.as_deref(), &id)?,
        tokens: row.get(11)?,
        at: row.get(12)?,
        id,
    })
}

fn listed<T: DeserializeOwned>(printed: Option<&str>, id: &MessageId) -> Result<Vec<T>, StoreError> {
    printed.map_or(Ok(Vec::new()), |text| serde_json::from_str(text).map_err(StoreError::record("message", id)))
}

/// Messages of a conversation from `from` on and before `before`, in order. With `newest` the last so many of them, else
/// the first.
pub(super) fn messages(
    read: &ReadTx<'_>,
    owner: &TaskScope,
    (from, before): (i64, i64),
    limit: usize,
    newest: bool,
) -> Result<Vec<StoredMessage>, StoreError> {
    let order = if newest { "DESC" } else { "ASC" };
    let sql = format!(
        "SELECT {MESSAGE} FROM messages WHERE tenant_id = ?1 AND session_id = ?2 AND user_id = ?3 AND seq >= ?4
             AND seq < ?5 ORDER BY seq {order} LIMIT ?6"
    );
    let key = values![&owner.scope.tenant, &owner.session, &owner.scope.user, from, before, limit];
    let mut found = read.query(&sql, &key, message_row)?;
    if newest {
        found.reverse();
    }
    Ok(found)
}

/// Whether a call stands open: an assistant asked for it, and no tool has answered since.
pub(super) fn is_open(read: &ReadTx<'_>, owner: &TaskScope, call: &str, last_seq: i64) -> Result<bool, StoreError> {
    // A call is answered soon after it was asked for; what is further back is looked for in pages all the same.
    let mut before = last_seq + 1;
    while before > 1 {
        let page = messages(read, owner, ((before - 64).max(1), before), 64, true)?;
        for message in page.iter().rev() {
            if message.answers.as_deref() == Some(call) {
                return Ok(false);
            }
            if message.tool_calls.iter().any(|asked| asked.id == call) {
                return Ok(true);
            }
        }
        before = (before - 64).max(1);
    }
    Ok(false)
}

/// The message that a draft becomes under this number.
pub(super) fn stored(tx: &Tx<'_>, owner: &TaskScope, id: MessageId, seq: i64, message: NewMessage) -> StoredMessage {
    StoredMessage {
        id,
        session: owner.session.clone(),
        seq,
        user: owner.scope.user.clone(),
        task: owner.task.clone(),
        trace: owner.trace.clone(),
        role: message.role,
        tokens: message.estimated_tokens(),
        content: message.content,
        tool_calls: message.tool_calls,
        answers: message.answers,
        attachments: message.attachments,
        at: tx.now(),
    }
}

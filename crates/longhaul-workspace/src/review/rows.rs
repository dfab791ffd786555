//! Reading and writing the rows of shared knowledge. No statement here crosses from one tenant to another.

use std::collections::BTreeSet;

use longhaul_core::{MemoryId, Scope, TaskScope};
use longhaul_memory::user::Actor;
use longhaul_store::{ReadTx, Row, StoreError, Tx, values};
use serde_json::Value;

use super::{ReviewId, ReviewState, Reviewed, Said, SharedAction, SharedVersion, schema::ROW_VERSION};

const PROPOSAL: &str =
    "proposal_id, tenant_id, user_id, session_id, task_id, trace_id, key, schema_id, value, evidence,
    why, proposer, base_version, state, created_at, decided_at, decided_by, note, version";

fn owner(row: &Row<'_>, from: usize) -> Result<TaskScope, StoreError> {
    Ok(TaskScope {
        scope: Scope { tenant: row.get(from)?, user: row.get(from + 1)? },
        session: row.get(from + 2)?,
        task: row.get(from + 3)?,
        trace: row.get(from + 4)?,
    })
}

fn said(row: &Row<'_>, from: usize) -> Result<Option<Said>, StoreError> {
    let (schema, value) = (row.get::<Option<String>>(from)?, row.get::<Option<String>>(from + 1)?);
    let Some((schema, value)) = schema.zip(value) else { return Ok(None) };
    let value: Value = serde_json::from_str(&value).map_err(StoreError::record("shared value", &schema))?;
    Ok(Some(Said { schema, value }))
}

fn evidence(row: &Row<'_>, column: usize) -> Result<BTreeSet<String>, StoreError> {
    serde_json::from_str(row.text(column)?).map_err(StoreError::record("evidence", &"shared knowledge"))
}

fn word(row: &Row<'_>, column: usize, expected: &'static str) -> StoreError {
    StoreError::Column { column, expected, found: row.text(column).unwrap_or("").chars().take(80).collect() }
}

fn actor(row: &Row<'_>, column: usize) -> Result<Option<Actor>, StoreError> {
    match row.get::<Option<String>>(column)? {
        Some(text) => text.parse().map(Some).map_err(|_| word(row, column, "an actor")),
        None => Ok(None),
    }
}

fn proposal(row: &Row<'_>) -> Result<Reviewed, StoreError> {
    Ok(Reviewed {
        id: ReviewId(row.get(0)?),
        owner: owner(row, 1)?,
        key: row.get(6)?,
        said: said(row, 7)?,
        evidence: evidence(row, 9)?,
        why: row.get(10)?,
        proposer: actor(row, 11)?.ok_or_else(|| word(row, 11, "an actor"))?,
        base_version: row.get(12)?,
        state: row.text(13)?.parse().map_err(|_| word(row, 13, "a state"))?,
        created_at: row.get(14)?,
        decided_at: row.get(15)?,
        decided_by: actor(row, 16)?,
        note: row.get(17)?,
        version: row.get(18)?,
    })
}

pub(super) fn find(read: &ReadTx<'_>, scope: &Scope, id: &ReviewId) -> Result<Option<Reviewed>, StoreError> {
    let sql = format!("SELECT {PROPOSAL} FROM shared_proposals WHERE tenant_id = ?1 AND proposal_id = ?2");
    read.query_optional(&sql, &values![&scope.tenant, &id.0], proposal)
}

/// The newest proposal that wants this and is in this state.
pub(super) fn wanting(
    read: &ReadTx<'_>,
    scope: &Scope,
    wish: &str,
    state: ReviewState,
) -> Result<Option<Reviewed>, StoreError> {
    let sql = format!(
        "SELECT {PROPOSAL} FROM shared_proposals WHERE tenant_id = ?1 AND wish = ?2 AND state = ?3
         ORDER BY created_at DESC, proposal_id DESC LIMIT 1"
    );
    read.query_optional(&sql, &values![&scope.tenant, wish, state.as_str()], proposal)
}

/// Proposals in a state or all, the oldest first, of all users or of one.
pub(super) fn all(
    read: &ReadTx<'_>,
    scope: &Scope,
    state: Option<ReviewState>,
    own: bool,
    limit: usize,
) -> Result<Vec<Reviewed>, StoreError> {
    let sql = format!(
        "SELECT {PROPOSAL} FROM shared_proposals WHERE tenant_id = ?1 AND (?2 = '' OR state = ?2)
             AND (?3 = '' OR user_id = ?3) ORDER BY created_at, proposal_id LIMIT ?4"
    );
    let user = if own { scope.user.as_str() } else { "" };
    read.query(&sql, &values![&scope.tenant, state.map_or("", ReviewState::as_str), user, limit], proposal)
}

fn printed<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

pub(super) fn insert(tx: &mut Tx<'_>, new: &Reviewed, wish: &str) -> Result<(), StoreError> {
    let TaskScope { scope, session, task, trace } = &new.owner;
    tx.execute(
        "INSERT INTO shared_proposals (tenant_id, proposal_id, user_id, session_id, task_id, trace_id, key, schema_id,
             value, evidence, why, proposer, base_version, wish, state, created_at, schema)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)",
        &values![
            &scope.tenant,
            &new.id.0,
            &scope.user,
            session,
            task,
            trace,
            &new.key,
            new.said.as_ref().map(|said| said.schema.clone()),
            new.said.as_ref().map(|said| said.value.to_string()),
            printed(&new.evidence),
            &new.why,
            new.proposer.to_string(),
            new.base_version,
            wish,
            new.state.as_str(),
            new.created_at,
            ROW_VERSION
        ],
    )?;
    Ok(())
}

/// Writes what may change of a proposal.
pub(super) fn update(tx: &mut Tx<'_>, scope: &Scope, proposal: &Reviewed) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE shared_proposals SET state = ?3, evidence = ?4, decided_at = ?5, decided_by = ?6, note = ?7, version = ?8
         WHERE tenant_id = ?1 AND proposal_id = ?2",
        &values![
            &scope.tenant,
            &proposal.id.0,
            proposal.state.as_str(),
            printed(&proposal.evidence),
            proposal.decided_at,
            proposal.decided_by.as_ref().map(Actor::to_string),
            proposal.note.clone(),
            proposal.version
        ],
    )?;
    Ok(())
}

/// The newest version of an entry, and the memory that mirrors it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) version: u32,
    pub(super) memory: Option<MemoryId>,
}

pub(super) fn head(read: &ReadTx<'_>, scope: &Scope, key: &str) -> Result<Head, StoreError> {
    let found = read.query_optional(
        "SELECT version, memory_id FROM shared_heads WHERE tenant_id = ?1 AND key = ?2",
        &values![&scope.tenant, key],
        |row| Ok(Head { version: row.get(0)?, memory: row.get(1)? }),
    )?;
    Ok(found.unwrap_or(Head { version: 0, memory: None }))
}

/// The head of an entry, locked until the transaction ends.
pub(super) fn lock(tx: &mut Tx<'_>, scope: &Scope, key: &str) -> Result<Head, StoreError> {
    tx.query_one(
        "INSERT INTO shared_heads (tenant_id, key, user_id, version, memory_id) VALUES (?1, ?2, ?3, 0, NULL)
         ON CONFLICT (tenant_id, key) DO UPDATE SET version = shared_heads.version RETURNING version, memory_id",
        &values![&scope.tenant, key, &scope.user],
        |row| Ok(Head { version: row.get(0)?, memory: row.get(1)? }),
    )
}

pub(super) fn set_head(tx: &mut Tx<'_>, scope: &Scope, key: &str, head: &Head) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE shared_heads SET version = ?3, memory_id = ?4 WHERE tenant_id = ?1 AND key = ?2",
        &values![&scope.tenant, key, head.version, head.memory.as_ref()],
    )?;
    Ok(())
}

const VERSION: &str =
    "key, version, tenant_id, user_id, session_id, task_id, trace_id, schema_id, value, evidence, action,
    of_version, proposal_id, actor, why, at";

fn version(row: &Row<'_>) -> Result<SharedVersion, StoreError> {
    let action = match row.text(10)? {
        "approved" => SharedAction::Approved,
        "rolled_back" => SharedAction::RolledBack,
        _ => return Err(word(row, 10, "an action")),
    };
    Ok(SharedVersion {
        key: row.get(0)?,
        version: row.get(1)?,
        owner: owner(row, 2)?,
        said: said(row, 7)?,
        evidence: evidence(row, 9)?,
        action,
        of_version: row.get(11)?,
        proposal: row.get::<Option<String>>(12)?.map(ReviewId),
        actor: actor(row, 13)?.ok_or_else(|| word(row, 13, "an actor"))?,
        why: row.get(14)?,
        at: row.get(15)?,
    })
}

pub(super) fn version_of(
    read: &ReadTx<'_>,
    scope: &Scope,
    key: &str,
    number: u32,
) -> Result<Option<SharedVersion>, StoreError> {
    let sql = format!("SELECT {VERSION} FROM shared_versions WHERE tenant_id = ?1 AND key = ?2 AND version = ?3");
    read.query_optional(&sql, &values![&scope.tenant, key, number], version)
}

/// The newest first.
pub(super) fn versions(
    read: &ReadTx<'_>,
    scope: &Scope,
    key: &str,
    limit: usize,
) -> Result<Vec<SharedVersion>, StoreError> {
    let sql = format!(
        "SELECT {VERSION} FROM shared_versions WHERE tenant_id = ?1 AND key = ?2 ORDER BY version DESC LIMIT ?3"
    );
    read.query(&sql, &values![&scope.tenant, key, limit], version)
}

/// The version that a memory mirrors, as long as it is the newest of its entry.
pub(super) fn mirrored(
    read: &ReadTx<'_>,
    scope: &Scope,
    memory: &MemoryId,
) -> Result<Option<SharedVersion>, StoreError> {
    let found = read.query_optional(
        "SELECT key, version FROM shared_heads WHERE tenant_id = ?1 AND memory_id = ?2",
        &values![&scope.tenant, memory],
        |row| Ok((row.get::<String>(0)?, row.get::<u32>(1)?)),
    )?;
    found.map_or(Ok(None), |(key, number)| version_of(read, scope, &key, number))
}

/// Keys that say something now, in order, after `after`.
pub(super) fn keys(read: &ReadTx<'_>, scope: &Scope, after: &str, limit: usize) -> Result<Vec<String>, StoreError> {
    read.query(
        "SELECT key FROM shared_heads WHERE tenant_id = ?1 AND key > ?2 AND memory_id IS NOT NULL ORDER BY key LIMIT ?3",
        &values![&scope.tenant, after, limit],
        |row| row.get(0),
    )
}

pub(super) fn insert_version(tx: &mut Tx<'_>, new: &SharedVersion) -> Result<(), StoreError> {
    let TaskScope { scope, session, task, trace } = &new.owner;
    tx.execute(
        "INSERT INTO shared_versions (tenant_id, key, version, user_id, session_id, task_id, trace_id, schema_id, value,
             evidence, action, of_version, proposal_id, actor, why, at, schema)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)",
        &values![
            &scope.tenant,
            &new.key,
            new.version,
            &scope.user,
            session,
            task,
            trace,
            new.said.as_ref().map(|said| said.schema.clone()),
            new.said.as_ref().map(|said| said.value.to_string()),
            printed(&new.evidence),
            new.action.as_str(),
            new.of_version,
            new.proposal.as_ref().map(ReviewId::to_string),
            new.actor.to_string(),
            &new.why,
            new.at,
            ROW_VERSION
        ],
    )?;
    Ok(())
}

pub(super) fn schema(read: &ReadTx<'_>, scope: &Scope, id: &str) -> Result<Option<Value>, StoreError> {
    let found = read.query_optional(
        "SELECT definition FROM shared_schemas WHERE tenant_id = ?1 AND schema_id = ?2",
        &values![&scope.tenant, id],
        |row| row.get::<String>(0),
    )?;
    found.map(|text| serde_json::from_str(&text).map_err(StoreError::record("schema", &id))).transpose()
}

pub(super) fn schemas(read: &ReadTx<'_>, scope: &Scope) -> Result<Vec<String>, StoreError> {
    read.query(
        "SELECT schema_id FROM shared_schemas WHERE tenant_id = ?1 ORDER BY schema_id LIMIT 50",
        &values![&scope.tenant],
        |row| row.get(0),
    )
}

/// How many proposals of the tenant wait.
pub(super) fn waiting(read: &ReadTx<'_>, scope: &Scope) -> Result<u64, StoreError> {
    read.query_one(
        "SELECT count(*) FROM shared_proposals WHERE tenant_id = ?1 AND state = 'pending'",
        &values![&scope.tenant],
        |row| row.get(0),
    )
}

//! The rows of waits, and of every attempt to answer one.

use longhaul_core::{Digest, EventDraft, ExecutionId, TaskScope, TenantId, TimeMs};
use longhaul_store::{ReadTx, Row, StoreError, Tx, values};
use serde_json::{Value, json};

use super::{Pen, Place, V};
use crate::{
    StepId, seal,
    waits::{Deadline, Wait, WaitId, WaitInfo, WaitKind, WaitStatus},
    waking,
};

/// A wait that a node has declared and nobody has noted yet.
#[derive(Debug, Clone)]
pub(crate) struct NewWait {
    pub(crate) id: WaitId,
    pub(crate) place: Place,
    pub(crate) ordinal: u32,
    pub(crate) wait: Wait,
}

const COLUMNS: &str = "SELECT wait_id, execution_id, ns, superstep, task, ordinal, node, kind, name, payload, schema,
    deadline_at, status, value, request_id, actor, answered_at, created_at, correlation, tenant_id FROM waits";

fn info(read: &ReadTx<'_>, row: &Row<'_>) -> Result<WaitInfo, StoreError> {
    let unknown = |column: usize, expected: &'static str| StoreError::Column {
        column,
        expected,
        found: row.get::<String>(column).unwrap_or_default(),
    };
    let execution: ExecutionId = row.get(1)?;
    let (tenant, id): (TenantId, _) = (row.get(19)?, row.text(0)?);
    let open = |column: usize| {
        let text = row.get::<Option<String>>(column)?;
        text.map(|text| seal::open_json(read, &tenant, id, column, text)).transpose()
    };
    Ok(WaitInfo {
        id: id_of(row, 0)?,
        place: StepId {
            execution: execution.clone(),
            ns: row.get(2)?,
            superstep: row.get(3)?,
            task: row.get(4)?,
            ordinal: row.get(5)?,
            node: row.get(6)?,
            name: row.get(8)?,
        },
        execution,
        kind: WaitKind::parse(row.text(7)?).ok_or_else(|| unknown(7, "the kind of a wait"))?,
        name: row.get(8)?,
        payload: open(9)?.unwrap_or_default(),
        schema: row.get(10)?,
        deadline_at: row.get(11)?,
        status: WaitStatus::parse(row.text(12)?).ok_or_else(|| unknown(12, "the status of a wait"))?,
        value: open(13)?,
        request_id: row.get(14)?,
        actor: row.get(15)?,
        answered_at: row.get(16)?,
        created_at: row.get(17)?,
        correlation: row.get(18)?,
    })
}

impl Pen {
    /// Notes a wait, with its business event.
    pub(crate) fn insert_wait(&self, tx: &mut Tx<'_>, new: &NewWait) -> Result<(), StoreError> {
        let now = tx.now();
        let NewWait { id, place, ordinal, wait } = new;
        let deadline_at = wait.deadline.map(|deadline| match deadline {
            Deadline::At(at) => at,
            Deadline::After(ms) => TimeMs(now.0.saturating_add(i64::try_from(ms).unwrap_or(i64::MAX))),
        });
        tx.execute(
            "INSERT INTO waits (tenant_id, wait_id, execution_id, ns, superstep, task, ordinal, v, node, kind, name,
                 payload, schema, deadline_at, default_value, status, created_at, correlation)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, 'waiting', ?16, ?17)",
            &values![
                self.tenant(),
                id.as_str(),
                self.execution(),
                &*place.ns,
                place.superstep,
                place.task,
                *ordinal,
                V,
                &*place.node,
                wait.kind.as_str(),
                &wait.name,
                seal::json(tx, self.tenant(), id.as_str(), &wait.payload)?,
                wait.schema.as_ref(),
                deadline_at,
                wait.default.as_ref().map(|value| seal::json(tx, self.tenant(), id.as_str(), value)).transpose()?,
                now,
                &wait.correlation
            ],
        )?;
        if deadline_at.is_some() {
            tx.notify(waking::DUE, "")?;
        }
        let data = json!({ "wait": id, "kind": wait.kind, "name": wait.name, "deadline_at": deadline_at });
        let draft = EventDraft::business("wait.opened", data);
        tx.append_event(self.scope(), Some(self.execution()), None, draft).map(drop)
    }

    /// Ends all open waits of the execution without an answer.
    pub(crate) fn cancel_waits(&self, tx: &mut Tx<'_>) -> Result<u64, StoreError> {
        let now = tx.now();
        tx.execute(
            "UPDATE waits SET status = 'cancelled', answered_at = ?3
             WHERE tenant_id = ?1 AND execution_id = ?2 AND status = 'waiting'",
            &values![self.tenant(), self.execution(), now],
        )
    }
}

/// Ends the open waits of the execution whose deadline has passed; their declared default becomes their value.
pub(crate) fn expire(tx: &mut Tx<'_>, scope: &TaskScope, execution: &ExecutionId) -> Result<(), StoreError> {
    let due = select(
        tx,
        "tenant_id = ?1 AND execution_id = ?2 AND status = 'waiting' AND deadline_at <= ?3",
        &values![&scope.scope.tenant, execution, tx.now()],
    )?;
    due.iter().try_for_each(|wait| expire_one(tx, scope, wait).map(drop))
}

/// Ends a wait whose deadline has passed, if it still waits; tells whether it did.
pub(crate) fn expire_one(tx: &mut Tx<'_>, scope: &TaskScope, wait: &WaitInfo) -> Result<bool, StoreError> {
    let now = tx.now();
    let changed = tx.execute(
        "UPDATE waits SET status = 'expired', value = default_value, answered_at = ?3
         WHERE tenant_id = ?1 AND wait_id = ?2 AND status = 'waiting'",
        &values![&scope.scope.tenant, wait.id.as_str(), now],
    )?;
    if changed == 1 {
        let data = json!({ "wait": wait.id, "kind": wait.kind, "name": wait.name });
        let draft = EventDraft::business("wait.expired", data);
        tx.append_event(scope, Some(&wait.execution), Some(&wait.place.within()), draft)?;
    }
    Ok(changed == 1)
}

/// Ends an open wait to which nothing belongs any more.
pub(crate) fn cancel_one(tx: &mut Tx<'_>, tenant: &TenantId, id: &WaitId) -> Result<(), StoreError> {
    let now = tx.now();
    tx.execute(
        "UPDATE waits SET status = 'cancelled', answered_at = ?3
         WHERE tenant_id = ?1 AND wait_id = ?2 AND status = 'waiting'",
        &values![tenant, id.as_str(), now],
    )
    .map(drop)
}

/// Opens a wait again whose answer is not what its node can read; the attempt stays noted, as refused.
pub(crate) fn reopen(tx: &mut Tx<'_>, scope: &TaskScope, id: &WaitId, problem: &str) -> Result<(), StoreError> {
    let tenant = &scope.scope.tenant;
    let Some(wait) = by_id(tx, tenant, id)?.filter(|wait| wait.status == WaitStatus::Answered) else { return Ok(()) };
    tx.execute(
        "UPDATE waits SET status = 'waiting', value = NULL, request_id = NULL, actor = NULL, answered_at = NULL
         WHERE tenant_id = ?1 AND wait_id = ?2 AND status = 'answered'",
        &values![tenant, id.as_str()],
    )?;
    if wait.deadline_at.is_some() {
        // Whoever waits for deadlines may have looked while it was answered.
        tx.notify(waking::DUE, "")?;
    }
    let (request_id, actor) = (wait.request_id.unwrap_or_default(), wait.actor.unwrap_or_default());
    let value = wait.value.unwrap_or(Value::Null);
    let attempt = Attempt { wait: id, request_id: &request_id, actor: &actor, value: &value, outcome: "refused" };
    note_attempt(tx, tenant, &attempt)?;
    let draft = EventDraft::business("wait.reopened", json!({ "wait": id, "name": wait.name, "problem": problem }));
    tx.append_event(scope, Some(&wait.execution), Some(&wait.place.within()), draft).map(drop)
}

/// Waits whose deadline has passed, whosesoever they are, the longest overdue first.
pub(crate) fn due(read: &ReadTx<'_>, now: TimeMs, limit: u32) -> Result<Vec<(TenantId, WaitId)>, StoreError> {
    read.query(
        "SELECT tenant_id, wait_id FROM waits WHERE status = 'waiting' AND deadline_at <= ?1
         ORDER BY deadline_at LIMIT ?2",
        &values![now, limit],
        |row| Ok((row.get(0)?, id_of(row, 1)?)),
    )
}

/// The next deadline of all open waits.
pub(crate) fn next_due(read: &ReadTx<'_>) -> Result<Option<TimeMs>, StoreError> {
    read.query_one("SELECT MIN(deadline_at) FROM waits WHERE status = 'waiting'", &[], |row| row.get(0))
}

/// The wait whose token has this hash, and its tenant.
pub(crate) fn by_token(read: &ReadTx<'_>, hash: &Digest) -> Result<Option<(TenantId, WaitId)>, StoreError> {
    read.query_optional(
        "SELECT tenant_id, wait_id FROM waits WHERE token_hash = ?1",
        &values![&hash.as_bytes()[..]],
        |row| Ok((row.get(0)?, id_of(row, 1)?)),
    )
}

/// Gives an open wait another token, by its hash; tells whether it waits.
pub(crate) fn set_token(tx: &mut Tx<'_>, tenant: &TenantId, id: &WaitId, hash: &Digest) -> Result<bool, StoreError> {
    let changed = tx.execute(
        "UPDATE waits SET token_hash = ?3 WHERE tenant_id = ?1 AND wait_id = ?2 AND status = 'waiting'",
        &values![tenant, id.as_str(), &hash.as_bytes()[..]],
    )?;
    Ok(changed == 1)
}

fn id_of(row: &Row<'_>, column: usize) -> Result<WaitId, StoreError> {
    row.text(column)?.parse().map_err(|_| StoreError::Column {
        column,
        expected: "the id of a wait",
        found: row.get::<String>(column).unwrap_or_default(),
    })
}

/// The waits for which this holds, which may end with an order.
pub(crate) fn select(
    read: &ReadTx<'_>,
    condition: &str,
    params: &[longhaul_store::Value],
) -> Result<Vec<WaitInfo>, StoreError> {
    read.query(&format!("{COLUMNS} WHERE {condition}"), params, |row| info(read, row))
}

/// A wait by its id.
pub(crate) fn by_id(read: &ReadTx<'_>, tenant: &TenantId, id: &WaitId) -> Result<Option<WaitInfo>, StoreError> {
    read.query_optional(
        &format!("{COLUMNS} WHERE tenant_id = ?1 AND wait_id = ?2"),
        &values![tenant, id.as_str()],
        |row| info(read, row),
    )
}

/// The wait of an execution that this request answered.
pub(crate) fn by_request(
    read: &ReadTx<'_>,
    tenant: &TenantId,
    execution: &ExecutionId,
    request_id: &str,
) -> Result<Option<WaitInfo>, StoreError> {
    read.query_optional(
        &format!("{COLUMNS} WHERE tenant_id = ?1 AND execution_id = ?2 AND request_id = ?3"),
        &values![tenant, execution, request_id],
        |row| info(read, row),
    )
}

/// The waits of a superstep, answered or not.
pub(crate) fn of_superstep(
    read: &ReadTx<'_>,
    tenant: &TenantId,
    execution: &ExecutionId,
    ns: &str,
    superstep: u64,
) -> Result<Vec<WaitInfo>, StoreError> {
    read.query(
        &format!("{COLUMNS} WHERE tenant_id = ?1 AND execution_id = ?2 AND ns = ?3 AND superstep = ?4"),
        &values![tenant, execution, ns, superstep],
        |row| info(read, row),
    )
}

/// Answers a wait if it still waits; tells whether it did.
pub(crate) fn answer(
    tx: &mut Tx<'_>,
    tenant: &TenantId,
    wait: &WaitId,
    value: &Value,
    request_id: &str,
    actor: &str,
) -> Result<bool, StoreError> {
    let now = tx.now();
    let changed = tx.execute(
        "UPDATE waits SET status = 'answered', value = ?3, request_id = ?4, actor = ?5, answered_at = ?6
         WHERE tenant_id = ?1 AND wait_id = ?2 AND status = 'waiting'",
        &values![tenant, wait.as_str(), seal::json(tx, tenant, wait.as_str(), value)?, request_id, actor, now],
    )?;
    Ok(changed == 1)
}

/// One attempt to answer a wait, whatever became of it.
pub(crate) struct Attempt<'a> {
    pub(crate) wait: &'a WaitId,
    pub(crate) request_id: &'a str,
    pub(crate) actor: &'a str,
    pub(crate) value: &'a Value,
    pub(crate) outcome: &'a str,
}

/// Notes an attempt.
pub(crate) fn note_attempt(tx: &mut Tx<'_>, tenant: &TenantId, attempt: &Attempt<'_>) -> Result<(), StoreError> {
    let now = tx.now();
    let digest = Digest::of(attempt.value.to_string());
    // Not a number: two attempts that both lose may be noted at the same time.
    let number = tx.ambient().ids.body();
    tx.execute(
        "INSERT INTO answers (tenant_id, wait_id, attempt, v, request_id, actor, value_digest, outcome, at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        &values![
            tenant,
            attempt.wait.as_str(),
            number,
            V,
            attempt.request_id,
            attempt.actor,
            &digest.as_bytes()[..],
            attempt.outcome,
            now
        ],
    )
    .map(drop)
}

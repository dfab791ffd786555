//! How far a person was told, and what waits.

use longhaul_core::{EventDraft, EventId, TaskScope};
use longhaul_store::{ReadTx, StoreError, Tx, events, values};
use serde_json::json;

use super::words::Notice;

const SCHEMA: i64 = 1;
/// Events that are read at once.
const PAGE: u32 = 500;
const WHY_CHARS_MAX: usize = 300;

/// What waits to be told.
pub(super) struct Waiting {
    /// The first, with its event's number.
    pub(super) notice: Option<(i64, Notice)>,
    /// Older ones that are left out, as too many waited.
    pub(super) skipped: usize,
    /// Number of the last event that was looked at.
    pub(super) looked_at: i64,
}

/// The number of the last event that was told. The first time that is the newest there is.
pub(super) fn begin(tx: &mut Tx<'_>, owner: &TaskScope) -> Result<i64, StoreError> {
    let known: Vec<i64> = tx.query(
        "select told_to from run_notices where tenant_id = ?1 and task_id = ?2",
        &values![&owner.scope.tenant, &owner.task],
        |row| row.get(0),
    )?;
    if let Some(known) = known.first() {
        return Ok(*known);
    }
    let newest: i64 = tx.query_one(
        "select coalesce(max(seq), 0) from events where tenant_id = ?1 and user_id = ?2 and task_id = ?3",
        &values![&owner.scope.tenant, &owner.scope.user, &owner.task],
        |row| row.get(0),
    )?;
    tx.execute(
        "insert into run_notices (tenant_id, task_id, told_to, schema) values (?1, ?2, ?3, ?4)",
        &values![&owner.scope.tenant, &owner.task, newest, SCHEMA],
    )?;
    Ok(newest)
}

/// The first notice after this event, of the newest `most`.
pub(super) fn pending(read: &ReadTx<'_>, owner: &TaskScope, after: i64, most: usize) -> Result<Waiting, StoreError> {
    let (mut looked_at, mut notices) = (after, Vec::new());
    loop {
        let page = events(read, &owner.scope, Some(&owner.task), looked_at, PAGE)?;
        let Some(last) = page.last() else { break };
        looked_at = last.seq;
        notices.extend(page.iter().filter_map(|event| Some((event.seq, Notice::of(event)?))));
    }
    let skipped = notices.len().saturating_sub(most);
    Ok(Waiting { notice: notices.into_iter().nth(skipped), skipped, looked_at })
}

/// The person was told of everything up to this event, or that one was given up.
pub(super) fn told(
    tx: &mut Tx<'_>,
    owner: &TaskScope,
    seq: i64,
    id: &EventId,
    given_up: Option<&str>,
) -> Result<(), StoreError> {
    tx.execute(
        "update run_notices set told_to = ?3 where tenant_id = ?1 and task_id = ?2 and told_to < ?3",
        &values![&owner.scope.tenant, &owner.task, seq],
    )?;
    let Some(why) = given_up else { return Ok(()) };
    let why: String = why.chars().take(WHY_CHARS_MAX).collect();
    let draft = EventDraft::business("notice.given_up", json!({"of": id, "why": why}));
    tx.append_event(owner, None, None, draft).map(drop)
}

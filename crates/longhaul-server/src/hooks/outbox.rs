//! What subscriptions are to be sent: the log is the outbox, and these rows say how far each delivery has come.
//!
//! Invariants: a delivery is noted in the transaction that moves its subscription's place in the log, once for each
//! event and subscription; of one task's events only the first that waits is due; every change is fenced by the
//! courier's lease.

use longhaul_core::{Digest, Event, EventDraft, EventId, Scope, TaskScope, TimeMs};
use longhaul_store::{LeaseToken, ReadTx, Row, StoreError, Tx, events, values};
use serde_json::json;

use super::{
    schema,
    subscriptions::{self, Subscription},
};
use crate::events::WireEvent;

/// Entries of the log that one transaction looks at.
const PAGE: u32 = 200;
/// Deliveries that may wait for one subscription; beyond, the log keeps what follows.
const WAITING_MAX: i64 = 1_000;
/// Heads of tasks that are looked at.
const HEADS_MAX: u32 = 64;
/// How long what was delivered is listed, milliseconds.
const KEPT_MS: i64 = 7 * 24 * 60 * 60 * 1_000;
/// Longest note of what went wrong, characters.
const PROBLEM_CHARS_MAX: usize = 300;

/// How far a delivery has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    /// It is to be sent, perhaps again.
    Waiting,
    /// It was taken.
    Delivered,
    /// It was given up.
    Dead,
}

impl Status {
    const ALL: [(Self, &'static str); 3] =
        [(Self::Waiting, "waiting"), (Self::Delivered, "delivered"), (Self::Dead, "dead")];

    pub(crate) fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(status, _)| *status == self).map_or("", |(_, name)| name)
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, name)| *name == text).map(|(status, _)| *status)
    }
}

/// One event for one subscription.
#[derive(Debug, Clone)]
pub(crate) struct Delivery {
    pub(crate) scope: TaskScope,
    pub(crate) id: String,
    pub(crate) subscription: String,
    pub(crate) event: EventId,
    pub(crate) seq: i64,
    pub(crate) kind: String,
    pub(crate) status: Status,
    pub(crate) attempts: u32,
    pub(crate) next_at: TimeMs,
    /// What the receiver answered last.
    pub(crate) answer: Option<u16>,
    /// What went wrong last.
    pub(crate) problem: Option<String>,
    pub(crate) created_at: TimeMs,
    pub(crate) updated_at: TimeMs,
}

/// The id of the delivery of an event to a subscription: the same whenever it is noted, so that receivers know it.
pub(crate) fn delivery_id(subscription: &str, event: &EventId) -> String {
    let digest = Digest::of_parts([subscription.as_bytes(), event.as_str().as_bytes()]).hex();
    format!("dlv_{}", &digest[..32])
}

/// What a part of the log holds for a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ahead {
    /// The last entry of the part.
    pub(crate) last: i64,
    /// Something in it is to be delivered.
    pub(crate) wanted: bool,
    /// There may be more behind it.
    pub(crate) more: bool,
}

/// Looks at the part of the log behind `from`; nothing when it is empty.
pub(crate) fn ahead(read: &ReadTx<'_>, of: &Subscription, from: i64) -> Result<Option<Ahead>, StoreError> {
    let page = events(read, &of.scope, of.task.as_ref(), from, PAGE)?;
    let Some(last) = page.last().map(|event| event.seq) else { return Ok(None) };
    let more = page.len() == PAGE as usize;
    let wanted = page.into_iter().any(|entry| wanted(of, entry).is_some());
    Ok(Some(Ahead { last, wanted, more }))
}

/// What a subscription is told of an entry.
fn wanted(of: &Subscription, entry: Event) -> Option<WireEvent> {
    let event = WireEvent::of(entry).filter(|event| of.types.takes(&event.kind))?;
    // What is told of a subscription's own failures would go round in circles.
    let own = event.kind.starts_with("webhook.") && event.data["subscription"].as_str() == Some(&of.id);
    (!own).then_some(event)
}

/// Notes what is to be delivered of the next part of the log; tells whether there may be more of it. The caller knows
/// that nothing before `from` is.
pub(crate) fn plan(
    tx: &mut Tx<'_>,
    lease: &LeaseToken,
    scope: &Scope,
    id: &str,
    from: i64,
) -> Result<bool, StoreError> {
    tx.check_lease(lease)?;
    let Some(subscription) = subscriptions::get(tx, scope, id)?.filter(|found| found.enabled) else { return Ok(false) };
    let page = events(tx, scope, subscription.task.as_ref(), subscription.position.max(from), PAGE)?;
    let Some(last) = page.last().map(|event| event.seq) else { return Ok(false) };
    let waiting: i64 = tx.query_one(
        "SELECT count(*) FROM webhook_deliveries WHERE tenant_id = ?1 AND subscription_id = ?2 AND status = 'waiting'",
        &values![&scope.tenant, id],
        |row| row.get(0),
    )?;
    if waiting >= WAITING_MAX {
        return Ok(false);
    }
    let (now, full) = (tx.now(), page.len() == PAGE as usize);
    for entry in page {
        let of = entry.scope.clone();
        let Some(event) = wanted(&subscription, entry) else { continue };
        tx.execute(
            "INSERT INTO webhook_deliveries (tenant_id, delivery_id, subscription_id, user_id, session_id, task_id,
                 trace_id, event_id, seq, kind, status, attempts, next_at, answer, problem, created_at, updated_at,
                 schema)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, 'waiting', 0, ?11, NULL, NULL, ?11, ?11, ?12)
             ON CONFLICT DO NOTHING",
            &values![
                &scope.tenant,
                delivery_id(id, &event.id),
                id,
                &of.scope.user,
                &of.session,
                &of.task,
                &of.trace,
                &event.id,
                event.seq,
                &event.kind,
                now,
                schema::ROWS,
            ],
        )?;
    }
    tx.execute(
        "UPDATE webhook_subscriptions SET position = ?3 WHERE tenant_id = ?1 AND subscription_id = ?2",
        &values![&scope.tenant, id, last],
    )?;
    Ok(full)
}

/// Of each task the first delivery that waits, those that are due first at the front.
pub(crate) fn heads(read: &ReadTx<'_>, scope: &Scope, id: &str) -> Result<Vec<Delivery>, StoreError> {
    read.query(
        &format!(
            "{COLUMNS} WHERE tenant_id = ?1 AND subscription_id = ?2 AND status = 'waiting' AND seq = (
                 SELECT min(seq) FROM webhook_deliveries e WHERE e.tenant_id = webhook_deliveries.tenant_id
                     AND e.subscription_id = webhook_deliveries.subscription_id AND e.status = 'waiting'
                     AND e.task_id = webhook_deliveries.task_id)
             ORDER BY next_at, seq LIMIT ?3"
        ),
        &values![&scope.tenant, id, HEADS_MAX],
        delivery,
    )
}

/// What an attempt came to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Attempt {
    /// It was taken, or there is nothing any more to be sent.
    Done { answer: Option<u16> },
    /// It is tried again at this time.
    Again { at: TimeMs, answer: Option<u16>, problem: String },
    /// It is given up; the subscription too, where the receiver says that it is gone.
    Dead { answer: Option<u16>, problem: String, gone: bool },
}

/// Notes an attempt. A subscription of which so many deliveries in a row were given up is switched off.
pub(crate) fn note(
    tx: &mut Tx<'_>,
    lease: &LeaseToken,
    of: &Delivery,
    attempt: &Attempt,
    dead_in_a_row_max: u32,
) -> Result<(), StoreError> {
    tx.check_lease(lease)?;
    let (tenant, now) = (&of.scope.scope.tenant, tx.now());
    let (status, next_at, answer, problem) = match attempt {
        Attempt::Done { answer } => (Status::Delivered, now, *answer, None),
        Attempt::Again { at, answer, problem } => (Status::Waiting, *at, *answer, Some(problem)),
        Attempt::Dead { answer, problem, .. } => (Status::Dead, now, *answer, Some(problem)),
    };
    let problem = problem.map(|problem| problem.chars().take(PROBLEM_CHARS_MAX).collect::<String>());
    let changed = tx.execute(
        "UPDATE webhook_deliveries SET status = ?3, attempts = attempts + 1, next_at = ?4, answer = ?5, problem = ?6,
             updated_at = ?7
         WHERE tenant_id = ?1 AND delivery_id = ?2 AND status = 'waiting'",
        &values![tenant, &of.id, status.as_str(), next_at, answer.map(u32::from), problem.as_deref(), now],
    )?;
    if changed == 0 {
        // It was removed meanwhile, with its subscription.
        return Ok(());
    }
    match attempt {
        Attempt::Done { .. } => {
            tx.execute(
                "UPDATE webhook_subscriptions SET dead_in_a_row = 0
                 WHERE tenant_id = ?1 AND subscription_id = ?2 AND dead_in_a_row > 0",
                &values![tenant, &of.subscription],
            )?;
            tx.execute(
                "DELETE FROM webhook_deliveries
                 WHERE tenant_id = ?1 AND subscription_id = ?2 AND status = 'delivered' AND updated_at < ?3",
                &values![tenant, &of.subscription, now.0.saturating_sub(KEPT_MS)],
            )?;
        }
        Attempt::Again { .. } => {}
        Attempt::Dead { problem, gone, .. } => bury(tx, of, problem, *gone, dead_in_a_row_max)?,
    }
    Ok(())
}

/// Tells of a delivery that was given up, and switches its subscription off where it is time.
fn bury(tx: &mut Tx<'_>, of: &Delivery, problem: &str, gone: bool, in_a_row_max: u32) -> Result<(), StoreError> {
    let data = json!({
        "subscription": of.subscription, "delivery": of.id, "event": of.event, "attempts": of.attempts + 1,
        "problem": problem,
    });
    tx.append_event(&of.scope, None, None, EventDraft::business("webhook.dead", data))?;
    tx.execute(
        "UPDATE webhook_subscriptions SET dead_in_a_row = dead_in_a_row + 1
         WHERE tenant_id = ?1 AND subscription_id = ?2",
        &values![&of.scope.scope.tenant, &of.subscription],
    )?;
    let Some(subscription) = subscriptions::get(tx, &of.scope.scope, &of.subscription)? else { return Ok(()) };
    if !gone && subscription.dead_in_a_row < in_a_row_max {
        return Ok(());
    }
    let because = if gone {
        "the receiver says that it is gone (410)".to_owned()
    } else {
        format!("{} deliveries in a row were given up, the last because: {problem}", subscription.dead_in_a_row)
    };
    subscriptions::set_enabled(tx, &subscription, Some(&because))?;
    let data = json!({ "subscription": of.subscription, "because": because });
    tx.append_event(&of.scope, None, None, EventDraft::business("webhook.disabled", data)).map(drop)
}

/// Deliveries of a subscription, newest first: those before number `before`, of one status or of all.
pub(crate) fn list(
    read: &ReadTx<'_>,
    scope: &Scope,
    subscription: &str,
    status: Option<Status>,
    before: i64,
    limit: u32,
) -> Result<Vec<Delivery>, StoreError> {
    read.query(
        &format!(
            "{COLUMNS} WHERE tenant_id = ?1 AND user_id = ?2 AND subscription_id = ?3 AND seq < ?4
                 AND (?5 = '' OR status = ?5)
             ORDER BY seq DESC LIMIT ?6"
        ),
        &values![&scope.tenant, &scope.user, subscription, before, status.map_or("", Status::as_str), limit],
        delivery,
    )
}

/// One of the user's.
pub(crate) fn get(read: &ReadTx<'_>, scope: &Scope, id: &str) -> Result<Option<Delivery>, StoreError> {
    read.query_optional(
        &format!("{COLUMNS} WHERE tenant_id = ?1 AND user_id = ?2 AND delivery_id = ?3"),
        &values![&scope.tenant, &scope.user, id],
        delivery,
    )
}

/// Sends it once more, from the first attempt on.
pub(crate) fn send_again(tx: &mut Tx<'_>, of: &Delivery) -> Result<(), StoreError> {
    let now = tx.now();
    tx.execute(
        "UPDATE webhook_deliveries SET status = 'waiting', attempts = 0, next_at = ?3, problem = NULL, updated_at = ?3
         WHERE tenant_id = ?1 AND delivery_id = ?2",
        &values![&of.scope.scope.tenant, &of.id, now],
    )?;
    tx.notify(schema::CHANGED, "")
}

const COLUMNS: &str =
    "SELECT tenant_id, user_id, session_id, task_id, trace_id, delivery_id, subscription_id, event_id,
    seq, kind, status, attempts, next_at, answer, problem, created_at, updated_at FROM webhook_deliveries";

fn delivery(row: &Row<'_>) -> Result<Delivery, StoreError> {
    let status = row.text(10)?;
    let status = Status::parse(status).ok_or_else(|| StoreError::Column {
        column: 10,
        expected: "waiting, delivered or dead",
        found: status.to_owned(),
    })?;
    Ok(Delivery {
        scope: TaskScope {
            scope: Scope { tenant: row.get(0)?, user: row.get(1)? },
            session: row.get(2)?,
            task: row.get(3)?,
            trace: row.get(4)?,
        },
        id: row.get(5)?,
        subscription: row.get(6)?,
        event: row.get(7)?,
        seq: row.get(8)?,
        kind: row.get(9)?,
        status,
        attempts: row.get(11)?,
        next_at: row.get(12)?,
        answer: row.get::<Option<i64>>(13)?.and_then(|answer| answer.try_into().ok()),
        problem: row.get(14)?,
        created_at: row.get(15)?,
        updated_at: row.get(16)?,
    })
}

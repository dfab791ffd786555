//! Webhooks of tasks in the store, and how far each has been told.
//!
//! Invariant: what has been told is one number for each webhook; it only rises, and only after its receiver has taken
//! the update or has been given up.

use longhaul_core::TimeMs;
use longhaul_store::{ReadTx, Row, StoreError, Tx, values};
use prost::Message as _;

use crate::{rows::Place, wire::v1::TaskPushNotificationConfig};

/// Layout of the rows.
const V: i64 = 1;
/// Webhooks of one task.
pub(crate) const CONFIGS_MAX: i64 = 10;
/// Webhooks that are looked at together.
const DUE_MAX: i64 = 32;
/// How long one courier has a webhook for itself, milliseconds.
const CLAIM_MS: i64 = 60_000;

/// A webhook with something to be told.
#[derive(Debug, Clone)]
pub(crate) struct Due {
    pub(crate) config: TaskPushNotificationConfig,
    /// The number of the last update that was told.
    pub(crate) delivered: i64,
    pub(crate) attempts: u32,
}

fn config(row: &Row<'_>, column: usize) -> Result<TaskPushNotificationConfig, StoreError> {
    Ok(TaskPushNotificationConfig::decode(row.bytes(column)?).unwrap_or_default())
}

/// Keeps a webhook, or changes the one of that id; it is told what comes behind this number.
pub(crate) fn put(
    tx: &mut Tx<'_>,
    place: &Place,
    new: &TaskPushNotificationConfig,
    delivered: i64,
    now: TimeMs,
) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO a2a_push (tenant_id, network_id, task_id, config_id, v, delivered, attempts, next_at, problem,
             content)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0, ?7, NULL, ?8)
         ON CONFLICT (tenant_id, network_id, task_id, config_id)
         DO UPDATE SET attempts = 0, next_at = excluded.next_at, problem = NULL, content = excluded.content",
        &values![&place.tenant, &place.network, &new.task_id, &new.id, V, delivered, now.0, new.encode_to_vec()],
    )?;
    tx.notify(&place.channel(), &new.task_id)
}

/// How many webhooks a task has beside the one of this id.
pub(crate) fn others(read: &ReadTx<'_>, place: &Place, task: &str, id: &str) -> Result<i64, StoreError> {
    read.query_one(
        "SELECT count(*) FROM a2a_push
         WHERE tenant_id = ?1 AND network_id = ?2 AND task_id = ?3 AND config_id <> ?4",
        &values![&place.tenant, &place.network, task, id],
        |row| row.get(0),
    )
}

/// All webhooks of a task, by their ids.
pub(crate) fn list(
    read: &ReadTx<'_>,
    place: &Place,
    task: &str,
) -> Result<Vec<TaskPushNotificationConfig>, StoreError> {
    read.query(
        "SELECT content FROM a2a_push WHERE tenant_id = ?1 AND network_id = ?2 AND task_id = ?3 ORDER BY config_id",
        &values![&place.tenant, &place.network, task],
        |row| config(row, 0),
    )
}

/// Removes a webhook, if it is there.
pub(crate) fn delete(tx: &mut Tx<'_>, place: &Place, task: &str, id: &str) -> Result<(), StoreError> {
    tx.execute(
        "DELETE FROM a2a_push WHERE tenant_id = ?1 AND network_id = ?2 AND task_id = ?3 AND config_id = ?4",
        &values![&place.tenant, &place.network, task, id],
    )
    .map(drop)
}

/// Webhooks that have something to be told now. Nobody else gets them for a while.
pub(crate) fn claim(tx: &mut Tx<'_>, place: &Place) -> Result<Vec<Due>, StoreError> {
    let now = tx.now();
    let due = tx.query(
        "SELECT p.content, p.delivered, p.attempts FROM a2a_push p
         JOIN a2a_tasks t ON t.tenant_id = p.tenant_id AND t.network_id = p.network_id AND t.task_id = p.task_id
         WHERE p.tenant_id = ?1 AND p.network_id = ?2 AND p.next_at <= ?3 AND p.delivered < t.number
         ORDER BY p.next_at LIMIT ?4",
        &values![&place.tenant, &place.network, now.0, DUE_MAX],
        |row| {
            let attempts = u32::try_from(row.get::<i64>(2)?).unwrap_or(u32::MAX);
            Ok(Due { config: config(row, 0)?, delivered: row.get(1)?, attempts })
        },
    )?;
    for one in &due {
        set(tx, place, one, one.delivered, one.attempts, TimeMs(now.0 + CLAIM_MS), None)?;
    }
    Ok(due)
}

/// When the next webhook that waits is due.
pub(crate) fn next_at(read: &ReadTx<'_>, place: &Place) -> Result<Option<TimeMs>, StoreError> {
    read.query_optional(
        "SELECT p.next_at FROM a2a_push p
         JOIN a2a_tasks t ON t.tenant_id = p.tenant_id AND t.network_id = p.network_id AND t.task_id = p.task_id
         WHERE p.tenant_id = ?1 AND p.network_id = ?2 AND p.delivered < t.number ORDER BY p.next_at LIMIT 1",
        &values![&place.tenant, &place.network],
        |row| row.get(0).map(TimeMs),
    )
}

/// How a webhook stands after it was told, or was not.
pub(crate) fn set(
    tx: &mut Tx<'_>,
    place: &Place,
    of: &Due,
    delivered: i64,
    attempts: u32,
    next_at: TimeMs,
    problem: Option<&str>,
) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE a2a_push SET delivered = ?5, attempts = ?6, next_at = ?7, problem = ?8
         WHERE tenant_id = ?1 AND network_id = ?2 AND task_id = ?3 AND config_id = ?4",
        &values![
            &place.tenant,
            &place.network,
            &of.config.task_id,
            &of.config.id,
            delivered,
            attempts,
            next_at.0,
            problem.map(str::to_owned),
        ],
    )
    .map(drop)
}

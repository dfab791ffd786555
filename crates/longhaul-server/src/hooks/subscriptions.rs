//! Subscriptions: who is sent which events, and how far.
//!
//! It owns the rows. Invariant: a subscription's place in the log moves only in the transaction that notes what is to be
//! delivered of the part it passes.

use longhaul_core::{Scope, TaskId, TimeMs};
use longhaul_store::{ReadTx, Row, StoreError, Tx, values};

use super::{schema, secrets::Secrets};
use crate::events::TypeFilter;

/// Subscriptions of one user.
pub(crate) const SUBSCRIPTIONS_MAX: i64 = 50;

/// A subscription, as it is kept.
#[derive(Debug, Clone)]
pub(crate) struct Subscription {
    pub(crate) scope: Scope,
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) url: String,
    pub(crate) types: TypeFilter,
    pub(crate) task: Option<TaskId>,
    pub(crate) secrets: Secrets,
    /// The last entry of the log that was looked at.
    pub(crate) position: i64,
    pub(crate) enabled: bool,
    pub(crate) disabled_because: Option<String>,
    pub(crate) dead_in_a_row: u32,
    pub(crate) created_at: TimeMs,
}

/// Adds a subscription; nothing when the user has as many as one may have.
pub(crate) fn insert(tx: &mut Tx<'_>, new: &Subscription) -> Result<Option<()>, StoreError> {
    let Scope { tenant, user } = &new.scope;
    let count: i64 = tx.query_one(
        "SELECT count(*) FROM webhook_subscriptions WHERE tenant_id = ?1 AND user_id = ?2",
        &values![tenant, user],
        |row| row.get(0),
    )?;
    if count >= SUBSCRIPTIONS_MAX {
        return Ok(None);
    }
    let secrets = new.secrets.seal(tx, tenant, &new.id)?;
    tx.execute(
        "INSERT INTO webhook_subscriptions (tenant_id, subscription_id, user_id, name, url, types, task_id, secrets,
             position, enabled, disabled_because, dead_in_a_row, created_at, updated_at, schema)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, 1, NULL, 0, ?10, ?10, ?11)",
        &values![
            tenant,
            &new.id,
            user,
            &new.name,
            &new.url,
            new.types.names().join(","),
            new.task.as_ref(),
            secrets,
            new.position,
            new.created_at,
            schema::ROWS,
        ],
    )?;
    tx.notify(schema::CHANGED, "")?;
    Ok(Some(()))
}

/// The number of the newest entry of the tenant's log.
pub(crate) fn newest(read: &ReadTx<'_>, scope: &Scope) -> Result<i64, StoreError> {
    let sql = "SELECT coalesce(max(seq), 0) FROM events WHERE tenant_id = ?1";
    read.query_one(sql, &values![&scope.tenant], |row| row.get(0))
}

/// The user's subscriptions, oldest first.
pub(crate) fn list(read: &ReadTx<'_>, scope: &Scope) -> Result<Vec<Subscription>, StoreError> {
    let condition = "WHERE tenant_id = ?1 AND user_id = ?2 ORDER BY created_at, subscription_id";
    select(read, condition, &values![&scope.tenant, &scope.user])
}

/// One of the user's.
pub(crate) fn get(read: &ReadTx<'_>, scope: &Scope, id: &str) -> Result<Option<Subscription>, StoreError> {
    let condition = "WHERE tenant_id = ?1 AND user_id = ?2 AND subscription_id = ?3";
    Ok(select(read, condition, &values![&scope.tenant, &scope.user, id])?.pop())
}

/// Those of everybody that are sent something: for the courier.
pub(crate) fn enabled(read: &ReadTx<'_>) -> Result<Vec<Subscription>, StoreError> {
    select(read, "WHERE enabled = 1 ORDER BY tenant_id, subscription_id", &[])
}

/// Gives it other secrets.
pub(crate) fn set_secrets(tx: &mut Tx<'_>, of: &Subscription) -> Result<(), StoreError> {
    let (secrets, now) = (of.secrets.seal(tx, &of.scope.tenant, &of.id)?, tx.now());
    tx.execute(
        "UPDATE webhook_subscriptions SET secrets = ?3, updated_at = ?4 WHERE tenant_id = ?1 AND subscription_id = ?2",
        &values![&of.scope.tenant, &of.id, secrets, now],
    )?;
    tx.notify(schema::CHANGED, "")
}

/// Switches it on, with what is waiting for it due at once, or off.
pub(crate) fn set_enabled(tx: &mut Tx<'_>, of: &Subscription, because: Option<&str>) -> Result<(), StoreError> {
    let now = tx.now();
    tx.execute(
        "UPDATE webhook_subscriptions SET enabled = ?3, disabled_because = ?4, dead_in_a_row = 0, updated_at = ?5
         WHERE tenant_id = ?1 AND subscription_id = ?2",
        &values![&of.scope.tenant, &of.id, because.is_none(), because, now],
    )?;
    if because.is_none() {
        tx.execute(
            "UPDATE webhook_deliveries SET next_at = ?3
             WHERE tenant_id = ?1 AND subscription_id = ?2 AND status = 'waiting' AND next_at > ?3",
            &values![&of.scope.tenant, &of.id, now],
        )?;
    }
    tx.notify(schema::CHANGED, "")
}

/// Removes one of the user's with its deliveries; tells whether it was there.
pub(crate) fn delete(tx: &mut Tx<'_>, scope: &Scope, id: &str) -> Result<bool, StoreError> {
    let gone = tx.execute(
        "DELETE FROM webhook_subscriptions WHERE tenant_id = ?1 AND user_id = ?2 AND subscription_id = ?3",
        &values![&scope.tenant, &scope.user, id],
    )?;
    if gone == 1 {
        tx.execute(
            "DELETE FROM webhook_deliveries WHERE tenant_id = ?1 AND subscription_id = ?2",
            &values![&scope.tenant, id],
        )?;
    }
    tx.notify(schema::CHANGED, "")?;
    Ok(gone == 1)
}

const COLUMNS: &str =
    "SELECT tenant_id, user_id, subscription_id, name, url, types, task_id, secrets, position, enabled,
    disabled_because, dead_in_a_row, created_at FROM webhook_subscriptions";

fn select(
    read: &ReadTx<'_>,
    condition: &str,
    params: &[longhaul_store::Value],
) -> Result<Vec<Subscription>, StoreError> {
    let rows = read.query(&format!("{COLUMNS} {condition}"), params, raw)?;
    let open = |(mut subscription, sealed): (Subscription, String)| {
        let (tenant, id) = (&subscription.scope.tenant, &subscription.id);
        subscription.secrets = Secrets::unseal(read, tenant, id, sealed)?;
        Ok(subscription)
    };
    rows.into_iter().map(open).collect()
}

/// A row, its secrets still sealed.
fn raw(row: &Row<'_>) -> Result<(Subscription, String), StoreError> {
    let types: String = row.get(5)?;
    let types = TypeFilter::parse(&types).map_err(|_| StoreError::Column {
        column: 5,
        expected: "types of events",
        found: types.chars().take(80).collect(),
    })?;
    let subscription = Subscription {
        scope: Scope { tenant: row.get(0)?, user: row.get(1)? },
        id: row.get(2)?,
        name: row.get(3)?,
        url: row.get(4)?,
        types,
        task: row.get(6)?,
        secrets: Secrets::none(),
        position: row.get(8)?,
        enabled: row.get::<i64>(9)? != 0,
        disabled_because: row.get(10)?,
        dead_in_a_row: row.get(11)?,
        created_at: row.get(12)?,
    };
    Ok((subscription, row.get(7)?))
}

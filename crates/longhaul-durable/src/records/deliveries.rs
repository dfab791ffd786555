//! The rows of events that were delivered from outside and answered something.

use longhaul_core::{Digest, Scope};
use longhaul_store::{ReadTx, StoreError, Tx, values};

use super::V;
use crate::{WaitId, WaitInfo, waits::WaitKind};

/// An event that was delivered.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Delivery {
    pub(crate) name: String,
    pub(crate) correlation: String,
    pub(crate) payload: Digest,
    /// What it answered.
    pub(crate) waits: Vec<WaitId>,
}

/// The event of this id, if it has been delivered.
pub(crate) fn find(read: &ReadTx<'_>, scope: &Scope, event_id: &str) -> Result<Option<Delivery>, StoreError> {
    read.query_optional(
        "SELECT name, correlation, payload_digest, waits FROM deliveries
         WHERE tenant_id = ?1 AND user_id = ?2 AND event_id = ?3",
        &values![&scope.tenant, &scope.user, event_id],
        |row| {
            let unfit = |column, expected| StoreError::Column { column, expected, found: String::new() };
            let digest: Vec<u8> = row.get(2)?;
            let digest: [u8; 32] = digest.try_into().map_err(|_| unfit(2, "the digest of a payload"))?;
            let waits = serde_json::from_str(row.text(3)?).map_err(|_| unfit(3, "a list of waits"))?;
            Ok(Delivery { name: row.get(0)?, correlation: row.get(1)?, payload: digest.into(), waits })
        },
    )
}

/// Notes that an event was delivered.
pub(crate) fn insert(tx: &mut Tx<'_>, scope: &Scope, event_id: &str, delivery: &Delivery) -> Result<(), StoreError> {
    let now = tx.now();
    let waits: Vec<&str> = delivery.waits.iter().map(WaitId::as_str).collect();
    tx.execute(
        "INSERT INTO deliveries (tenant_id, user_id, event_id, v, name, correlation, payload_digest, waits, at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        &values![
            &scope.tenant,
            &scope.user,
            event_id,
            V,
            &delivery.name,
            &delivery.correlation,
            &delivery.payload.as_bytes()[..],
            &serde_json::json!(waits),
            now
        ],
    )
    .map(drop)
}

/// The waits that an event of this name and correlation answers, oldest first.
pub(crate) fn waiting(
    read: &ReadTx<'_>,
    scope: &Scope,
    name: &str,
    correlation: &str,
) -> Result<Vec<WaitInfo>, StoreError> {
    super::waits::select(
        read,
        "waits.tenant_id = ?1 AND name = ?3 AND correlation = ?4 AND waits.status = 'waiting' AND kind = ?5
         AND EXISTS (SELECT 1 FROM executions e WHERE e.tenant_id = waits.tenant_id
             AND e.execution_id = waits.execution_id AND e.user_id = ?2)
         ORDER BY created_at, wait_id",
        &values![&scope.tenant, &scope.user, name, correlation, WaitKind::Event.as_str()],
    )
}

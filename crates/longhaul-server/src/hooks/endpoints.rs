//! Endpoints that take webhooks in: their rows, and the directory in memory that a request is looked up in.
//!
//! Invariant: a request for an endpoint that does not exist touches no row.

use std::{
    collections::HashMap,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
};

use longhaul_core::{Scope, TimeMs};
use longhaul_store::{ReadTx, Row, Store, StoreError, Tx, values};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{schema, secrets::Secrets};
use crate::words::{Pointer, WaitName};

/// Endpoints of one user.
pub(crate) const ENDPOINTS_MAX: i64 = 100;

/// What a verified message does. Places in its body are JSON pointers: `/data/order_id`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Action {
    /// It answers every wait of kind event that has this name and correlation.
    Deliver {
        /// The name.
        name: WaitName,
        /// Where the correlation stands, a text or a number; empty without.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        correlation_at: Option<Pointer>,
        /// Where the answer stands; the whole body without.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        payload_at: Option<Pointer>,
    },
    /// The same for a name that stands in the body.
    DeliverNamed {
        /// Where the name stands.
        name_at: Pointer,
        /// Where the correlation stands, a text or a number; empty without.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        correlation_at: Option<Pointer>,
        /// Where the answer stands; the whole body without.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        payload_at: Option<Pointer>,
    },
    /// It answers the wait that it names.
    Answer {
        /// Where the id of the wait stands.
        wait_at: Pointer,
        /// Where the answer stands; the whole body without.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        payload_at: Option<Pointer>,
    },
}

/// An endpoint, as it is kept.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    pub(crate) scope: Scope,
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) action: Action,
    pub(crate) secrets: Secrets,
    pub(crate) created_at: TimeMs,
}

/// What came in since this process began.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) accepted: AtomicU64,
    pub(crate) repeated: AtomicU64,
    pub(crate) refused: AtomicU64,
}

/// The endpoints by their ids, in memory.
#[derive(Debug, Default)]
pub(crate) struct Directory {
    known: RwLock<Known>,
    /// One refresh at a time, or older rows could be put in place of newer ones.
    refreshing: tokio::sync::Mutex<()>,
    /// Requests for endpoints that do not exist.
    pub(crate) unknown: AtomicU64,
}

#[derive(Debug, Default)]
struct Known {
    endpoints: HashMap<String, (Arc<Endpoint>, Arc<Counts>)>,
    /// What the rows looked like when they were read.
    mark: Option<(i64, i64)>,
}

impl Directory {
    /// The endpoint of this id; that there is none is counted.
    pub(crate) fn find(&self, id: &str) -> Option<(Arc<Endpoint>, Arc<Counts>)> {
        let found = self.known.read().unwrap_or_else(PoisonError::into_inner).endpoints.get(id).cloned();
        if found.is_none() {
            self.unknown.fetch_add(1, Ordering::Relaxed);
        }
        found
    }

    /// What came in for an endpoint.
    pub(crate) fn counts(&self, id: &str) -> Option<Arc<Counts>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.endpoints.get(id).map(|(_, counts)| counts.clone())
    }

    /// Reads the rows again where they have changed.
    pub(crate) async fn refresh(&self, store: &Store) -> Result<(), StoreError> {
        let _alone = self.refreshing.lock().await;
        let before = self.known.read().unwrap_or_else(PoisonError::into_inner).mark;
        let read = store.read(move |read| {
            let mark =
                read.query_one("SELECT count(*), coalesce(max(updated_at), 0) FROM webhook_endpoints", &[], |row| {
                    Ok((row.get::<i64>(0)?, row.get::<i64>(1)?))
                })?;
            if before == Some(mark) {
                return Ok(None);
            }
            let rows = read.query(&format!("{COLUMNS} ORDER BY endpoint_id"), &[], raw)?;
            let endpoints = rows.into_iter().map(|row| row.open(read)).collect::<Result<Vec<_>, _>>()?;
            Ok::<_, StoreError>(Some((mark, endpoints)))
        });
        let Some((mark, endpoints)) = read.await? else { return Ok(()) };
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let mut counted = std::mem::take(&mut known.endpoints);
        let entries = endpoints.into_iter().map(|endpoint| {
            let counts = counted.remove(&endpoint.id).map(|(_, counts)| counts).unwrap_or_default();
            (endpoint.id.clone(), (Arc::new(endpoint), counts))
        });
        known.endpoints = entries.collect();
        known.mark = Some(mark);
        Ok(())
    }
}

/// Adds an endpoint; nothing when the user has as many as one may have.
pub(crate) fn insert(tx: &mut Tx<'_>, endpoint: &Endpoint) -> Result<Option<()>, StoreError> {
    let Scope { tenant, user } = &endpoint.scope;
    let count: i64 = tx.query_one(
        "SELECT count(*) FROM webhook_endpoints WHERE tenant_id = ?1 AND user_id = ?2",
        &values![tenant, user],
        |row| row.get(0),
    )?;
    if count >= ENDPOINTS_MAX {
        return Ok(None);
    }
    let action = serde_json::to_string(&endpoint.action).unwrap_or_default();
    let secrets = endpoint.secrets.seal(tx, tenant, &endpoint.id)?;
    tx.execute(
        "INSERT INTO webhook_endpoints (tenant_id, endpoint_id, user_id, name, action, secrets, created_at, updated_at,
             schema)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7, ?8)",
        &values![tenant, &endpoint.id, user, &endpoint.name, action, secrets, endpoint.created_at, schema::ROWS],
    )?;
    tx.notify(schema::CHANGED, "")?;
    Ok(Some(()))
}

/// The user's endpoints, oldest first.
pub(crate) fn list(read: &ReadTx<'_>, scope: &Scope) -> Result<Vec<Endpoint>, StoreError> {
    let sql = format!("{COLUMNS} WHERE tenant_id = ?1 AND user_id = ?2 ORDER BY created_at, endpoint_id");
    let rows = read.query(&sql, &values![&scope.tenant, &scope.user], raw)?;
    rows.into_iter().map(|row| row.open(read)).collect()
}

/// One of the user's.
pub(crate) fn get(read: &ReadTx<'_>, scope: &Scope, id: &str) -> Result<Option<Endpoint>, StoreError> {
    let sql = format!("{COLUMNS} WHERE tenant_id = ?1 AND user_id = ?2 AND endpoint_id = ?3");
    let row = read.query_optional(&sql, &values![&scope.tenant, &scope.user, id], raw)?;
    row.map(|row| row.open(read)).transpose()
}

/// Gives it other secrets.
pub(crate) fn set_secrets(tx: &mut Tx<'_>, endpoint: &Endpoint) -> Result<(), StoreError> {
    let Scope { tenant, .. } = &endpoint.scope;
    let (secrets, now) = (endpoint.secrets.seal(tx, tenant, &endpoint.id)?, tx.now());
    // The mark of the directory has to move, also within one millisecond and after the clock has been put back.
    tx.execute(
        "UPDATE webhook_endpoints SET secrets = ?3, updated_at = 1 + CASE WHEN ?4 > (SELECT max(updated_at) FROM
             webhook_endpoints) THEN ?4 ELSE (SELECT max(updated_at) FROM webhook_endpoints) END
         WHERE tenant_id = ?1 AND endpoint_id = ?2",
        &values![tenant, &endpoint.id, secrets, now],
    )?;
    tx.notify(schema::CHANGED, "")
}

/// Removes one of the user's; tells whether it was there.
pub(crate) fn delete(tx: &mut Tx<'_>, scope: &Scope, id: &str) -> Result<bool, StoreError> {
    let gone = tx.execute(
        "DELETE FROM webhook_endpoints WHERE tenant_id = ?1 AND user_id = ?2 AND endpoint_id = ?3",
        &values![&scope.tenant, &scope.user, id],
    )?;
    tx.notify(schema::CHANGED, "")?;
    Ok(gone == 1)
}

const COLUMNS: &str =
    "SELECT tenant_id, user_id, endpoint_id, name, action, secrets, created_at FROM webhook_endpoints";

struct Raw {
    scope: Scope,
    id: String,
    name: String,
    action: String,
    secrets: String,
    created_at: TimeMs,
}

fn raw(row: &Row<'_>) -> Result<Raw, StoreError> {
    Ok(Raw {
        scope: Scope { tenant: row.get(0)?, user: row.get(1)? },
        id: row.get(2)?,
        name: row.get(3)?,
        action: row.get(4)?,
        secrets: row.get(5)?,
        created_at: row.get(6)?,
    })
}

impl Raw {
    fn open(self, read: &ReadTx<'_>) -> Result<Endpoint, StoreError> {
        let Self { scope, id, name, action, secrets, created_at } = self;
        let secrets = Secrets::unseal(read, &scope.tenant, &id, secrets)?;
        let action = serde_json::from_str(&action).map_err(|_| StoreError::Column {
            column: 4,
            expected: "an action of a webhook endpoint",
            found: action.chars().take(80).collect(),
        })?;
        Ok(Endpoint { scope, id, name, action, secrets, created_at })
    }
}

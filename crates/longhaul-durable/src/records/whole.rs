//! Whole executions, over all tables: copied, removed, put under another graph.
//!
//! Invariant: the digests of a copy are those that the copy's own rows would have got; nobody copies what is damaged.

use longhaul_core::{Digest, ExecutionId, TenantId, TimeMs};
use longhaul_store::{ReadTx, StoreError, Tx, values};

use super::{
    Pen,
    checkpoints::{self, Log},
};
use crate::{checkpoint, seal::Spot, waits::WaitId};

/// The tables whose rows belong to an execution.
const TABLES: [&str; 9] = [
    "checkpoints",
    "snapshots",
    "tasks_done",
    "steps",
    "effects",
    "waits",
    "interventions",
    "interventions_seen",
    "executions",
];

/// What a copy takes along, and the columns behind tenant and execution. Waits get new ids.
const COPIED: [(&str, &str); 5] = [
    ("checkpoints", "ns, superstep, v, nodes, frontier, form, data, digest, at"),
    ("snapshots", "ns, superstep, v, state, digest"),
    ("tasks_done", "ns, superstep, task, v, node, attempt, updates, route, at"),
    ("steps", "ns, superstep, task, ordinal, v, node, name, effect, effect_key, result, at"),
    ("effects", "ns, superstep, task, ordinal, v, node, name, probe, intent_at, receipt_at"),
];

/// Removes an execution with everything that was recorded of it; the event log stays. Tells how many rows there were.
pub(crate) fn delete(tx: &mut Tx<'_>, tenant: &TenantId, execution: &ExecutionId) -> Result<u64, StoreError> {
    let mut rows = tx.execute(
        "DELETE FROM answers WHERE tenant_id = ?1 AND wait_id IN (
             SELECT wait_id FROM waits WHERE tenant_id = ?1 AND execution_id = ?2)",
        &values![tenant, execution],
    )?;
    for table in TABLES {
        let sql = format!("DELETE FROM {table} WHERE tenant_id = ?1 AND execution_id = ?2");
        rows += tx.execute(&sql, &values![tenant, execution])?;
    }
    Ok(rows)
}

/// Copies what was recorded of an execution to another of the same tenant, whose own row is there already.
///
/// # Errors
/// The number of the first damaged row, inside.
pub(crate) fn copy(
    tx: &mut Tx<'_>,
    tenant: &TenantId,
    from: &ExecutionId,
    to: &ExecutionId,
) -> Result<Result<(), (String, u64)>, StoreError> {
    let frames = namespaces(tx, tenant, from, "%")?;
    for ns in &frames {
        let log = checkpoints::log(tx, tenant, from, ns, u64::MAX, true)?;
        if let Err(superstep) = checkpoint::check_log(from, ns, &log) {
            return Ok(Err((ns.clone(), superstep)));
        }
    }
    for (table, columns) in COPIED {
        let sql = format!(
            "INSERT INTO {table} (tenant_id, execution_id, {columns})
             SELECT tenant_id, CAST(?3 AS TEXT), {columns} FROM {table} WHERE tenant_id = ?1 AND execution_id = ?2"
        );
        tx.execute(&sql, &values![tenant, from, to])?;
    }
    let waits = tx.query(
        "SELECT wait_id FROM waits WHERE tenant_id = ?1 AND execution_id = ?2",
        &values![tenant, from],
        |row| row.get::<String>(0),
    )?;
    for old in waits {
        let new = WaitId::from_body(&tx.ambient().ids.body());
        let columns = "ns, superstep, task, ordinal, v, node, kind, name, payload, schema, deadline_at, default_value,
             status, value, request_id, actor, answered_at, created_at, correlation";
        let sql = format!(
            "INSERT INTO waits (tenant_id, wait_id, execution_id, {columns})
             SELECT tenant_id, CAST(?3 AS TEXT), CAST(?4 AS TEXT), {columns} FROM waits
             WHERE tenant_id = ?1 AND wait_id = ?2"
        );
        tx.execute(&sql, &values![tenant, &old, new.as_str(), to])?;
        for column in ["payload", "default_value", "value"] {
            let which = "WHERE tenant_id = ?1 AND wait_id = ?2";
            let found = tx.query_optional(
                &format!("SELECT {column} FROM waits {which}"),
                &values![tenant, new.as_str()],
                |row| row.get::<Option<String>>(0),
            )?;
            if let Some(text) = found.flatten() {
                let text = tx.unseal(|| format!("{tenant}/{old}"), text)?;
                let text = tx.seal(|| format!("{tenant}/{}", new.as_str()), text)?;
                let sql = format!("UPDATE waits SET {column} = ?3 {which}");
                tx.execute(&sql, &values![tenant, new.as_str(), text])?;
            }
        }
    }
    SEALED.iter().try_for_each(|sealed| reseal(tx, tenant, from, to, sealed))?;
    for ns in &frames {
        rechain(tx, tenant, to, ns)?;
    }
    Ok(Ok(()))
}

/// What is sealed for its place: table, column, the name under which it is sealed, and the parts of the place.
const SEALED: [(&str, &str, &str, &str); 6] = [
    ("checkpoints", "frontier", "checkpoints.frontier", "0, 0"),
    ("checkpoints", "data", "checkpoints.data", "0, 0"),
    ("snapshots", "state", "snapshots.state", "0, 0"),
    ("tasks_done", "updates", "tasks.updates", "task, 0"),
    ("tasks_done", "route", "tasks.route", "task, 0"),
    ("steps", "result", "steps.result", "task, ordinal"),
];

/// Seals the rows of a copy for their new place.
fn reseal(
    tx: &mut Tx<'_>,
    tenant: &TenantId,
    from: &ExecutionId,
    to: &ExecutionId,
    (table, column, name, place): &(&str, &str, &'static str, &str),
) -> Result<(), StoreError> {
    let rows = tx.query(
        &format!(
            "SELECT ns, superstep, {place}, {column} FROM {table}
             WHERE tenant_id = ?1 AND execution_id = ?2 AND {column} LIKE 'sealed:%'"
        ),
        &values![tenant, to],
        |row| Ok((row.get::<String>(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get::<String>(4)?)),
    )?;
    for (ns, superstep, task, ordinal, text) in rows {
        let old = Spot { tenant, execution: from, column: name, ns: &ns, superstep, task, ordinal };
        let text = Spot { execution: to, ..old }.seal(tx, old.open(tx, text)?)?;
        let mut key = values![tenant, to, &ns, superstep, text].to_vec();
        let mut which = String::new();
        for (column, value) in place.split(", ").zip([task, ordinal]).filter(|(column, _)| *column != "0") {
            key.push(value.into());
            which.push_str(&format!(" AND {column} = ?{}", key.len()));
        }
        let sql = format!(
            "UPDATE {table} SET {column} = ?5
             WHERE tenant_id = ?1 AND execution_id = ?2 AND ns = ?3 AND superstep = ?4{which}"
        );
        tx.execute(&sql, &key)?;
    }
    Ok(())
}

/// Gives the rows of a copied frame the digests of their new place.
fn rechain(tx: &mut Tx<'_>, tenant: &TenantId, execution: &ExecutionId, ns: &str) -> Result<(), StoreError> {
    let log: Log = checkpoints::log(tx, tenant, execution, ns, u64::MAX, true)?;
    // What was copied has been checked.
    let digests = checkpoint::digests_in(execution, ns, &log).unwrap_or_default();
    for (row, (superstep, digest)) in log.rows.iter().zip(&digests).filter(|(row, _)| row.v > 1) {
        tx.execute(
            "UPDATE checkpoints SET digest = ?5
             WHERE tenant_id = ?1 AND execution_id = ?2 AND ns = ?3 AND superstep = ?4",
            &values![tenant, execution, ns, *superstep, &digest.as_bytes()[..]],
        )?;
        let snapshot = tx.query_optional(
            "SELECT state FROM snapshots WHERE tenant_id = ?1 AND execution_id = ?2 AND ns = ?3 AND superstep = ?4",
            &values![tenant, execution, ns, *superstep],
            |found| found.get::<String>(0),
        )?;
        let spot = checkpoints::spot(tenant, execution, "snapshots.state", ns, *superstep);
        let snapshot = snapshot.map(|state| spot.open(tx, state)).transpose()?;
        if let Some(state) = snapshot {
            let digest = checkpoint::snapshot_digest(digest, &row.frontier, &state);
            tx.execute(
                "UPDATE snapshots SET digest = ?5
                 WHERE tenant_id = ?1 AND execution_id = ?2 AND ns = ?3 AND superstep = ?4",
                &values![tenant, execution, ns, *superstep, &digest.as_bytes()[..]],
            )?;
        }
    }
    Ok(())
}

/// The frames of an execution in which something was recorded and whose namespaces are like this: `%` for all, `7.%`
/// for those inside superstep 7 of the outermost.
pub(crate) fn namespaces(
    read: &ReadTx<'_>,
    tenant: &TenantId,
    execution: &ExecutionId,
    like: &str,
) -> Result<Vec<String>, StoreError> {
    let of = |table: &str| format!("SELECT ns FROM {table} WHERE tenant_id = ?1 AND execution_id = ?2 AND ns LIKE ?3");
    let tables = ["checkpoints", "tasks_done", "steps", "effects", "waits"].map(of).join(" UNION ");
    let mut found = read.query(&tables, &values![tenant, execution, like], |row| row.get::<String>(0))?;
    found.sort_unstable();
    Ok(found)
}

/// What was recorded of the tasks of an open superstep: number of the task, node, and what.
pub(crate) fn recorded(
    read: &ReadTx<'_>,
    tenant: &TenantId,
    execution: &ExecutionId,
    ns: &str,
    superstep: u64,
) -> Result<Vec<(u32, String, String)>, StoreError> {
    let key = "WHERE tenant_id = ?1 AND execution_id = ?2 AND ns = ?3 AND superstep = ?4";
    let sql = format!(
        "SELECT task, node, 'its result' FROM tasks_done {key}
         UNION SELECT task, node, 'step ' || name FROM steps {key}
         UNION SELECT task, node, 'act ' || name FROM effects {key}
         UNION SELECT task, node, 'wait ' || name FROM waits {key}"
    );
    let mut found = read.query(&sql, &values![tenant, execution, ns, superstep], |row| {
        Ok((row.get::<u32>(0)?, row.get::<String>(1)?, row.get::<String>(2)?))
    })?;
    found.sort_unstable();
    Ok(found)
}

/// The acts that must not happen twice and are in the ledger under an open superstep of the outermost frame, whether
/// or not their outcome is known.
pub(crate) fn acts(
    read: &ReadTx<'_>,
    tenant: &TenantId,
    execution: &ExecutionId,
    superstep: u64,
) -> Result<Vec<String>, StoreError> {
    read.query(
        "SELECT name FROM effects WHERE tenant_id = ?1 AND execution_id = ?2
             AND ((ns = '' AND superstep = ?3) OR ns LIKE ?4) ORDER BY name",
        &values![tenant, execution, superstep, format!("{superstep}.%")],
        |row| row.get(0),
    )
}

/// What of an execution lies before a superstep of its outermost frame and is not needed to go on.
pub(crate) fn delete_before(
    tx: &mut Tx<'_>,
    tenant: &TenantId,
    execution: &ExecutionId,
    superstep: u64,
) -> Result<u64, StoreError> {
    let before = |ns: &String| ns.split_once('.').and_then(|(first, _)| first.parse::<u64>().ok());
    let inner = namespaces(tx, tenant, execution, "%.%")?;
    for ns in inner.iter().filter(|ns| before(ns).is_some_and(|of| of < superstep)) {
        delete_closed(tx, "ns = ?3", &values![tenant, execution, ns])?;
    }
    let key = values![tenant, execution, superstep];
    delete_closed(tx, "ns = '' AND superstep < ?3", &key)
}

fn delete_closed(tx: &mut Tx<'_>, which: &str, key: &[longhaul_store::Value]) -> Result<u64, StoreError> {
    let rows = format!("WHERE tenant_id = ?1 AND execution_id = ?2 AND {which}");
    tx.execute(
        &format!(
            "DELETE FROM answers WHERE tenant_id = ?1 AND wait_id IN (
                 SELECT wait_id FROM waits {rows} AND status <> 'waiting')"
        ),
        key,
    )?;
    tx.execute(&format!("DELETE FROM waits {rows} AND status <> 'waiting'"), key)?;
    // Of an act of unknown outcome somebody still has to say what happened.
    tx.execute(&format!("DELETE FROM effects {rows} AND receipt_at IS NOT NULL"), key)?;
    for table in ["steps", "tasks_done", "snapshots"] {
        tx.execute(&format!("DELETE FROM {table} {rows}"), key)?;
    }
    tx.execute(&format!("DELETE FROM checkpoints {rows}"), key)
}

impl Pen {
    /// Says by which graph the execution goes on.
    pub(crate) fn adopt(
        &self,
        tx: &mut Tx<'_>,
        graph_version: u32,
        fingerprint: &Digest,
        state_version: u32,
    ) -> Result<(), StoreError> {
        tx.execute(
            "UPDATE executions SET graph_version = ?3, fingerprint = ?4, state_version = ?5
             WHERE tenant_id = ?1 AND execution_id = ?2",
            &values![self.tenant(), self.execution(), graph_version, fingerprint, state_version],
        )
        .map(drop)
    }

    /// Puts a whole state in place of the outermost frame's last row.
    pub(crate) fn replace_last(&self, tx: &mut Tx<'_>, new: checkpoints::NewCheckpoint) -> Result<(), StoreError> {
        for table in ["snapshots", "checkpoints"] {
            tx.execute(
                &format!(
                    "DELETE FROM {table} WHERE tenant_id = ?1 AND execution_id = ?2 AND ns = '' AND superstep >= ?3"
                ),
                &values![self.tenant(), self.execution(), new.superstep],
            )?;
        }
        self.insert_checkpoint(tx, "", new)
    }
}

/// The first superstep of the outermost frame that was committed at this time or later.
pub(crate) fn first_since(
    read: &ReadTx<'_>,
    tenant: &TenantId,
    execution: &ExecutionId,
    since: TimeMs,
) -> Result<Option<u64>, StoreError> {
    read.query_optional(
        "SELECT superstep FROM checkpoints WHERE tenant_id = ?1 AND execution_id = ?2 AND ns = '' AND at >= ?3
         ORDER BY superstep LIMIT 1",
        &values![tenant, execution, since],
        |row| row.get(0),
    )
}

/// The first and the last superstep of the outermost frame.
pub(crate) fn extent(
    read: &ReadTx<'_>,
    tenant: &TenantId,
    execution: &ExecutionId,
) -> Result<Option<(u64, u64)>, StoreError> {
    let found = read.query_optional(
        "SELECT min(superstep), max(superstep) FROM checkpoints
         WHERE tenant_id = ?1 AND execution_id = ?2 AND ns = ''",
        &values![tenant, execution],
        |row| Ok((row.get::<Option<u64>>(0)?, row.get::<Option<u64>>(1)?)),
    )?;
    Ok(found.and_then(|(first, last)| first.zip(last)))
}

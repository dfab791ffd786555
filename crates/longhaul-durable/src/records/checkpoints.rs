//! The rows of checkpoints and snapshots: the log of an execution, one row a superstep of each frame.

use std::collections::BTreeMap;

use longhaul_core::{ExecutionId, TenantId};
use longhaul_store::{ReadTx, Row, StoreError, Tx, values};

use super::{Pen, V, tasks};
use crate::seal::Spot;

/// What the data of a checkpoint is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The whole state.
    Full,
    /// The updates that led to it: an array by task of arrays of updates (in rows of version 1, one bare update).
    Delta,
    /// Nothing: the updates are in the rows of the superstep's tasks.
    Tasks,
    /// Like a delta, but of somebody outside.
    Edited,
    /// Nothing: the state that the frame around it had when it began this one.
    Parent,
}

impl Form {
    const ALL: [(Self, &'static str); 5] = [
        (Self::Full, "full"),
        (Self::Delta, "delta"),
        (Self::Tasks, "tasks"),
        (Self::Edited, "edited"),
        (Self::Parent, "parent"),
    ];

    /// As it is stored.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(form, _)| *form == self).map_or("", |(_, name)| name)
    }

    pub(crate) fn of_column(row: &Row<'_>, column: usize) -> Result<Self, StoreError> {
        let text = row.text(column)?;
        Self::ALL.iter().find(|(_, name)| *name == text).map(|(form, _)| *form).ok_or_else(|| StoreError::Column {
            column,
            expected: "the form of a checkpoint",
            found: text.to_owned(),
        })
    }
}

/// A checkpoint to be written.
#[derive(Debug, Clone)]
pub(crate) struct NewCheckpoint {
    pub(crate) superstep: u64,
    /// The nodes that ran, each once, in order, joined by commas.
    pub(crate) nodes: String,
    /// What comes next, as JSON.
    pub(crate) frontier: String,
    pub(crate) form: Form,
    pub(crate) data: String,
    /// Of this row and all before it.
    pub(crate) chain: [u8; 32],
}

/// A checkpoint with its data, as stored.
#[derive(Debug, Clone)]
pub(crate) struct CheckpointRow {
    pub(crate) superstep: u64,
    pub(crate) v: u32,
    pub(crate) frontier: String,
    pub(crate) form: Form,
    /// The data; for [`Form::Tasks`] the array of the tasks' updates.
    pub(crate) data: String,
    pub(crate) digest: Vec<u8>,
}

/// A state as it was written down whole.
#[derive(Debug, Clone)]
pub(crate) struct Snapshot {
    pub(crate) superstep: u64,
    pub(crate) state: String,
    pub(crate) digest: Vec<u8>,
}

/// What the state of a frame is rebuilt from: the rows from the snapshot's own on, or from the first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Log {
    pub(crate) snapshot: Option<Snapshot>,
    pub(crate) rows: Vec<CheckpointRow>,
}

impl Pen {
    fn spot<'a>(&'a self, column: &'static str, ns: &'a str, superstep: u64) -> Spot<'a> {
        spot(self.tenant(), self.execution(), column, ns, superstep)
    }

    pub(crate) fn insert_checkpoint(&self, tx: &mut Tx<'_>, ns: &str, new: NewCheckpoint) -> Result<(), StoreError> {
        let now = tx.now();
        let NewCheckpoint { superstep, nodes, frontier, form, data, chain } = new;
        let frontier = self.spot("checkpoints.frontier", ns, superstep).seal(tx, frontier)?;
        let data = self.spot("checkpoints.data", ns, superstep).seal(tx, data)?;
        let row = values![
            self.tenant(),
            self.execution(),
            ns,
            superstep,
            V,
            nodes,
            frontier,
            form.as_str(),
            data,
            &chain[..],
            now
        ];
        tx.execute(
            "INSERT INTO checkpoints (tenant_id, execution_id, ns, superstep, v, nodes, frontier, form, data, digest, at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
            &row,
        )
        .map(drop)
    }

    /// Writes a snapshot in place of the frame's older ones, except that with which a pruned history begins.
    pub(crate) fn insert_snapshot(&self, tx: &mut Tx<'_>, ns: &str, new: Snapshot) -> Result<(), StoreError> {
        let Snapshot { superstep, state, digest } = new;
        let state = self.spot("snapshots.state", ns, superstep).seal(tx, state)?;
        tx.execute(
            "DELETE FROM snapshots WHERE tenant_id = ?1 AND execution_id = ?2 AND ns = ?3 AND superstep > (
                 SELECT min(superstep) FROM checkpoints WHERE tenant_id = ?1 AND execution_id = ?2 AND ns = ?3)",
            &values![self.tenant(), self.execution(), ns],
        )?;
        tx.execute(
            "INSERT INTO snapshots (tenant_id, execution_id, ns, superstep, v, state, digest)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            &values![self.tenant(), self.execution(), ns, superstep, V, state, digest],
        )
        .map(drop)
    }
}

/// Where a column of a frame's row stands.
pub(crate) fn spot<'a>(
    tenant: &'a TenantId,
    execution: &'a ExecutionId,
    column: &'static str,
    ns: &'a str,
    superstep: u64,
) -> Spot<'a> {
    Spot { tenant, execution, column, ns, superstep, task: 0, ordinal: 0 }
}

/// The digest of one row, if there is such a row.
pub(crate) fn digest_at(read: &ReadTx<'_>, pen: &Pen, ns: &str, superstep: u64) -> Result<Option<Vec<u8>>, StoreError> {
    read.query_optional(
        "SELECT digest FROM checkpoints WHERE tenant_id = ?1 AND execution_id = ?2 AND ns = ?3 AND superstep = ?4",
        &values![pen.tenant(), pen.execution(), ns, superstep],
        |row| row.get(0),
    )
}

/// The log of a frame up to and including this superstep; with `whole`, from the first row on even if there is a later
/// snapshot.
pub(crate) fn log(
    read: &ReadTx<'_>,
    tenant: &TenantId,
    execution: &ExecutionId,
    ns: &str,
    superstep_max: u64,
    whole: bool,
) -> Result<Log, StoreError> {
    // A pruned history begins with a snapshot.
    let sql = match whole {
        true => {
            "SELECT superstep, state, digest FROM snapshots
             WHERE tenant_id = ?1 AND execution_id = ?2 AND ns = ?3 AND superstep <= ?4 AND superstep = (
                 SELECT min(superstep) FROM checkpoints WHERE tenant_id = ?1 AND execution_id = ?2 AND ns = ?3)"
        }
        false => {
            "SELECT superstep, state, digest FROM snapshots
             WHERE tenant_id = ?1 AND execution_id = ?2 AND ns = ?3 AND superstep <= ?4
             ORDER BY superstep DESC LIMIT 1"
        }
    };
    let spot = |column, superstep| spot(tenant, execution, column, ns, superstep);
    let snapshot = read.query_optional(sql, &values![tenant, execution, ns, superstep_max], |row| {
        let superstep = row.get(0)?;
        let state = spot("snapshots.state", superstep).open(read, row.get(1)?)?;
        Ok(Snapshot { superstep, state, digest: row.get(2)? })
    })?;
    let from = snapshot.as_ref().map_or(0, |snapshot| snapshot.superstep);
    let mut rows = read.query(
        "SELECT superstep, v, frontier, form, data, digest FROM checkpoints
         WHERE tenant_id = ?1 AND execution_id = ?2 AND ns = ?3 AND superstep >= ?4 AND superstep <= ?5
         ORDER BY superstep",
        &values![tenant, execution, ns, from, superstep_max],
        |row| {
            let superstep = row.get(0)?;
            Ok(CheckpointRow {
                superstep,
                v: row.get(1)?,
                frontier: spot("checkpoints.frontier", superstep).open(read, row.get(2)?)?,
                form: Form::of_column(row, 3)?,
                data: spot("checkpoints.data", superstep).open(read, row.get(4)?)?,
                digest: row.get(5)?,
            })
        },
    )?;
    if rows.iter().any(|row| row.form == Form::Tasks) {
        let mut updates = BTreeMap::<u64, Vec<String>>::new();
        for (superstep, text) in tasks::updates(read, tenant, execution, ns, from)? {
            updates.entry(superstep).or_default().push(text);
        }
        for row in rows.iter_mut().filter(|row| row.form == Form::Tasks) {
            row.data = format!("[{}]", updates.remove(&row.superstep).unwrap_or_default().join(","));
        }
    }
    Ok(Log { snapshot, rows })
}

//! What a store holds of the one execution in it, read from its rows.

use std::collections::BTreeSet;

use longhaul_durable::StepId;
use longhaul_store::{Migrations, ReadTx, StoreError};

/// Rows of "another crate", written with a step's result.
pub(super) const ROWS: Migrations = Migrations {
    component: "simulated",
    steps: &["CREATE TABLE simulated (tenant_id TEXT NOT NULL, text TEXT NOT NULL) STRICT"],
};

/// The rows that matter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Records {
    /// `StepId::within` of every recorded step.
    pub(super) steps: BTreeSet<String>,
    /// Whatever else is written for an execution, counted.
    pub(super) others: Vec<u64>,
    /// Rows of `step_tx`.
    pub(super) rows: Vec<String>,
    pub(super) executions: u64,
    /// Kind, name and status of every wait, by its place.
    pub(super) waits: Vec<String>,
    /// Of the attempts to answer, those that were accepted.
    pub(super) accepted: u64,
}

impl Records {
    pub(super) fn read(read: &ReadTx<'_>) -> Result<Self, StoreError> {
        let count = |sql: &str| read.query_one(&format!("SELECT count(*) FROM {sql}"), &[], |row| row.get::<u64>(0));
        let steps =
            read.query("SELECT execution_id, ns, superstep, task, node, ordinal, name FROM steps", &[], |row| {
                let step = StepId {
                    execution: row.get(0)?,
                    ns: row.get(1)?,
                    superstep: row.get(2)?,
                    task: row.get(3)?,
                    node: row.get(4)?,
                    ordinal: row.get(5)?,
                    name: row.get(6)?,
                };
                Ok(step.within())
            })?;
        Ok(Self {
            steps: steps.into_iter().collect(),
            others: ["checkpoints", "tasks_done", "effects", "waits", "snapshots"]
                .map(count)
                .into_iter()
                .collect::<Result<_, _>>()?,
            rows: read.query("SELECT text FROM simulated ORDER BY text", &[], |row| row.get(0))?,
            executions: count("executions")?,
            waits: read.query(
                "SELECT ns || node || '/' || superstep || '.' || task || '/' || ordinal || ' ' || kind || ' ' || name
                     || ' ' || status FROM waits ORDER BY 1",
                &[],
                |row| row.get(0),
            )?,
            accepted: count("answers WHERE outcome = 'accepted'")?,
        })
    }
}

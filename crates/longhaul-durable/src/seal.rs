//! What is sealed of the rows of durable execution, if the store was opened with keys, and for which place.
//!
//! Sealed are states, updates, positions with their inputs, results of steps, what waits ask and are answered,
//! interventions, cached answers, and what stands in the queue. Names, numbers, times, digests, errors and events are
//! not: the digests are those of the open text, so whoever has the files can check a guess of a whole state.

use longhaul_core::{ExecutionId, TenantId};
use longhaul_store::{ReadTx, StoreError};
use serde_json::Value;

/// Where something stands: a column of a table, in a row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spot<'a> {
    pub(crate) tenant: &'a TenantId,
    pub(crate) execution: &'a ExecutionId,
    /// `table.column`.
    pub(crate) column: &'static str,
    pub(crate) ns: &'a str,
    pub(crate) superstep: u64,
    /// Of the task and the step; 0 where there is none.
    pub(crate) task: u32,
    pub(crate) ordinal: u32,
}

impl Spot<'_> {
    fn name(self) -> String {
        let Self { tenant, execution, column, ns, superstep, task, ordinal } = self;
        format!("{tenant}/{execution}/{column}/{ns}@{superstep}.{task}#{ordinal}")
    }

    pub(crate) fn seal(self, read: &ReadTx<'_>, text: String) -> Result<String, StoreError> {
        read.seal(|| self.name(), text)
    }

    pub(crate) fn open(self, read: &ReadTx<'_>, text: String) -> Result<String, StoreError> {
        read.unseal(|| self.name(), text)
    }
}

/// The JSON of a row that has an id of its own, as it may stand there.
pub(crate) fn json(read: &ReadTx<'_>, tenant: &TenantId, row: &str, value: &Value) -> Result<String, StoreError> {
    read.seal(|| format!("{tenant}/{row}"), value.to_string())
}

/// What [`json`] was given.
pub(crate) fn open_json(
    read: &ReadTx<'_>,
    tenant: &TenantId,
    row: &str,
    column: usize,
    text: String,
) -> Result<Value, StoreError> {
    let text = read.unseal(|| format!("{tenant}/{row}"), text)?;
    serde_json::from_str(&text).map_err(|_| StoreError::Column {
        column,
        expected: "JSON",
        found: "something else".into(),
    })
}

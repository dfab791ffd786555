//! The rows of durable execution, one file for each table, and nothing else's.
//!
//! It owns the SQL. Invariant: whatever writes for an execution checks the lease in the same transaction
//! ([`Pen::fenced`]).

use std::sync::Arc;

use longhaul_core::{ExecutionId, TaskScope, TenantId};
use longhaul_store::{LeaseToken, StoreError, Tx, Value, values};

use crate::{queue::Held, seal::Spot};

pub(crate) mod cache;
pub(crate) mod checkpoints;
pub(crate) mod deliveries;
pub(crate) mod effects;
pub(crate) mod executions;
pub(crate) mod family;
pub(crate) mod interventions;
pub(crate) mod steps;
pub(crate) mod tasks;
pub(crate) mod waits;
pub(crate) mod whole;

/// Version of the records this release writes.
pub(crate) const V: u32 = 2;

/// The identity of an execution and the right to write to it. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Pen(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    scope: TaskScope,
    execution: ExecutionId,
    token: LeaseToken,
    /// The entry of the queue from which it was begun.
    entry: Option<Held>,
}

impl Pen {
    pub(crate) fn new(scope: TaskScope, execution: ExecutionId, token: LeaseToken) -> Self {
        Self::of_entry(scope, execution, token, None)
    }

    /// The same for an execution of the queue, whose entry follows what becomes of it.
    pub(crate) fn of_entry(scope: TaskScope, execution: ExecutionId, token: LeaseToken, entry: Option<Held>) -> Self {
        Self(Arc::new(Inner { scope, execution, token, entry }))
    }

    pub(crate) fn entry(&self) -> Option<&Held> {
        self.0.entry.as_ref()
    }

    pub(crate) fn scope(&self) -> &TaskScope {
        &self.0.scope
    }

    pub(crate) fn tenant(&self) -> &TenantId {
        &self.0.scope.scope.tenant
    }

    pub(crate) fn execution(&self) -> &ExecutionId {
        &self.0.execution
    }

    pub(crate) fn token(&self) -> &LeaseToken {
        &self.0.token
    }

    /// Begins a fenced transaction.
    pub(crate) fn fenced(&self, tx: &Tx<'_>) -> Result<(), StoreError> {
        tx.check_lease(&self.0.token)
    }
}

/// Where in an execution a task runs: the key of all that it records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// The frame.
    pub(crate) ns: Arc<str>,
    /// The superstep of the frame.
    pub(crate) superstep: u64,
    /// Number of the task within the superstep.
    pub(crate) task: u32,
    /// The node it runs.
    pub(crate) node: Arc<str>,
}

impl Place {
    /// The key of a row: `?1` tenant, `?2` execution, `?3` namespace, `?4` superstep, `?5` task, `?6` ordinal.
    fn key(&self, pen: &Pen, ordinal: u32) -> [Value; 6] {
        values![pen.tenant(), pen.execution(), &*self.ns, self.superstep, self.task, ordinal]
    }

    /// Where the result of a step of the task stands.
    pub(crate) fn spot<'a>(&'a self, pen: &'a Pen, ordinal: u32) -> Spot<'a> {
        let (tenant, execution) = (pen.tenant(), pen.execution());
        let (superstep, task) = (self.superstep, self.task);
        Spot { tenant, execution, column: "steps.result", ns: &self.ns, superstep, task, ordinal }
    }

    /// The namespace of a frame inside this task: also the prefix of all namespaces within it.
    pub(crate) fn inner(&self) -> Arc<str> {
        format!("{}{}.{}.{}>", self.ns, self.superstep, self.task, self.node).into()
    }
}

//! What belongs to an execution across executions: its children, and theirs.

use longhaul_core::{ExecutionId, TenantId};
use longhaul_store::{ReadTx, StoreError, Tx, values};

use super::{Pen, effects, executions, waits};
use crate::{Execution, PendingEffect, Status, WaitInfo};

/// The execution, what it began as children, and what they began.
pub(crate) fn members(
    read: &ReadTx<'_>,
    tenant: &TenantId,
    execution: &ExecutionId,
) -> Result<Vec<ExecutionId>, StoreError> {
    read.query(
        "WITH RECURSIVE family AS (
             SELECT execution_id FROM executions WHERE tenant_id = ?1 AND execution_id = ?2
             UNION ALL
             SELECT child.execution_id FROM executions child
             JOIN family ON child.parent_execution_id = family.execution_id
             WHERE child.tenant_id = ?1
         )
         SELECT execution_id FROM family",
        &values![tenant, execution],
        |row| row.get(0),
    )
}

/// The open waits of the execution and of all that it began.
pub(crate) fn open_waits(
    read: &ReadTx<'_>,
    tenant: &TenantId,
    execution: &ExecutionId,
) -> Result<Vec<WaitInfo>, StoreError> {
    let mut open = Vec::new();
    for member in members(read, tenant, execution)? {
        open.append(&mut waits::open(read, tenant, &member)?);
    }
    Ok(open)
}

/// The acts of unknown outcome of the execution and of all that it began.
pub(crate) fn pending(
    read: &ReadTx<'_>,
    tenant: &TenantId,
    execution: &ExecutionId,
) -> Result<Vec<PendingEffect>, StoreError> {
    let mut pending = Vec::new();
    for member in members(read, tenant, execution)? {
        pending.append(&mut effects::pending(read, tenant, &member)?);
    }
    Ok(pending)
}

/// The execution at whose thread a run has to begin so that this one goes on: its outermost parent.
pub(crate) fn root(read: &ReadTx<'_>, execution: Execution) -> Result<Execution, StoreError> {
    let mut root = execution;
    while let Some(parent) = root.parent() {
        match executions::of_tenant(read, &root.scope.scope.tenant, &parent)? {
            Some(parent) => root = parent,
            None => break,
        }
    }
    Ok(root)
}

impl Pen {
    /// Ends the open waits of the execution, and in the same way as it is going to end all that it began. Nobody else
    /// is at work on a child: its run is part of its parent's.
    pub(crate) fn end_family(&self, tx: &mut Tx<'_>, status: Status) -> Result<(), StoreError> {
        self.cancel_waits(tx)?;
        for member in members(tx, self.tenant(), self.execution())? {
            let Some(child) = executions::of_tenant(tx, self.tenant(), &member)? else { continue };
            if member == *self.execution() || child.status.is_finished() {
                continue;
            }
            executions::request_cancel(tx, &child, self.execution().as_str(), "its parent has ended")?;
            let pen = Self::new(child.scope, child.id, self.token().clone());
            pen.cancel_waits(tx)?;
            pen.set_status(tx, status, None, &format!("execution.{}", status.as_str()), 0)?;
        }
        Ok(())
    }
}

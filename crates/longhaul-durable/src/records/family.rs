//! What belongs to an execution across executions: its children, and theirs.

use longhaul_core::{ExecutionId, TenantId};
use longhaul_store::{ReadTx, StoreError, Tx, values};

use super::{Pen, effects, executions, waits};
use crate::{Execution, PendingEffect, Status, WaitInfo};

/// The ids of execution `?2` of tenant `?1`, of what it began as children, and of what they began.
const FAMILY: &str = "WITH RECURSIVE family AS (
        SELECT execution_id FROM executions WHERE tenant_id = ?1 AND execution_id = ?2
        UNION ALL
        SELECT child.execution_id FROM executions child JOIN family ON child.parent_execution_id = family.execution_id
        WHERE child.tenant_id = ?1
    )
    SELECT execution_id FROM family";

/// The execution, what it began as children, and what they began.
pub(crate) fn members(
    read: &ReadTx<'_>,
    tenant: &TenantId,
    execution: &ExecutionId,
) -> Result<Vec<ExecutionId>, StoreError> {
    read.query(FAMILY, &values![tenant, execution], |row| row.get(0))
}

/// The open waits of the execution and of all that it began.
pub(crate) fn open_waits(
    read: &ReadTx<'_>,
    tenant: &TenantId,
    execution: &ExecutionId,
) -> Result<Vec<WaitInfo>, StoreError> {
    waits::select(
        read,
        &format!(
            "tenant_id = ?1 AND status = 'waiting' AND execution_id IN ({FAMILY})
             ORDER BY CASE WHEN execution_id = ?2 THEN 0 ELSE 1 END, execution_id, ns, superstep, task, ordinal"
        ),
        &values![tenant, execution],
    )
}

/// The acts of unknown outcome of the execution and of all that it began.
pub(crate) fn pending(
    read: &ReadTx<'_>,
    tenant: &TenantId,
    execution: &ExecutionId,
) -> Result<Vec<PendingEffect>, StoreError> {
    let concerned: Vec<ExecutionId> = read.query(
        &format!(
            "SELECT DISTINCT execution_id FROM effects
             WHERE tenant_id = ?1 AND receipt_at IS NULL AND execution_id IN ({FAMILY})"
        ),
        &values![tenant, execution],
        |row| row.get(0),
    )?;
    let mut pending = Vec::new();
    for member in concerned {
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
        let unfinished = executions::select(
            tx,
            &format!("tenant_id = ?1 AND closed_at IS NULL AND execution_id <> ?2 AND execution_id IN ({FAMILY})"),
            &values![self.tenant(), self.execution()],
        )?;
        for child in unfinished {
            executions::request_cancel(tx, &child, self.execution().as_str(), "its parent has ended")?;
            let pen = Self::new(child.scope, child.id, self.token().clone());
            pen.cancel_waits(tx)?;
            pen.set_status(tx, status, None, &format!("execution.{}", status.as_str()), 0)?;
        }
        Ok(())
    }
}

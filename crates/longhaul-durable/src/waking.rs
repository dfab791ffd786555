//! What is told when an execution can go on, or when there is another deadline to look out for.
//!
//! It owns the two channels, and the list of what can go on. Invariant: whatever ends a wait from outside marks its
//! execution and tells it in the same transaction, so that nothing is lost with whoever should have heard.

use longhaul_core::{ExecutionId, TaskScope, ThreadId};
use longhaul_store::{StoreError, Tx};

use crate::{
    DurableError, Execution, Runtime, queue,
    records::{executions, family},
};

/// Hears that some thread can go on; its payload is the outermost execution of it. It is a hint: ask
/// [`Runtime::ready`]. See [`longhaul_store::Store::listen`].
pub const READY: &str = "durable.ready";

/// Hears that there is another deadline; no payload.
pub(crate) const DUE: &str = "durable.due";

/// A thread on which a run can go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ready {
    /// On whose behalf.
    pub scope: TaskScope,
    /// The thread.
    pub thread: ThreadId,
    /// Its execution.
    pub execution: ExecutionId,
    /// The name of its graph.
    pub graph: String,
}

impl From<Execution> for Ready {
    fn from(execution: Execution) -> Self {
        let Execution { scope, thread, id, graph, .. } = execution;
        Self { scope, thread, execution: id, graph }
    }
}

impl Runtime {
    /// The threads of the store that wait and of which a wait has ended since, those that were woken first in front, at
    /// most `limit`. Each stays in the list until a run goes on with it.
    ///
    /// # Errors
    /// [`DurableError::Store`].
    pub async fn ready(&self, limit: u32) -> Result<Vec<Ready>, DurableError> {
        let read = self.store()?.read(move |read| executions::woken(read, limit));
        let woken: Vec<Execution> = read.await.map_err(|error: StoreError| error)?;
        Ok(woken.into_iter().map(Ready::from).collect())
    }
}

/// Notes and tells that a wait of this execution has ended; gives the execution at whose thread a run goes on.
pub(crate) fn wake(tx: &mut Tx<'_>, execution: Execution) -> Result<Execution, StoreError> {
    let root = family::root(tx, execution)?;
    executions::set_woken(tx, &root)?;
    tx.notify(READY, root.id.as_str())?;
    queue::wake(tx, &root.scope.scope.tenant, &root.thread)?;
    Ok(root)
}

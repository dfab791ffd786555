//! Ending an execution for good, from any process.
//!
//! What it recorded is kept; its open waits end. A run that is under way elsewhere notices the wish within a fraction
//! of a second.

use longhaul_core::{Scope, ThreadId};
use longhaul_store::{LeaseClaim, LeaseError, StoreError, give_back};

use crate::{
    DurableError, Runtime, Status,
    records::{Pen, executions},
};

impl Runtime {
    /// Cancels the thread's unfinished execution; tells whether there was one. When a run is at work on it, that run
    /// ends with [`crate::Outcome::Cancelled`]; otherwise the execution is cancelled at once.
    ///
    /// # Errors
    /// [`DurableError::Store`].
    pub async fn cancel(&self, scope: &Scope, thread: &ThreadId, by: &str, reason: &str) -> Result<bool, DurableError> {
        let store = self.store()?;
        let (of, name, by, reason) = (scope.clone(), thread.clone(), by.to_owned(), reason.to_owned());
        let requested = store.write(move |tx| {
            let newest = executions::newest(tx, &of, &name)?;
            let Some(execution) = newest.filter(|execution| !execution.status.is_finished()) else { return Ok(None) };
            let unfinished = executions::request_cancel(tx, &execution, &by, &reason)?;
            Ok::<_, StoreError>(unfinished.then_some(execution))
        });
        let Some(execution) = requested.await? else { return Ok(false) };
        if self.active.cancel(&execution.id) {
            return Ok(true);
        }
        let claim = match LeaseClaim::lock(store, scope, thread).await {
            Ok(claim) => claim,
            // Whoever holds it finds the wish.
            Err(LeaseError::Held { .. }) => return Ok(true),
            Err(LeaseError::Store(error)) => return Err(error.into()),
        };
        let (ttl, of) = (self.lease_ttl, scope.clone());
        let written = store.write(move |tx| {
            let token = claim.take(tx, ttl)?;
            let now = executions::by_id(tx, &of, &execution.id)?;
            if now.is_some_and(|now| !now.status.is_finished()) {
                let pen = Pen::new(execution.scope, execution.id, token.clone());
                pen.end_family(tx, Status::Cancelled)?;
                pen.set_status(tx, Status::Cancelled, None, "execution.cancelled", 0)?;
            }
            give_back(tx, &token)?;
            Ok::<_, LeaseError>(claim)
        });
        match written.await {
            Ok(claim) => {
                drop(claim);
                Ok(true)
            }
            Err(LeaseError::Held { .. }) => Ok(true),
            Err(LeaseError::Store(error)) => Err(error.into()),
        }
    }
}

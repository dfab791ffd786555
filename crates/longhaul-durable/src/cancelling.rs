//! Ending an execution for good, from any process.
//!
//! What it recorded is kept; its open waits end. A run that is under way elsewhere notices the wish within a fraction
//! of a second.

use std::time::Duration;

use longhaul_core::{Scope, ThreadId};
use longhaul_store::{LeaseClaim, LeaseError, Store, StoreError, give_back};
use tokio::time::Instant;

use crate::{
    DurableError, Execution, Runtime, Status,
    records::{Pen, executions},
};

/// How long to wait for a run that has ended to give its thread back; after that the wish is for the next run.
const ENDING_MAX: Duration = Duration::from_secs(2);

const LOOK_AGAIN: Duration = Duration::from_millis(5);

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
        // Said first, for a run that is at work; one that has made its last commit no longer hears it.
        if self.active.cancel(&execution.id) && execution.status == Status::Running {
            return Ok(true);
        }
        let until = Instant::now() + ENDING_MAX;
        while !self.cancel_at_rest(store, scope, thread, &execution).await? {
            // A run that is at work finds the wish; one that is just giving the thread back does not.
            if execution.status == Status::Running || Instant::now() > until {
                break;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        Ok(true)
    }

    /// Cancels an execution that no run is at work on; tells whether it has come to its end, or somebody has it.
    async fn cancel_at_rest(
        &self,
        store: &Store,
        scope: &Scope,
        thread: &ThreadId,
        execution: &Execution,
    ) -> Result<bool, DurableError> {
        let claim = match LeaseClaim::lock(store, scope, thread).await {
            Ok(claim) => claim,
            Err(LeaseError::Held { .. }) => return Ok(false),
            Err(LeaseError::Store(error)) => return Err(error.into()),
        };
        let (ttl, of, execution) = (self.lease_ttl, scope.clone(), execution.clone());
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
            Err(LeaseError::Held { .. }) => Ok(false),
            Err(LeaseError::Store(error)) => Err(error.into()),
        }
    }
}

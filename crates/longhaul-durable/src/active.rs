//! The runs of a runtime that are under way in this process, so that they can be stopped and cancelled.
//!
//! It owns who is told of a wish to end, also of one that another process has written into the store. Invariant: a run
//! is entered as long as it may write, and no longer.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use longhaul_core::{ExecutionId, TenantId};
use longhaul_store::{ReadTx, Store, StoreError, values};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::DurableError;

/// How often the store is asked whether somebody else wants a run to end.
const ASKED_EVERY: Duration = Duration::from_millis(250);

/// The runs under way. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Active(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    runs: Mutex<HashMap<ExecutionId, Wish>>,
    stopping: CancellationToken,
    ended: Notify,
    /// The tenants whose wishes are asked for.
    watched: Mutex<HashSet<TenantId>>,
}

/// How one run is told to end.
#[derive(Debug, Clone)]
struct Wish {
    cancel: CancellationToken,
    /// The execution is to end, not only this run.
    for_good: Arc<AtomicBool>,
}

/// A run that is under way as long as this lives.
#[derive(Debug)]
pub(crate) struct Entered {
    active: Active,
    execution: ExecutionId,
    wish: Wish,
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.active.runs().remove(&self.execution);
        self.active.0.ended.notify_waiters();
    }
}

impl Entered {
    pub(crate) fn cancel(&self) -> &CancellationToken {
        &self.wish.cancel
    }

    /// Whether the execution itself is to end.
    pub(crate) fn is_for_good(&self) -> bool {
        self.wish.for_good.load(Ordering::SeqCst)
    }
}

impl Active {
    pub(crate) fn check_open(&self) -> Result<(), DurableError> {
        if self.0.stopping.is_cancelled() { Err(DurableError::Draining) } else { Ok(()) }
    }

    /// Enters a run, which ends when `cancel` says so.
    pub(crate) fn enter(&self, execution: ExecutionId, cancel: &CancellationToken) -> Result<Entered, DurableError> {
        let wish = Wish { cancel: cancel.child_token(), for_good: Arc::default() };
        self.runs().insert(execution.clone(), wish.clone());
        let entered = Entered { active: self.clone(), execution, wish };
        // After it has been entered, so that a drain either sees it or is seen here.
        self.check_open()?;
        Ok(entered)
    }

    /// Ends a run of this process because its execution is to end; tells whether there is one.
    pub(crate) fn cancel(&self, execution: &ExecutionId) -> bool {
        let wish = self.runs().get(execution).cloned();
        if let Some(wish) = &wish {
            wish.for_good.store(true, Ordering::SeqCst);
            wish.cancel.cancel();
        }
        wish.is_some()
    }

    pub(crate) fn stopping(&self) -> &CancellationToken {
        &self.0.stopping
    }

    pub(crate) async fn drain(&self) {
        self.0.stopping.cancel();
        loop {
            let ended = self.0.ended.notified();
            if self.runs().is_empty() {
                return;
            }
            ended.await;
        }
    }

    /// Asks the store from time to time, as long as there are runs, whether somebody of the tenant wants one to end.
    pub(crate) fn watch(&self, store: &Store, tenant: &TenantId) {
        if !self.watched().insert(tenant.clone()) {
            return;
        }
        let (shared, store, tenant) = (Arc::downgrade(&self.0), store.clone(), tenant.clone());
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(ASKED_EVERY).await;
                let Some(active) = shared.upgrade().map(Active) else { return };
                if active.runs().is_empty() {
                    active.watched().remove(&tenant);
                    // A run that came in between finds the tenant missing, or is seen here.
                    if active.runs().is_empty() || !active.watched().insert(tenant.clone()) {
                        return;
                    }
                }
                let of = tenant.clone();
                match store.read(move |read| to_be_cancelled(read, &of)).await {
                    Ok(wanted) => wanted.iter().for_each(|execution| {
                        active.cancel(execution);
                    }),
                    // A store that cannot be read is the runs' own trouble, and they tell it.
                    Err(error) => tracing::debug!(%error, "cannot ask for executions to be cancelled"),
                }
            }
        });
    }

    fn watched(&self) -> MutexGuard<'_, HashSet<TenantId>> {
        self.0.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn runs(&self) -> MutexGuard<'_, HashMap<ExecutionId, Wish>> {
        self.0.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn to_be_cancelled(read: &ReadTx<'_>, tenant: &TenantId) -> Result<Vec<ExecutionId>, StoreError> {
    read.query(
        "SELECT execution_id FROM executions
         WHERE tenant_id = ?1 AND cancel_requested_at IS NOT NULL AND closed_at IS NULL",
        &values![tenant],
        |row| row.get(0),
    )
}

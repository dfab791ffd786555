//! Durable timers, and the deadlines of all other waits.
//!
//! It owns when they fire. Invariants: what is due is kept as a moment, so that a clock that jumps moves a timer and
//! neither loses nor doubles it; each deadline ends its wait once, whoever notices; nobody polls.

use std::{future::Future, time::Duration};

use longhaul_core::TimeMs;
use longhaul_store::{Notices, Store, StoreError};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::{
    DurableError, NodeContext, NodeError, Ready, Runtime, Status, Wait, WaitKind,
    records::{executions, waits},
    waking,
};

/// Waits that one transaction ends.
const BATCH: u32 = 500;

/// Longest sleep between two looks at the clock (never at the store), so that one that jumps forward is noticed.
const LOOK_EVERY: Duration = Duration::from_secs(30);

impl NodeContext {
    /// Waits so long, even if the process ends meanwhile: the time counts from the first time the node gets here. A run
    /// that has nothing else to do ends with [`crate::Outcome::Waiting`], unless
    /// [`crate::RunOptions::await_timers`] says that it is to wait.
    ///
    /// # Errors
    /// Those of [`Self::pause_for`].
    pub fn sleep(&self, duration: Duration) -> impl Future<Output = Result<(), NodeError>> + Send {
        let ms = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        self.sleep_until(TimeMs(self.clock_now().0.saturating_add(ms)))
    }

    /// Waits until this moment, which may lie in the past. On replay the moment that was recorded counts.
    ///
    /// # Errors
    /// Those of [`Self::pause_for`].
    pub fn sleep_until(&self, at: TimeMs) -> impl Future<Output = Result<(), NodeError>> + Send {
        let context = self.clone();
        async move {
            if context.journal().is_none() {
                let left = at.0.saturating_sub(context.clock_now().0);
                tokio::time::sleep(Duration::from_millis(u64::try_from(left).unwrap_or(0))).await;
                return Ok(());
            }
            let timer = Wait::new(WaitKind::Timer, "sleep").deadline_at(at);
            context.pause_for::<Value>(timer).await.map(drop)
        }
    }

    fn clock_now(&self) -> TimeMs {
        match self.journal() {
            Some(journal) => journal.store.ambient().clock.now(),
            None => self.0.run.ambient.clock.now(),
        }
    }
}

/// What [`Runtime::fire_due`] has done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fired {
    /// How many waits have ended.
    pub waits: u64,
    /// The threads, each once, that were waiting and can go on.
    pub ready: Vec<Ready>,
    /// The next deadline, if there is one.
    pub next_at: Option<TimeMs>,
}

impl Runtime {
    /// Ends every wait of the store whose deadline has passed at `now`: timers come to their end, others expire. Of
    /// several processes that do this at the same time one ends each wait.
    ///
    /// # Errors
    /// [`DurableError::Store`].
    pub async fn fire_due(&self, now: TimeMs) -> Result<Fired, DurableError> {
        let store = self.store()?;
        let mut fired = Fired::default();
        loop {
            let written = store.write(move |tx| {
                let due = waits::due(tx, now, BATCH)?;
                let (mut ended, mut ready) = (0, Vec::new());
                for (tenant, id) in &due {
                    let Some(wait) = waits::by_id(tx, tenant, id)? else { continue };
                    let Some(execution) = executions::of_tenant(tx, tenant, &wait.execution)? else {
                        // Its execution has been deleted: it must not be due for ever.
                        waits::cancel_one(tx, tenant, id)?;
                        continue;
                    };
                    if !waits::expire_one(tx, &execution.scope, &wait)? {
                        continue;
                    }
                    ended += 1;
                    let root = waking::wake(tx, execution)?;
                    if root.status == Status::Waiting {
                        ready.push(Ready::from(root));
                    }
                }
                let more = due.len() == BATCH as usize;
                Ok::<_, StoreError>((ended, ready, more, waits::next_due(tx)?))
            });
            let (ended, ready, more, next_at) = written.await?;
            fired.waits += ended;
            for ready in ready {
                if !fired.ready.contains(&ready) {
                    fired.ready.push(ready);
                }
            }
            fired.next_at = next_at;
            if !more {
                return Ok(fired);
            }
        }
    }

    /// Waits for deadlines and fires them: for a worker, or for a program of its own.
    ///
    /// # Errors
    /// [`DurableError::KeepsNothing`].
    pub fn deadlines(&self) -> Result<Deadlines, DurableError> {
        let store = self.store()?.clone();
        Ok(Deadlines { notices: store.listen(waking::DUE), runtime: self.clone(), store, looks: 0 })
    }
}

/// The deadlines of a store, as they pass; see [`Runtime::deadlines`].
#[derive(Debug)]
pub struct Deadlines {
    runtime: Runtime,
    store: Store,
    notices: Notices,
    looks: u64,
}

impl Deadlines {
    /// Sleeps until a deadline has passed, and fires all that are due. Nothing is asked of the store meanwhile unless
    /// there is another deadline. Safe to cancel: what was fired by then is found among the threads that can go on.
    ///
    /// # Errors
    /// [`DurableError::Store`].
    pub async fn next(&mut self) -> Result<Fired, DurableError> {
        loop {
            self.looks += 1;
            let next_at = self.store.read(waits::next_due).await.map_err(DurableError::Store)?;
            let now = self.store.ambient().clock.now();
            if next_at.is_some_and(|at| at <= now) {
                let fired = self.runtime.fire_due(now).await?;
                // Somebody else may have been faster.
                if fired.waits > 0 {
                    return Ok(fired);
                }
                continue;
            }
            let due = async {
                match next_at {
                    Some(at) => until(&self.store, at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = due => {}
                notice = self.notices.next() => {
                    if notice.is_none() {
                        // The store has been closed, and says so.
                        self.store.read(waits::next_due).await.map_err(DurableError::Store)?;
                    }
                }
            }
        }
    }

    /// How often the store was asked for the next deadline.
    #[must_use]
    pub fn looks(&self) -> u64 {
        self.looks
    }
}

/// Sleeps until the store's clock has reached this moment.
async fn until(store: &Store, at: TimeMs) {
    loop {
        let left = at.0.saturating_sub(store.ambient().clock.now().0);
        let Some(left) = u64::try_from(left).ok().filter(|left| *left > 0) else { return };
        tokio::time::sleep(Duration::from_millis(left).min(LOOK_EVERY)).await;
    }
}

/// The same for a run, unless it is to end before.
pub(crate) async fn until_or_asked(store: &Store, at: TimeMs, asked: [&CancellationToken; 3]) {
    tokio::select! {
        biased;
        () = asked[0].cancelled() => {}
        () = asked[1].cancelled() => {}
        () = asked[2].cancelled() => {}
        () = until(store, at) => {}
    }
}

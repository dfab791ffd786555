//! Keeping leases alive: one task for all leases of a store.
//!
//! It owns when rows are renewed; what a renewal writes is `lease`'s. Invariants: a lease that is held is renewed after
//! a third of its time; leases that are due at about the same time share one transaction; where nothing is due, nothing
//! is written.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, task::JoinHandle, time::Instant};

use crate::{LeaseToken, Store, StoreError, lease, store::WeakStore};

/// Renews what is registered with it, until the store's last handle is gone.
#[derive(Debug, Default)]
pub(crate) struct Heartbeat(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Something is due earlier than the task expects.
    earlier: Notify,
}

#[derive(Debug, Default)]
struct State {
    held: HashMap<u64, Held>,
    next: u64,
    /// When the task looks again by itself; leases that come and go before that do not wake it.
    wakes_at: Option<Instant>,
    task: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Held {
    token: LeaseToken,
    due: Instant,
}

/// A lease that is being renewed, until this is dropped.
#[derive(Debug)]
pub(crate) struct Beat {
    shared: Arc<Shared>,
    id: u64,
}

impl Drop for Beat {
    fn drop(&mut self) {
        self.shared.state().held.remove(&self.id);
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        if let Some(task) = self.0.state().task.take() {
            task.abort();
        }
    }
}

impl Heartbeat {
    /// Renews the lease from now on. To be called within a tokio runtime, which does the work.
    pub(crate) fn keep(&self, store: &Store, token: LeaseToken) -> Beat {
        let due = Instant::now() + third(token.ttl());
        let mut state = self.0.state();
        let id = state.next;
        state.next += 1;
        state.held.insert(id, Held { token, due });
        // A runtime that has ended took its tasks along.
        if state.task.as_ref().is_none_or(JoinHandle::is_finished) {
            state.wakes_at = state.next_due();
            state.task = Some(tokio::spawn(run(self.0.clone(), store.downgrade())));
        } else if state.wakes_at.is_none_or(|wakes_at| due < wakes_at) {
            state.wakes_at = Some(due);
            self.0.earlier.notify_one();
        }
        Beat { shared: self.0.clone(), id }
    }
}

impl State {
    fn next_due(&self) -> Option<Instant> {
        self.held.values().map(|held| held.due).min()
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is to be renewed now, or would be shortly, each with its next turn planned.
    fn due(&self) -> Vec<(u64, LeaseToken)> {
        let now = Instant::now();
        let mut due = Vec::new();
        let mut state = self.state();
        for (id, held) in &mut state.held {
            if held.due <= now + held.token.ttl() / 12 {
                held.due = now + third(held.token.ttl());
                due.push((*id, held.token.clone()));
            }
        }
        state.wakes_at = state.next_due();
        due
    }
}

fn third(ttl: Duration) -> Duration {
    (ttl / 3).max(Duration::from_millis(10))
}

async fn run(shared: Arc<Shared>, store: WeakStore) {
    loop {
        let wakes_at = shared.state().wakes_at;
        match wakes_at {
            Some(at) => tokio::select! {
                () = tokio::time::sleep_until(at) => {}
                () = shared.earlier.notified() => continue,
            },
            None => {
                shared.earlier.notified().await;
                continue;
            }
        }
        let due = shared.due();
        if due.is_empty() {
            continue;
        }
        let Some(store) = store.upgrade() else { return };
        let renewal = store.write(move |tx| {
            let mut lost = Vec::new();
            for (id, token) in due {
                if !lease::renew(tx, &token)? {
                    lost.push(id);
                }
            }
            Ok::<_, StoreError>(lost)
        });
        match renewal.await {
            // Taken over or given back. The next fenced commit of one that was taken over fails and says so.
            Ok(lost) => {
                let mut state = shared.state();
                for id in lost {
                    state.held.remove(&id);
                }
            }
            Err(error) => tracing::warn!(%error, "leases could not be renewed"),
        }
    }
}

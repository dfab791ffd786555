//! Taking an entry of the queue in order to run it: one transaction that chooses, leases, and reads all that the run
//! needs.
//!
//! It owns which entry is next. Invariants: tenants take turns, and none has more at work than it may; an entry is
//! taken together with its thread's lease, so that a worker that has died gives both back at the same time.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::future::BoxFuture;
use longhaul_core::{ExecutionId, TenantId, TimeMs};
use longhaul_store::{Lease, LeaseClaim, LeaseError, LeaseToken, ReadTx, Store, StoreError, Tx, give_back};
use tokio_util::sync::CancellationToken;

use super::{Entry, EntryId, EntryStatus, Held, rows};
use crate::{DurableError, Outcome, PendingEffect, Runtime, records::executions};

/// Tenants, and entries of one, that are looked at in one transaction.
const LOOKED_AT: u32 = 4;

/// How long an entry is left alone whose thread somebody else is at work on. It may be one that is just giving it back.
const POSTPONED_MS: i64 = 250;

/// What a worker can run.
pub(crate) trait Served: Send + Sync {
    /// Begins the entry's execution, or goes on with it, in this transaction.
    fn begin(
        self: Arc<Self>,
        runtime: &Runtime,
        tx: &mut Tx<'_>,
        token: &LeaseToken,
        entry: &Entry,
        held: Held,
    ) -> Result<Began, DurableError>;
}

/// What came of it.
pub(crate) enum Began {
    /// It is to be run to its end.
    Running { execution: ExecutionId, go: Go },
    /// It was at its end.
    Ended,
    /// A person must first say what happened.
    NeedsReconcile(Vec<PendingEffect>),
}

/// Runs what has begun, until it ends by itself, at the first token's word at once, or at the second's at a boundary.
pub(crate) type Go = Box<
    dyn FnOnce(Runtime, Lease, CancellationToken, CancellationToken) -> BoxFuture<'static, Result<Ended, DurableError>>
        + Send,
>;

/// An outcome without its state.
#[derive(Debug)]
pub(crate) enum Ended {
    Completed,
    Stopped,
    Cancelled,
    Waiting,
    NeedsReconcile(Vec<PendingEffect>),
    Failed,
}

impl<S> From<Outcome<S>> for Ended {
    fn from(outcome: Outcome<S>) -> Self {
        match outcome {
            Outcome::Completed(_) => Self::Completed,
            Outcome::Stopped(_) => Self::Stopped,
            Outcome::Cancelled => Self::Cancelled,
            Outcome::Waiting(_) => Self::Waiting,
            Outcome::NeedsReconcile(pending) => Self::NeedsReconcile(pending),
            Outcome::Failed { .. } => Self::Failed,
        }
    }
}

/// Who takes entries, and which.
pub(crate) struct Claimer {
    pub(crate) runtime: Runtime,
    /// The worker's name.
    pub(crate) worker: String,
    pub(crate) graphs: Vec<String>,
    pub(crate) served: Vec<Arc<dyn Served>>,
    /// Most entries of one tenant at work at once, all workers together.
    pub(crate) tenant_max: u32,
    pub(crate) lease_ttl: Duration,
    /// The entry that is being begun in the open transaction.
    pub(crate) beginning: Mutex<Option<(TenantId, EntryId)>>,
}

/// An entry that was taken.
pub(crate) struct Claimed {
    pub(crate) tenant: TenantId,
    pub(crate) held: Held,
    pub(crate) lease: Lease,
    pub(crate) go: Go,
}

/// What came of an attempt to take one.
pub(crate) enum Claim {
    /// This.
    Taken(Box<Claimed>),
    /// Something was settled without a run: look again.
    Settled,
    /// Nothing is ready.
    Nothing,
}

/// The same before the commit.
enum Choice {
    Taken(Box<Taken>),
    Settled,
    Nothing,
}

/// What is to be seen without taking anything.
#[derive(Debug)]
pub(crate) struct Look {
    /// Something is ready.
    pub(crate) ready: bool,
    /// When something will be.
    pub(crate) next_at: Option<TimeMs>,
    /// What is taken, by whomever.
    pub(crate) claimed: Vec<Entry>,
    /// Graphs of which something is ready that this worker does not serve.
    pub(crate) unserved: Vec<String>,
}

/// An entry that is taken if the commit succeeds.
struct Taken {
    tenant: TenantId,
    held: Held,
    claim: LeaseClaim,
    token: LeaseToken,
    go: Go,
}

impl Claimer {
    /// Looks without writing.
    pub(crate) fn look(&self, read: &ReadTx<'_>) -> Result<Look, StoreError> {
        // One time for both: what became ready in between would be in neither, and slept over.
        let now = read.now();
        Ok(Look {
            ready: !rows::tenants(read, now, &self.graphs, self.tenant_max, 1)?.is_empty(),
            next_at: rows::next_due(read, now, &self.graphs)?,
            claimed: rows::claimed(read, &self.graphs)?,
            unserved: rows::unserved(read, &self.graphs)?,
        })
    }

    /// Takes the next entry.
    pub(crate) async fn next(self: &Arc<Self>, store: &Store) -> Result<Claim, DurableError> {
        let (claimer, of) = (self.clone(), store.clone());
        let written = store.write(move |tx| claimer.choose(tx, &of));
        self.or_park(store, written.await).await
    }

    /// Parks the entry whose rows were the reason why the transaction failed: it would come first again and again, and
    /// nobody else's would be begun.
    async fn or_park(&self, store: &Store, written: Result<Choice, DurableError>) -> Result<Claim, DurableError> {
        let begun = self.beginning().take();
        match (written, begun) {
            (Err(DurableError::Store(error)), Some((tenant, entry))) if is_about_rows(&error) => {
                let why = chain(&error);
                store.write(move |tx| rows::park(tx, &tenant, &entry, &why)).await?;
                Ok(Claim::Settled)
            }
            (written, _) => Ok(written?.hold()),
        }
    }

    fn beginning(&self) -> std::sync::MutexGuard<'_, Option<(TenantId, EntryId)>> {
        self.beginning.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes an entry whose worker has died, if it has.
    pub(crate) async fn take_over(self: &Arc<Self>, store: &Store, entry: &Entry) -> Result<Claim, DurableError> {
        let Some(claim) = LeaseClaim::try_lock(store, &entry.scope.scope.tenant, &entry.thread)? else {
            return Ok(Claim::Nothing);
        };
        // Looked at without writing: a living worker on another host must not cost a transaction each time.
        let reading = store.read(move |read| Ok::<_, StoreError>(claim.is_free(read)?.then_some(claim)));
        let Some(claim) = reading.await? else { return Ok(Claim::Nothing) };
        let (claimer, entry) = (self.clone(), entry.clone());
        let written = store.write(move |tx| {
            let now = rows::by_id(tx, &entry.scope.scope.tenant, &entry.id)?;
            let same = |now: &Entry| now.status == EntryStatus::Claimed && now.worker == entry.worker;
            match now.filter(same) {
                Some(now) => claimer.begin(tx, claim, now),
                None => Ok(Choice::Nothing),
            }
        });
        self.or_park(store, written.await).await
    }

    fn choose(&self, tx: &mut Tx<'_>, store: &Store) -> Result<Choice, DurableError> {
        let mut choice = Choice::Nothing;
        for tenant in rows::tenants(tx, tx.now(), &self.graphs, self.tenant_max, LOOKED_AT)? {
            for entry in rows::ready(tx, &tenant, &self.graphs, LOOKED_AT)? {
                choice = match LeaseClaim::try_lock(store, &tenant, &entry.thread)? {
                    Some(claim) => self.begin(tx, claim, entry)?,
                    None => {
                        rows::postpone(tx, &entry, POSTPONED_MS)?;
                        Choice::Settled
                    }
                };
                if matches!(choice, Choice::Taken(_)) {
                    return Ok(choice);
                }
            }
        }
        Ok(choice)
    }

    fn begin(&self, tx: &mut Tx<'_>, claim: LeaseClaim, entry: Entry) -> Result<Choice, DurableError> {
        let tenant = entry.scope.scope.tenant.clone();
        *self.beginning() = Some((tenant.clone(), entry.id.clone()));
        if let Some(execution) = &entry.execution {
            let known = executions::of_tenant(tx, &tenant, execution)?;
            if known.is_none_or(|known| known.status.is_finished()) {
                // Somebody else has run it to its end.
                rows::finish(tx, &tenant, &entry.id)?;
                return Ok(Choice::Settled);
            }
        }
        if entry.attempts >= entry.attempts_max {
            let error = format!("{} workers have died while at work on it", entry.attempts);
            rows::park(tx, &tenant, &entry.id, entry.error.as_deref().unwrap_or(&error))?;
            return Ok(Choice::Settled);
        }
        let token = match claim.take(tx, self.lease_ttl) {
            Ok(token) => token,
            Err(LeaseError::Held { .. }) => {
                rows::postpone(tx, &entry, POSTPONED_MS)?;
                return Ok(Choice::Settled);
            }
            Err(LeaseError::Store(error)) => return Err(error.into()),
        };
        let Some(served) = self.graphs.iter().position(|name| *name == entry.graph).map(|at| self.served[at].clone())
        else {
            return Ok(Choice::Nothing);
        };
        let held = Held::of(&entry);
        match served.begin(&self.runtime, tx, &token, &entry, held.clone()) {
            Ok(Began::Running { execution, go }) => {
                rows::take(tx, &entry, &held, execution.as_str(), &self.worker)?;
                return Ok(Choice::Taken(Box::new(Taken { tenant, held, claim, token, go })));
            }
            Ok(Began::Ended) => rows::finish(tx, &tenant, &entry.id)?,
            Ok(Began::NeedsReconcile(pending)) => rows::park(tx, &tenant, &entry.id, &unknown(&pending))?,
            Err(DurableError::Store(error)) => return Err(error.into()),
            Err(error) => rows::fail(tx, &tenant, &held, &chain(&error))?,
        }
        give_back(tx, &token)?;
        Ok(Choice::Settled)
    }
}

impl Choice {
    /// After the commit.
    fn hold(self) -> Claim {
        match self {
            Self::Taken(taken) => {
                let Taken { tenant, held, claim, token, go } = *taken;
                Claim::Taken(Box::new(Claimed { tenant, held, lease: claim.hold(token), go }))
            }
            Self::Settled => Claim::Settled,
            Self::Nothing => Claim::Nothing,
        }
    }
}

/// Whether the next attempt must fail for the same reason: what is stored cannot be read, or what follows from it
/// cannot be stored.
fn is_about_rows(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::Column { .. }
            | StoreError::Record { .. }
            | StoreError::Unsealed { .. }
            | StoreError::EventTooLarge { .. }
            | StoreError::NulInText { .. }
            | StoreError::Constraint { .. }
    )
}

/// Why an entry is parked whose execution needs a person.
pub(crate) fn unknown(pending: &[PendingEffect]) -> String {
    let steps: Vec<String> = pending.iter().map(|effect| effect.step.to_string()).collect();
    format!("nobody knows whether {} took place: say what happened, with reconcile", steps.join(", "))
}

/// An error and what lies beneath it, in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text.chars().take(4000).collect()
}

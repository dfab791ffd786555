//! The right to write to a thread: one process at a time, everywhere (invariant 6).
//!
//! It owns the row with a token, which other hosts respect until it expires and which every fenced transaction checks;
//! the lock of this host is in `locks`, the renewal of rows in `heartbeat`. Invariant: of two processes that both
//! believe they hold a thread, only the one with the newest token can commit, whatever their clocks say. On PostgreSQL
//! rows expire by the server's clock, so that hosts whose clocks differ agree.

use std::{fmt, time::Duration};

use longhaul_core::{Scope, TenantId, ThreadId, TimeMs};

use crate::{ReadTx, Row, Store, StoreError, Tx, heartbeat::Beat, locks::ThreadLock, values};

/// Who has a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Its process.
    pub pid: u32,
    /// Its host.
    pub host: String,
    /// Since when.
    pub since: TimeMs,
}

/// `process 4711 on host atlas, for 35 s` needs a clock; this prints the first half.
impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} on host {}", self.pid, self.host)
    }
}

/// Why a thread could not be leased.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LeaseError {
    /// Somebody else is at work on it.
    #[error(
        "{thread} is being worked on by {}: wait until it has ended, or stop it",
        .holder.as_ref().map_or_else(|| "another process".to_owned(), ToString::to_string)
    )]
    Held {
        /// The thread.
        thread: ThreadId,
        /// Who, where known: a holder in its first milliseconds has not written its name yet.
        holder: Option<Holder>,
    },
    /// The store failed.
    #[error("cannot lease the thread")]
    Store(
        #[from]
        #[source]
        StoreError,
    ),
}

/// Proof of a lease, checked inside each transaction that it fences.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseToken {
    tenant: TenantId,
    thread: ThreadId,
    token: i64,
    ttl_ms: i64,
}

impl LeaseToken {
    pub(crate) fn ttl(&self) -> Duration {
        Duration::from_millis(self.ttl_ms.unsigned_abs())
    }
}

/// A thread that nobody else on this host can take, not yet taken from other hosts. Three steps make a [`Lease`] of
/// it: [`Self::lock`] without the database, [`Self::take`] in a transaction that may do more, [`Self::hold`] after its
/// commit. Dropping it frees the thread on this host.
#[derive(Debug)]
pub struct LeaseClaim {
    store: Store,
    tenant: TenantId,
    thread: ThreadId,
    /// Held until this is dropped.
    _lock: ThreadLock,
}

impl LeaseClaim {
    /// Takes the thread's lock on this host. Reads and writes nothing, but for the name of a holder.
    ///
    /// # Errors
    /// [`LeaseError::Held`] when somebody on this host has it; [`LeaseError::Store`].
    pub async fn lock(store: &Store, scope: &Scope, thread: &ThreadId) -> Result<Self, LeaseError> {
        let (tenant, thread) = (scope.tenant.clone(), thread.clone());
        match store.locks().try_lock(&tenant, &thread)? {
            Some(lock) => Ok(Self { store: store.clone(), tenant, thread, _lock: lock }),
            None => {
                let name = thread.clone();
                let row = store.read(move |read| held(read, &tenant, &name)).await?;
                Err(LeaseError::Held { thread, holder: row.map(|row| row.holder) })
            }
        }
    }

    /// The same where nothing can be waited for, as within a transaction: nothing when somebody on this host has it.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn try_lock(store: &Store, tenant: &TenantId, thread: &ThreadId) -> Result<Option<Self>, StoreError> {
        let lock = store.locks().try_lock(tenant, thread)?;
        let (store, tenant, thread) = (store.clone(), tenant.clone(), thread.clone());
        Ok(lock.map(|lock| Self { store, tenant, thread, _lock: lock }))
    }

    /// Whether [`Self::take`] would take it now.
    ///
    /// # Errors
    /// Those of the database.
    pub fn is_free(&self, read: &ReadTx<'_>) -> Result<bool, StoreError> {
        let now = read.shared_now()?;
        let row = held(read, &self.tenant, &self.thread)?;
        Ok(row.is_none_or(|row| row.holder.host == self.store.locks().host() || !row.holds_at(now)))
    }

    /// Takes the thread from other hosts, in this transaction. A host that goes silent loses it after `ttl`. What
    /// another host still holds is respected, what a dead owner on this host left behind is not.
    ///
    /// # Errors
    /// [`LeaseError::Held`] when another host has it; [`LeaseError::Store`].
    pub fn take(&self, tx: &mut Tx<'_>, ttl: Duration) -> Result<LeaseToken, LeaseError> {
        let last = held(tx, &self.tenant, &self.thread)?;
        if let Some(row) = &last
            && row.holder.host != self.store.locks().host()
            && row.holds_at(tx.shared_now()?)
        {
            return Err(LeaseError::Held { thread: self.thread.clone(), holder: Some(row.holder.clone()) });
        }
        Ok(self.write(tx, last, ttl)?)
    }

    /// Takes the thread whoever else may hold it, and refuses that one's writes from then on: for a thread that belongs
    /// to another, whose lease the caller has checked in this transaction.
    ///
    /// # Errors
    /// Those of the database.
    pub fn take_over(&self, tx: &mut Tx<'_>, ttl: Duration) -> Result<LeaseToken, StoreError> {
        let last = held(tx, &self.tenant, &self.thread)?;
        self.write(tx, last, ttl)
    }

    fn write(&self, tx: &mut Tx<'_>, last: Option<LeaseRow>, ttl: Duration) -> Result<LeaseToken, StoreError> {
        let (tenant, thread, now) = (self.tenant.clone(), self.thread.clone(), tx.shared_now()?);
        let host = self.store.locks().host();
        let token = last.map_or(1, |row| row.token + 1);
        let ttl_ms = i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX / 4);
        tx.execute(
            "INSERT INTO leases (tenant_id, thread_id, token, pid, host, since, expires_at, ttl_ms)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
             ON CONFLICT (tenant_id, thread_id) DO UPDATE
             SET token = ?3, pid = ?4, host = ?5, since = ?6, expires_at = ?7, ttl_ms = ?8",
            &values![&tenant, &thread, token, std::process::id(), host, now, now.0.saturating_add(ttl_ms), ttl_ms],
        )?;
        Ok(LeaseToken { tenant, thread, token, ttl_ms })
    }

    /// Makes a lease of it, once the transaction that took `token` has been committed. To be called within a tokio
    /// runtime, which renews the row in the background at a third of its time.
    #[must_use]
    pub fn hold(self, token: LeaseToken) -> Lease {
        let beat = self.store.heartbeat().keep(&self.store, token.clone());
        Lease { _beat: beat, token, claim: self }
    }
}

/// A held thread. Dropping it ends the heartbeat and frees the lock of this host at once; [`Lease::release`], or
/// [`give_back`] before it, also ends the row, so that other hosts need not wait for its end.
#[derive(Debug)]
pub struct Lease {
    // Dropped first: nobody renews what is no longer locked.
    _beat: Beat,
    token: LeaseToken,
    claim: LeaseClaim,
}

impl Lease {
    /// Takes the thread, at once where its last owner on this host has died. The row is renewed in the background, at
    /// a third of `ttl`; a host that goes silent loses the thread after `ttl`.
    ///
    /// # Errors
    /// [`LeaseError::Held`], with the holder; [`LeaseError::Store`].
    pub async fn acquire(store: &Store, scope: &Scope, thread: &ThreadId, ttl: Duration) -> Result<Self, LeaseError> {
        let claim = LeaseClaim::lock(store, scope, thread).await?;
        let taking = store.write(move |tx| {
            let token = claim.take(tx, ttl)?;
            Ok::<_, LeaseError>((claim, token))
        });
        let (claim, token) = taking.await?;
        Ok(claim.hold(token))
    }

    /// What a fenced transaction checks.
    #[must_use]
    pub fn token(&self) -> &LeaseToken {
        &self.token
    }

    /// Gives the thread back everywhere.
    ///
    /// # Errors
    /// Those of the store; this host's lock is free all the same.
    pub async fn release(self) -> Result<(), StoreError> {
        let token = self.token.clone();
        self.claim.store.write(move |tx| give_back(tx, &token)).await
    }
}

impl Tx<'_> {
    /// Refuses to go on when the thread has been taken over. To be called first in each fenced transaction.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`]; those of the database.
    pub fn check_lease(&self, token: &LeaseToken) -> Result<(), StoreError> {
        let current = self.query_optional(
            "SELECT token FROM leases WHERE tenant_id = ?1 AND thread_id = ?2",
            &values![&token.tenant, &token.thread],
            |row| row.get::<i64>(0),
        )?;
        if current == Some(token.token) { Ok(()) } else { Err(StoreError::LeaseLost { thread: token.thread.clone() }) }
    }
}

/// Ends the row in this transaction, if the lease is still ours; the [`Lease`] is to be dropped after the commit.
///
/// # Errors
/// Those of the database.
pub fn give_back(tx: &mut Tx<'_>, token: &LeaseToken) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE leases SET expires_at = 0 WHERE tenant_id = ?1 AND thread_id = ?2 AND token = ?3",
        &values![&token.tenant, &token.thread, token.token],
    )
    .map(drop)
}

/// Moves the row's end, and tells whether the lease is still ours and not given back.
pub(crate) fn renew(tx: &mut Tx<'_>, token: &LeaseToken) -> Result<bool, StoreError> {
    let until = tx.shared_now()?.0.saturating_add(token.ttl_ms);
    let changed = tx.execute(
        "UPDATE leases SET expires_at = ?4 WHERE tenant_id = ?1 AND thread_id = ?2 AND token = ?3 AND expires_at > 0",
        &values![&token.tenant, &token.thread, token.token, until],
    )?;
    Ok(changed == 1)
}

/// Who holds the thread now, if the row says that somebody does. A dead owner on this host is still named.
///
/// # Errors
/// Those of the database.
pub fn lease_holder(read: &ReadTx<'_>, scope: &Scope, thread: &ThreadId) -> Result<Option<Holder>, StoreError> {
    let now = read.shared_now()?;
    Ok(held(read, &scope.tenant, thread)?.filter(|row| row.holds_at(now)).map(|row| row.holder))
}

struct LeaseRow {
    token: i64,
    holder: Holder,
    expires_at: TimeMs,
    ttl_ms: i64,
}

impl LeaseRow {
    /// Whether the row's end lies ahead, and not further than its holder would ever have moved it: a clock that has
    /// been put back must not make a dead owner look alive for ever. Twice the time allows for clocks that differ.
    fn holds_at(&self, now: TimeMs) -> bool {
        let left = self.expires_at.0.saturating_sub(now.0);
        left > 0 && left <= self.ttl_ms.saturating_mul(2)
    }
}

fn held(read: &ReadTx<'_>, tenant: &TenantId, thread: &ThreadId) -> Result<Option<LeaseRow>, StoreError> {
    read.query_optional(
        "SELECT token, pid, host, since, expires_at, ttl_ms FROM leases WHERE tenant_id = ?1 AND thread_id = ?2",
        &values![tenant, thread],
        |row: &Row<'_>| {
            Ok(LeaseRow {
                token: row.get(0)?,
                holder: Holder { pid: row.get(1)?, host: row.get(2)?, since: row.get(3)? },
                expires_at: row.get(4)?,
                ttl_ms: row.get(5)?,
            })
        },
    )
}

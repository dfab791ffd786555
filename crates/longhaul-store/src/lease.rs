//! The right to write to a thread: one process at a time, everywhere (invariant 6).
//!
//! It owns the two halves of a lease: a lock of the operating system on this host, which dies with its process, and a
//! row with a token, which other hosts respect until it expires and which every fenced transaction checks.
//! Invariant: of two processes that both believe they hold a thread, only the one with the newest token can commit.

use std::{fmt, fs::File, io::ErrorKind, time::Duration};

use longhaul_core::{Digest, Scope, TenantId, ThreadId, TimeMs};
use rustix::fs::{FlockOperation, flock};
use tokio::task::JoinHandle;

use crate::{ReadTx, Row, Store, StoreError, Tx, blobs::off_the_runtime, error::from_io, store::private_file, values};

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
}

/// A held thread. Dropping it ends the heartbeat and frees the lock of this host at once; [`Lease::release`] also
/// ends the row, so that other hosts need not wait for its end.
#[derive(Debug)]
pub struct Lease {
    store: Store,
    token: LeaseToken,
    /// The operating system's lock lives as long as this file is open.
    lock: File,
    heartbeat: JoinHandle<()>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.heartbeat.abort();
        // Closing the file is not enough: a child process between its fork and its exec still has it open.
        let _ = flock(&self.lock, FlockOperation::Unlock);
    }
}

impl Lease {
    /// Takes the thread, at once where its last owner on this host has died. The row is renewed in the background, at
    /// a third of `ttl`; a host that goes silent loses the thread after `ttl`.
    ///
    /// # Errors
    /// [`LeaseError::Held`], with the holder; [`LeaseError::Store`].
    pub async fn acquire(store: &Store, scope: &Scope, thread: &ThreadId, ttl: Duration) -> Result<Self, LeaseError> {
        let path = lock_path(store, &scope.tenant, thread);
        let lock = off_the_runtime(move || {
            let file = private_file(&path)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(std::io::Error::from) {
                Ok(()) => Ok(Some(file)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
                Err(error) => Err(from_io(&path, error)),
            }
        })
        .await?;
        let Some(lock) = lock else {
            let (tenant, name) = (scope.tenant.clone(), thread.clone());
            let held = store.read(move |read| held(read, &tenant, &name)).await?;
            let holder = held.map(|row| row.holder);
            return Err(LeaseError::Held { thread: thread.clone(), holder });
        };
        let ttl_ms = i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX / 2);
        let me = Holder { pid: std::process::id(), host: host_name(), since: store.ambient().clock.now() };
        let (tenant, name) = (scope.tenant.clone(), thread.clone());
        let token = store.write(move |tx| take(tx, tenant, name, &me, ttl_ms)).await?;
        let heartbeat = tokio::spawn(renew(store.clone(), token.clone(), ttl, ttl_ms));
        Ok(Self { store: store.clone(), token, lock, heartbeat })
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
        self.store.write(move |tx| extend(tx, &token, TimeMs(0)).map(drop)).await
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

/// Who holds the thread now, if the row says that somebody does. A dead owner on this host is still named.
///
/// # Errors
/// Those of the database.
pub fn lease_holder(read: &ReadTx<'_>, scope: &Scope, thread: &ThreadId) -> Result<Option<Holder>, StoreError> {
    let now = read.now();
    Ok(held(read, &scope.tenant, thread)?.filter(|row| row.expires_at > now).map(|row| row.holder))
}

struct LeaseRow {
    token: i64,
    holder: Holder,
    expires_at: TimeMs,
}

fn held(read: &ReadTx<'_>, tenant: &TenantId, thread: &ThreadId) -> Result<Option<LeaseRow>, StoreError> {
    read.query_optional(
        "SELECT token, pid, host, since, expires_at FROM leases WHERE tenant_id = ?1 AND thread_id = ?2",
        &values![tenant, thread],
        |row: &Row<'_>| {
            Ok(LeaseRow {
                token: row.get(0)?,
                holder: Holder { pid: row.get(1)?, host: row.get(2)?, since: row.get(3)? },
                expires_at: row.get(4)?,
            })
        },
    )
}

/// Writes the row under the lock of this host: what another host still holds is respected, the dead of this one not.
fn take(
    tx: &mut Tx<'_>,
    tenant: TenantId,
    thread: ThreadId,
    me: &Holder,
    ttl_ms: i64,
) -> Result<LeaseToken, LeaseError> {
    let last = held(tx, &tenant, &thread)?;
    if let Some(row) = &last
        && row.holder.host != me.host
        && row.expires_at > me.since
    {
        return Err(LeaseError::Held { thread, holder: Some(row.holder.clone()) });
    }
    let token = last.map_or(1, |row| row.token + 1);
    tx.execute(
        "INSERT INTO leases (tenant_id, thread_id, token, pid, host, since, expires_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
         ON CONFLICT (tenant_id, thread_id) DO UPDATE
         SET token = ?3, pid = ?4, host = ?5, since = ?6, expires_at = ?7",
        &values![&tenant, &thread, token, me.pid, &me.host, me.since, me.since.0.saturating_add(ttl_ms)],
    )?;
    Ok(LeaseToken { tenant, thread, token })
}

/// Moves the row's end, if the lease is still ours.
fn extend(tx: &mut Tx<'_>, token: &LeaseToken, until: TimeMs) -> Result<bool, StoreError> {
    let changed = tx.execute(
        "UPDATE leases SET expires_at = ?4 WHERE tenant_id = ?1 AND thread_id = ?2 AND token = ?3",
        &values![&token.tenant, &token.thread, token.token, until],
    )?;
    Ok(changed == 1)
}

async fn renew(store: Store, token: LeaseToken, ttl: Duration, ttl_ms: i64) {
    let mut beat = tokio::time::interval((ttl / 3).max(Duration::from_millis(10)));
    beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    beat.tick().await;
    loop {
        beat.tick().await;
        let renewed = token.clone();
        let outcome = store
            .write(move |tx| {
                let until = TimeMs(tx.now().0.saturating_add(ttl_ms));
                extend(tx, &renewed, until)
            })
            .await;
        match outcome {
            Ok(true) => {}
            // Taken over. The next fenced commit fails and says so.
            Ok(false) => break,
            Err(error) => tracing::warn!(%error, thread = %token.thread, "a lease could not be renewed"),
        }
    }
}

/// The name is a digest, for a thread's name may hold what a file's name may not.
fn lock_path(store: &Store, tenant: &TenantId, thread: &ThreadId) -> std::path::PathBuf {
    let digest = Digest::of_parts([tenant.as_str().as_bytes(), thread.as_str().as_bytes()]);
    store.dir().join("locks").join(format!("{}.lock", digest.hex()))
}

fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").map_or_else(|_| "unknown".to_owned(), |s| s.trim().to_owned())
}

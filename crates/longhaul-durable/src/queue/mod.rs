//! The queue of executions that workers run, in the store.
//!
//! It owns what may be put in, looked at, put back and taken out; the rows are in `rows`, taking an entry to run it in
//! `claim`, the loop around that in `worker`. Invariants: a thread has one entry at most; an entry changes in the same
//! transaction as the execution it stands for.

use std::{fmt, str::FromStr};

use longhaul_core::{ExecutionId, Scope, TaskScope, ThreadId, TimeMs};
use longhaul_store::{StoreError, Tx};
use serde::{Deserialize, Serialize};

use crate::{DurableError, Runtime};

pub(crate) mod claim;
mod rows;

pub(crate) use rows::{Held, TABLES, follow, initial, note_failure, park, wake};

/// Hears that something in the queue may be ready; no payload. See [`longhaul_store::Store::listen`].
pub const QUEUED: &str = "durable.queued";

/// Most entries that one tenant may have in the queue unless stated otherwise.
pub const QUEUE_MAX: u32 = 10_000;

/// The name of one entry of the queue: `entry_` and letters, digits or hyphens.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct EntryId(String);

/// A text that is not the id of an entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the id of an entry: expected `entry_` and 1 to 64 letters, digits or hyphens")]
pub struct EntryIdError(String);

impl EntryId {
    /// The printed form.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn from_body(body: &str) -> Self {
        Self(format!("entry_{body}"))
    }
}

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for EntryId {
    type Err = EntryIdError;
    fn from_str(text: &str) -> Result<Self, EntryIdError> {
        let fits =
            |body: &str| (1..=64).contains(&body.len()) && body.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        match text.strip_prefix("entry_") {
            Some(body) if fits(body) => Ok(Self(text.to_owned())),
            Some(_) | None => Err(EntryIdError(text.chars().take(80).collect())),
        }
    }
}

impl TryFrom<String> for EntryId {
    type Error = EntryIdError;
    fn try_from(text: String) -> Result<Self, EntryIdError> {
        text.parse()
    }
}

impl From<EntryId> for String {
    fn from(id: EntryId) -> String {
        id.0
    }
}

/// How an execution is to be run.
#[derive(Debug, Clone)]
pub struct Enqueue {
    /// Of one tenant's entries those of higher priority go first. Between tenants priority does not count.
    pub priority: i32,
    /// When it may begin; at once if nothing is said.
    pub ready_at: Option<TimeMs>,
    /// A key under which the tenant enqueues once: who comes again with it gets the first entry's id, also after that
    /// is done.
    pub dedupe_key: Option<String>,
    /// How often it may fail, or take its worker along, until it is parked.
    pub attempts_max: u32,
    /// Pause after the first failure; it doubles with each, up to five minutes.
    pub retry_ms: u64,
}

impl Default for Enqueue {
    fn default() -> Self {
        Self { priority: 0, ready_at: None, dedupe_key: None, attempts_max: 5, retry_ms: 1_000 }
    }
}

/// What became of a wish to enqueue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Enqueued {
    /// There is a new entry.
    New(EntryId),
    /// There was an entry of this key before; nothing was changed.
    Repeated(EntryId),
}

impl Enqueued {
    /// The entry.
    #[must_use]
    pub fn id(&self) -> &EntryId {
        let (Self::New(id) | Self::Repeated(id)) = self;
        id
    }
}

/// How an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryStatus {
    /// It will be run as soon as it is ready and a worker has room.
    Queued,
    /// Its execution waits for an answer, a deadline or a timer, and is run again then.
    Waiting,
    /// A worker is at work on it, or was when its process died.
    Claimed,
    /// It has failed too often, or needs a person: see its error, then [`Runtime::retry`].
    Parked,
    /// Its execution is finished. Only entries with a key are kept so.
    Done,
}

impl EntryStatus {
    const ALL: [(Self, &'static str); 5] = [
        (Self::Queued, "queued"),
        (Self::Waiting, "waiting"),
        (Self::Claimed, "claimed"),
        (Self::Parked, "parked"),
        (Self::Done, "done"),
    ];

    /// As it is stored and printed.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(status, _)| *status == self).map_or("", |(_, name)| name)
    }

    fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, name)| *name == text).map(|(status, _)| *status)
    }
}

/// One entry of the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Identity.
    pub id: EntryId,
    /// On whose behalf.
    pub scope: TaskScope,
    /// The thread.
    pub thread: ThreadId,
    /// The name of the graph.
    pub graph: String,
    /// How it is.
    pub status: EntryStatus,
    /// As given to [`Enqueue::priority`].
    pub priority: i32,
    /// When it may be run; of no meaning while it waits.
    pub ready_at: TimeMs,
    /// How often it was taken since it last came further.
    pub attempts: u32,
    /// [`Enqueue::attempts_max`].
    pub attempts_max: u32,
    /// [`Enqueue::retry_ms`].
    pub retry_ms: u64,
    /// Why it last failed.
    pub error: Option<String>,
    /// Its execution, once it has begun.
    pub execution: Option<ExecutionId>,
    /// The worker that is, or was, at work on it: `host/process/number`.
    pub worker: Option<String>,
    /// When it was enqueued.
    pub created_at: TimeMs,
    /// When it last changed.
    pub updated_at: TimeMs,
}

/// Which entries to list.
#[derive(Debug, Clone)]
pub struct EntryFilter {
    /// Only those that are so.
    pub status: Option<EntryStatus>,
    /// Only those of this graph.
    pub graph: Option<String>,
    /// Only those after this one, for the next page.
    pub after: Option<EntryId>,
    /// At most so many.
    pub limit: u32,
}

impl Default for EntryFilter {
    fn default() -> Self {
        Self { status: None, graph: None, after: None, limit: 100 }
    }
}

impl Runtime {
    /// Puts an execution into the queue: of the graph of this name, on this thread, with this state if the thread has
    /// no unfinished execution. A [`crate::Worker`] that serves the graph runs it, in whatever process.
    ///
    /// # Errors
    /// [`DurableError::QueueFull`], [`DurableError::ThreadQueued`], [`DurableError::State`], [`DurableError::Store`].
    pub async fn enqueue(
        &self,
        scope: &TaskScope,
        graph: &str,
        thread: &ThreadId,
        initial: &(impl Serialize + Sync),
        how: Enqueue,
    ) -> Result<Enqueued, DurableError> {
        let initial = serde_json::to_string(initial).map_err(std::sync::Arc::new)?;
        let (scope, graph, thread, entries_max) = (scope.clone(), graph.to_owned(), thread.clone(), self.queue_max);
        let new = rows::New { scope, graph, thread, initial, how };
        self.store()?.write(move |tx| rows::insert(tx, new, entries_max)).await
    }

    /// The same in a transaction of the caller's, so that other rows and the entry are there together or not at all.
    ///
    /// # Errors
    /// Those of [`Self::enqueue`].
    pub fn enqueue_in(
        &self,
        tx: &mut Tx<'_>,
        scope: &TaskScope,
        graph: &str,
        thread: &ThreadId,
        initial: &impl Serialize,
        how: Enqueue,
    ) -> Result<Enqueued, DurableError> {
        let initial = serde_json::to_string(initial).map_err(std::sync::Arc::new)?;
        let (scope, graph, thread) = (scope.clone(), graph.to_owned(), thread.clone());
        rows::insert(tx, rows::New { scope, graph, thread, initial, how }, self.queue_max)
    }

    /// The user's entries, oldest first. Those whose graph no worker serves stay `queued`.
    ///
    /// # Errors
    /// [`DurableError::Store`].
    pub async fn queue(&self, scope: &Scope, filter: EntryFilter) -> Result<Vec<Entry>, DurableError> {
        let scope = scope.clone();
        Ok(self.store()?.read(move |read| rows::list(read, &scope, &filter)).await.map_err(|e: StoreError| e)?)
    }

    /// One entry.
    ///
    /// # Errors
    /// [`DurableError::NoEntry`], [`DurableError::Store`].
    pub async fn entry(&self, scope: &Scope, entry: &EntryId) -> Result<Entry, DurableError> {
        let (of, id) = (scope.clone(), entry.clone());
        let found = self.store()?.read(move |read| rows::of_user(read, &of, &id)).await;
        found.map_err(|e: StoreError| e)?.ok_or_else(|| DurableError::NoEntry { entry: entry.clone() })
    }

    /// Puts a parked entry back, with all its attempts.
    ///
    /// # Errors
    /// [`DurableError::NoEntry`], [`DurableError::EntryStatus`] when it is not parked, [`DurableError::Store`].
    pub async fn retry(&self, scope: &Scope, entry: &EntryId) -> Result<(), DurableError> {
        let (scope, id) = (scope.clone(), entry.clone());
        self.store()?.write(move |tx| put_back(tx, &scope, &id)).await
    }

    /// The same in a transaction of the caller's.
    ///
    /// # Errors
    /// Those of [`Self::retry`].
    pub fn retry_in(&self, tx: &mut Tx<'_>, scope: &Scope, entry: &EntryId) -> Result<(), DurableError> {
        put_back(tx, scope, entry)
    }

    /// Takes out an entry that was never begun. What was begun is ended with [`Self::cancel`].
    ///
    /// # Errors
    /// [`DurableError::NoEntry`], [`DurableError::EntryStatus`] when it was begun, [`DurableError::Store`].
    pub async fn withdraw(&self, scope: &Scope, entry: &EntryId) -> Result<(), DurableError> {
        let (scope, id) = (scope.clone(), entry.clone());
        self.store()?.write(move |tx| take_out(tx, &scope, &id)).await
    }

    /// The same in a transaction of the caller's.
    ///
    /// # Errors
    /// Those of [`Self::withdraw`].
    pub fn withdraw_in(&self, tx: &mut Tx<'_>, scope: &Scope, entry: &EntryId) -> Result<(), DurableError> {
        take_out(tx, scope, entry)
    }
}

fn put_back(tx: &mut Tx<'_>, scope: &Scope, entry: &EntryId) -> Result<(), DurableError> {
    let known = rows::of_user(tx, scope, entry)?.ok_or_else(|| DurableError::NoEntry { entry: entry.clone() })?;
    if known.status != EntryStatus::Parked {
        return Err(DurableError::EntryStatus { entry: entry.clone(), status: known.status });
    }
    Ok(rows::unpark(tx, &scope.tenant, entry)?)
}

fn take_out(tx: &mut Tx<'_>, scope: &Scope, entry: &EntryId) -> Result<(), DurableError> {
    let known = rows::of_user(tx, scope, entry)?.ok_or_else(|| DurableError::NoEntry { entry: entry.clone() })?;
    let free = matches!(known.status, EntryStatus::Queued | EntryStatus::Parked);
    if !free || known.execution.is_some() {
        return Err(DurableError::EntryStatus { entry: entry.clone(), status: known.status });
    }
    Ok(rows::finish(tx, &scope.tenant, entry)?)
}

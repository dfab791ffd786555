//! The one writer: whoever holds its seat commits, alone or for a whole group.
//!
//! It owns the write connection and the order of commits, not what is written. A transaction that is the only one in
//! flight is committed by its caller's own thread, which saves two changes of threads; as soon as there are several,
//! they wait in a queue and the writer's thread commits whatever waits as one group. Invariants: a caller hears of
//! success only after the commit that holds its rows has reached the disk; a closure that fails or panics undoes its
//! own part and nobody else's; events are published after their commit, in the order of their numbers.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, TryLockError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use rusqlite::Connection;
use tokio::sync::mpsc;

use crate::{
    Faults, StoreError, Tx,
    error::from_sqlite,
    notices::Outlet,
    tx::{Context, Link, ReadTx},
};

/// Most transactions of one commit.
const GROUP_MAX: usize = 256;

/// A disk whose last commit took longer than this is not waited for on a caller's thread.
const FAST_COMMIT: Duration = Duration::from_millis(5);

/// How often to look whether another process's transaction has ended. The database's own waiting gets ever slower,
/// and a process that writes all the time would then keep others out for seconds.
const POLL: Duration = Duration::from_millis(1);

/// Tells the caller how its transaction ended.
pub(crate) type Reply = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

/// What a job wants done with its part of the group.
pub(crate) enum Part {
    /// Commit it, then tell.
    Keep(Reply),
    /// Undo it, then tell: the caller gets its own error, whatever becomes of the group.
    Undo(Reply),
    /// It never ran, and the caller has been told why.
    Refused,
}

/// One caller's transaction; it is given the group's error instead when the group has already failed.
pub(crate) type Job = Box<dyn FnOnce(Result<&mut Tx<'_>, StoreError>) -> Part + Send>;

/// A transaction in flight: from the moment its caller wants it until it has ended.
pub(crate) struct InFlight(Arc<AtomicUsize>);

impl InFlight {
    /// No other transaction is in flight.
    pub(crate) fn is_alone(&self) -> bool {
        self.0.load(Ordering::Acquire) == 1
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The write connection, and what its commits need.
pub(crate) struct Writer {
    /// Whoever holds it may begin a transaction; nobody lets go of it with one open.
    seat: Mutex<Connection>,
    context: Arc<Context>,
    /// For committed events and notices; used while the seat is held, so that they keep their order.
    outlet: Outlet,
    /// How long to wait for another process's transaction.
    patience: Duration,
    faults: Option<Faults>,
    in_flight: Arc<AtomicUsize>,
    /// The last commit took longer than [`FAST_COMMIT`].
    slow: AtomicBool,
}

impl Writer {
    /// `connection` must not wait for locks by itself.
    pub(crate) fn new(
        connection: Connection,
        context: Arc<Context>,
        outlet: Outlet,
        patience: Duration,
        faults: Option<Faults>,
    ) -> Self {
        Self {
            seat: Mutex::new(connection),
            context,
            outlet,
            patience,
            faults,
            in_flight: Arc::new(AtomicUsize::new(0)),
            slow: AtomicBool::new(false),
        }
    }

    /// Announces a transaction, so that others know that they are not alone.
    pub(crate) fn announce(&self) -> InFlight {
        self.in_flight.fetch_add(1, Ordering::AcqRel);
        InFlight(self.in_flight.clone())
    }

    /// Whether the last commit was slow enough to be worth a change of threads.
    pub(crate) fn is_slow(&self) -> bool {
        self.slow.load(Ordering::Relaxed)
    }

    /// The seat, as soon as it is free. A panic in a transaction's code never leaves one open: see [`job`].
    pub(crate) fn seat(&self) -> MutexGuard<'_, Connection> {
        self.seat.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The seat, if it is free.
    pub(crate) fn try_seat(&self) -> Option<MutexGuard<'_, Connection>> {
        match self.seat.try_lock() {
            Ok(connection) => Some(connection),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Commits what is queued, group by group, until the last handle of the store is gone.
    pub(crate) fn run(&self, queue: &mut mpsc::Receiver<Job>) {
        while let Some(first) = queue.blocking_recv() {
            let connection = self.seat();
            let begun = self.begin_patiently(&connection);
            let mut group = vec![first];
            while group.len() < GROUP_MAX {
                match queue.try_recv() {
                    Ok(job) => group.push(job),
                    Err(_) => break,
                }
            }
            match begun {
                Ok(()) => self.commit(&connection, group),
                Err(error) => group.into_iter().for_each(|job| drop(job(Err(error.clone())))),
            }
        }
    }

    /// Commits one job on this thread, once the seat is free.
    pub(crate) fn commit_here(&self, job: Job) {
        let connection = self.seat();
        match self.begin(&connection) {
            Ok(()) => self.commit_one(&connection, job),
            Err(error) => drop(job(Err(error))),
        }
    }

    /// Commits one job on this thread if that needs no waiting for anybody; otherwise gives it back.
    pub(crate) fn try_commit_here(&self, job: Job) -> Option<Job> {
        let Some(connection) = self.try_seat() else { return Some(job) };
        match self.begin(&connection) {
            Ok(()) => self.commit_one(&connection, job),
            // Another process is at it.
            Err(StoreError::Locked { .. }) => return Some(job),
            Err(error) => drop(job(Err(error))),
        }
        None
    }

    /// Begins as soon as no other process has a transaction open.
    fn begin_patiently(&self, connection: &Connection) -> Result<(), StoreError> {
        let begun = Instant::now();
        loop {
            match self.begin(connection) {
                // Nothing tells when another process has ended.
                Err(StoreError::Locked { .. }) if begun.elapsed() < self.patience => std::thread::park_timeout(POLL),
                outcome => return outcome,
            }
        }
    }

    fn begin(&self, connection: &Connection) -> Result<(), StoreError> {
        if let Some(faults) = &self.faults {
            faults.check_alive(&self.context.path)?;
        }
        statement(connection, &self.context.path, "BEGIN IMMEDIATE")
    }

    fn tx<'a>(&'a self, connection: &'a Connection) -> Tx<'a> {
        Tx::new(ReadTx { link: Link::Sqlite(connection), context: &self.context, may_change: true })
    }

    /// Ends a transaction that has begun and holds this job only.
    fn commit_one(&self, connection: &Connection, job: Job) {
        let mut tx = self.tx(connection);
        match job(Ok(&mut tx)) {
            Part::Keep(reply) => {
                let lost = lost(connection, &mut tx);
                reply(self.end(connection, lost, tx));
            }
            Part::Undo(reply) => {
                self.roll_back(connection);
                reply(Ok(()));
            }
            Part::Refused => self.roll_back(connection),
        }
    }

    /// Ends a transaction that has begun and holds these jobs.
    fn commit(&self, connection: &Connection, mut group: Vec<Job>) {
        if group.len() == 1
            && let Some(only) = group.pop()
        {
            return self.commit_one(connection, only);
        }
        let mut tx = self.tx(connection);
        let mut kept = Vec::with_capacity(group.len());
        let mut failed = None;
        for job in group {
            match &failed {
                Some(error) => drop(job(Err(StoreError::clone(error)))),
                None => failed = attempt(connection, &mut tx, job, &mut kept).err(),
            }
        }
        let outcome = self.end(connection, failed, tx);
        kept.into_iter().for_each(|reply| reply(outcome.clone()));
    }

    /// Commits what is open, unless it has failed, and publishes its events; undoes what cannot be committed.
    fn end(&self, connection: &Connection, failed: Option<StoreError>, tx: Tx<'_>) -> Result<(), StoreError> {
        let path = &self.context.path;
        let commit = || {
            let begun = Instant::now();
            let outcome = statement(connection, path, "COMMIT");
            self.slow.store(begun.elapsed() > FAST_COMMIT, Ordering::Relaxed);
            outcome
        };
        let outcome = match (failed, &self.faults) {
            (Some(error), _) => Err(error),
            (None, Some(faults)) => faults.commit(path, commit),
            (None, None) => commit(),
        };
        match &outcome {
            // An error only means that nobody listens.
            Ok(()) => {
                tx.appended.into_iter().for_each(|event| drop(self.outlet.events.send(event)));
                tx.noticed.into_iter().for_each(|signal| self.outlet.notices.send(signal));
            }
            Err(_) => self.roll_back(connection),
        }
        outcome
    }

    /// Undoes what is open, if anything is. The first error is the one worth telling, so one of this is not.
    fn roll_back(&self, connection: &Connection) {
        if !connection.is_autocommit() {
            let _ = statement(connection, &self.context.path, "ROLLBACK");
        }
    }
}

/// The error on which the database has rolled everything back by itself, as it does on a full disk, an I/O error or
/// lack of memory.
fn lost(connection: &Connection, tx: &mut Tx<'_>) -> Option<StoreError> {
    let path = &tx.read.context.path;
    connection
        .is_autocommit()
        .then(|| tx.broken.take().unwrap_or_else(|| StoreError::RolledBack { path: path.clone() }))
}

/// Runs one job inside its savepoint. An error is the whole group's: its transaction can no longer be committed.
fn attempt(connection: &Connection, tx: &mut Tx<'_>, job: Job, kept: &mut Vec<Reply>) -> Result<(), StoreError> {
    let path = &tx.read.context.path;
    let (events_before, notices_before) = (tx.appended.len(), tx.noticed.len());
    if let Err(error) = statement(connection, path, "SAVEPOINT part") {
        job(Err(error.clone()));
        return Err(error);
    }
    let part = job(Ok(tx));
    let lost = lost(connection, tx);
    let ended = match part {
        Part::Keep(reply) => {
            kept.push(reply);
            if lost.is_some() { Ok(()) } else { statement(connection, path, "RELEASE part") }
        }
        Part::Undo(reply) => {
            reply(Ok(()));
            tx.appended.truncate(events_before);
            tx.noticed.truncate(notices_before);
            if lost.is_some() {
                Ok(())
            } else {
                statement(connection, path, "ROLLBACK TO part")
                    .and_then(|()| statement(connection, path, "RELEASE part"))
            }
        }
        Part::Refused => Ok(()),
    };
    lost.map_or(ended, Err)
}

pub(crate) fn statement(connection: &Connection, path: &Path, sql: &str) -> Result<(), StoreError> {
    connection
        .prepare_cached(sql)
        .and_then(|mut statement| statement.execute([]))
        .map(drop)
        .map_err(|error| from_sqlite(path, sql, error))
}

/// Makes a job of a caller's closure; `answer` is called exactly once with what became of it.
pub(crate) fn job<T, E>(
    work: impl FnOnce(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
    answer: impl FnOnce(Result<T, E>) + Send + 'static,
) -> Job
where
    T: Send + 'static,
    E: From<StoreError> + Send + 'static,
{
    Box::new(move |turn| {
        let tx = match turn {
            Ok(tx) => tx,
            Err(error) => {
                answer(Err(error.into()));
                return Part::Refused;
            }
        };
        // Unwind safety: what a panicking closure has half done to the transaction is undone.
        match catch_unwind(AssertUnwindSafe(|| work(tx))) {
            Ok(Ok(value)) => Part::Keep(Box::new(move |committed| answer(committed.map(|()| value).map_err(E::from)))),
            Ok(Err(error)) => Part::Undo(Box::new(move |_| answer(Err(error)))),
            Err(panic) => {
                let error = StoreError::Panicked { message: panic_message(&*panic) };
                Part::Undo(Box::new(move |_| answer(Err(error.into()))))
            }
        }
    })
}

/// The words of a panic.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}

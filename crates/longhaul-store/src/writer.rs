//! The one writer: a thread that commits whatever is waiting as one group.
//!
//! It owns the write connection and the order of commits, not what is written. Invariants: a caller hears of success
//! only after the commit that holds its rows has reached the disk; a closure that fails or panics undoes its own part
//! and nobody else's; events are published after their commit, in the order of their numbers.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
};

use longhaul_core::Event;
use rusqlite::Connection;
use tokio::sync::{broadcast, mpsc};

use crate::{
    StoreError, Tx,
    error::from_sqlite,
    tx::{Context, ReadTx},
};

/// Most transactions of one commit.
const GROUP_MAX: usize = 256;

/// Tells the caller how its transaction ended.
type Reply = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

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

/// Runs until the last handle of the store is gone.
pub(crate) fn run(
    connection: &Connection,
    context: &Context,
    queue: &mut mpsc::Receiver<Job>,
    published: &broadcast::Sender<Event>,
) {
    while let Some(first) = queue.blocking_recv() {
        let mut group = vec![first];
        while group.len() < GROUP_MAX {
            match queue.try_recv() {
                Ok(job) => group.push(job),
                Err(_) => break,
            }
        }
        let mut kept = Vec::with_capacity(group.len());
        match commit(connection, context, group, &mut kept) {
            Ok(events) => {
                for event in events {
                    // An error only means that nobody listens.
                    let _ = published.send(event);
                }
                kept.into_iter().for_each(|reply| reply(Ok(())));
            }
            Err(error) => kept.into_iter().for_each(|reply| reply(Err(error.clone()))),
        }
    }
}

/// Commits the group and gives its events. `kept` receives the replies that wait for the outcome, whatever it is.
fn commit(
    connection: &Connection,
    context: &Context,
    group: Vec<Job>,
    kept: &mut Vec<Reply>,
) -> Result<Vec<Event>, StoreError> {
    let path = &context.path;
    let mut tx = Tx { read: ReadTx { connection, context }, appended: Vec::new(), broken: None };
    let mut failed = statement(connection, path, "BEGIN IMMEDIATE").err();
    for job in group {
        match &failed {
            Some(error) => drop(job(Err(error.clone()))),
            None => failed = attempt(&mut tx, job, kept).err(),
        }
    }
    let outcome = failed.map_or_else(|| statement(connection, path, "COMMIT"), Err);
    if outcome.is_err() && !connection.is_autocommit() {
        // The first error is the one worth telling.
        let _ = statement(connection, path, "ROLLBACK");
    }
    outcome.map(|()| tx.appended)
}

/// Runs one job inside its savepoint. An error is the whole group's: its transaction can no longer be committed.
fn attempt(tx: &mut Tx<'_>, job: Job, kept: &mut Vec<Reply>) -> Result<(), StoreError> {
    let ReadTx { connection, context } = tx.read;
    let path = &context.path;
    let events_before = tx.appended.len();
    if let Err(error) = statement(connection, path, "SAVEPOINT part") {
        job(Err(error.clone()));
        return Err(error);
    }
    let part = job(Ok(tx));
    // On a full disk, an I/O error or lack of memory the database rolls everything back by itself.
    let lost = connection.is_autocommit();
    let ended = match part {
        Part::Keep(reply) => {
            kept.push(reply);
            if lost { Ok(()) } else { statement(connection, path, "RELEASE part") }
        }
        Part::Undo(reply) => {
            reply(Ok(()));
            tx.appended.truncate(events_before);
            if lost {
                Ok(())
            } else {
                statement(connection, path, "ROLLBACK TO part")
                    .and_then(|()| statement(connection, path, "RELEASE part"))
            }
        }
        Part::Refused => Ok(()),
    };
    if lost {
        return Err(tx.broken.take().unwrap_or_else(|| StoreError::RolledBack { path: path.clone() }));
    }
    ended
}

fn statement(connection: &Connection, path: &Path, sql: &str) -> Result<(), StoreError> {
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
        // Unwind safety: what a panicking closure has half done to the transaction is undone with its savepoint.
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

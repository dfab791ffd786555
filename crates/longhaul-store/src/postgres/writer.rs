//! The writer of a PostgreSQL store: a thread that commits whatever is waiting as one group.
//!
//! It owns the write connection, the lock that lets one transaction at a time take place, and the receipts by which a
//! commit whose answer was lost is looked up. Invariants: a caller hears of success only after the commit that holds
//! its rows; a closure that fails or panics undoes its own part and nobody else's; a transaction whose connection was
//! cut is reported as kept or as not kept if the database can be reached again in time, and as unknown if it cannot.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use tokio::sync::mpsc;

use super::{
    PostgresAddress,
    listener::Listening,
    session::{Purpose, Session},
};
use crate::{
    Faults, StoreError, Tx,
    tx::{Context, Link, ReadTx},
    writer::{Job, Part, Reply},
};

/// Most transactions of one commit; other processes wait for it.
const GROUP_MAX: usize = 64;

/// The lock that every write transaction of this database holds. An advisory lock belongs to its database.
pub(crate) const LOCK: &str = "SELECT pg_advisory_xact_lock(7823461092837465)";

/// What the writer's thread owns.
pub(crate) struct Writer {
    address: PostgresAddress,
    context: Arc<Context>,
    /// How long to wait for another process's transaction, and for a server that has gone.
    patience: Duration,
    faults: Option<Faults>,
    listening: Arc<Listening>,
    /// The key of this writer's receipt.
    id: String,
    /// Number of the last commit that was tried.
    commits: i64,
    session: Option<Session>,
}

impl Writer {
    pub(crate) fn new(
        address: PostgresAddress,
        context: Arc<Context>,
        patience: Duration,
        faults: Option<Faults>,
        listening: Arc<Listening>,
        session: Session,
    ) -> Self {
        let id = context.ambient.ids.body();
        Self { address, context, patience, faults, listening, id, commits: 0, session: Some(session) }
    }

    /// Commits what is queued, group by group, until the last handle of the store is gone.
    pub(crate) fn run(mut self, queue: &mut mpsc::Receiver<Job>) {
        let mut waiting = VecDeque::new();
        loop {
            if waiting.is_empty() {
                let Some(first) = queue.blocking_recv() else { break };
                waiting.push_back(first);
            }
            while waiting.len() < GROUP_MAX {
                match queue.try_recv() {
                    Ok(job) => waiting.push_back(job),
                    Err(_) => break,
                }
            }
            match self.begin() {
                Ok(session) => {
                    let kept = self.commit(&session, &mut waiting);
                    // A connection that is of no use any more is closed here.
                    self.session = (kept && !session.is_closed()).then_some(session);
                }
                Err(error) => waiting.drain(..).for_each(|job| drop(job(Err(error.clone())))),
            }
        }
        if let Some(session) = &self.session {
            // Receipts that nobody fetches are removed some day by whoever opens the store.
            let _ = session.control(&format!("DELETE FROM store_writers WHERE writer_id = '{}'", self.id));
        }
    }

    /// Begins a transaction, on a new connection where the old one has gone: nothing is lost with it.
    fn begin(&mut self) -> Result<Session, StoreError> {
        if let Some(faults) = &self.faults {
            faults.check_alive(&self.context.path)?;
        }
        if let Some(session) = self.session.take() {
            match begin(&session) {
                Err(_) if session.is_closed() => {}
                Err(error) => {
                    if session.control("ROLLBACK").is_ok() {
                        self.session = Some(session);
                    }
                    return Err(error);
                }
                Ok(()) => return Ok(session),
            }
        }
        let session = self.connect()?;
        begin(&session)?;
        Ok(session)
    }

    fn connect(&self) -> Result<Session, StoreError> {
        let lock_ms_max = u64::try_from(self.patience.as_millis()).unwrap_or(u64::MAX);
        Session::open(&self.address, Purpose::Write, lock_ms_max, self.patience)
    }

    /// Runs the jobs inside the transaction that has begun, and ends it. Jobs that were not begun when the connection
    /// broke stay waiting. Tells whether the connection is still good.
    fn commit(&mut self, session: &Session, waiting: &mut VecDeque<Job>) -> bool {
        let context = self.context.clone();
        let read = ReadTx { link: Link::Postgres(session), context: &context, may_change: true };
        let mut tx = Tx::new(read);
        let several = waiting.len() > 1;
        let mut kept: Vec<Reply> = Vec::with_capacity(waiting.len());
        while !session.is_closed()
            && let Some(job) = waiting.pop_front()
        {
            if several {
                session.put_off("SAVEPOINT part");
            }
            let events_before = tx.appended.len();
            let undo = match job(Ok(&mut tx)) {
                Part::Keep(reply) => match session.take_lost() {
                    None => {
                        kept.push(reply);
                        false
                    }
                    Some(error) => {
                        reply(Err(error));
                        true
                    }
                },
                Part::Undo(reply) => {
                    session.take_lost();
                    reply(Ok(()));
                    true
                }
                Part::Refused => false,
            };
            if undo {
                tx.appended.truncate(events_before);
            }
            match (several, undo) {
                (true, true) => session.put_off("ROLLBACK TO SAVEPOINT part; RELEASE SAVEPOINT part"),
                (true, false) => session.put_off("RELEASE SAVEPOINT part"),
                // The only job: there is nothing to keep.
                (false, _) => {}
            }
        }
        if kept.is_empty() {
            return session.control("ROLLBACK").is_ok();
        }
        let last_event = tx.appended.last().map(|event| event.seq);
        let outcome = self.end(session, last_event);
        let good = outcome.is_ok() || session.control("ROLLBACK").is_ok();
        kept.into_iter().for_each(|reply| reply(outcome.clone()));
        good
    }

    /// Commits, with a receipt, and finds out what became of it.
    fn end(&mut self, session: &Session, last_event: Option<i64>) -> Result<(), StoreError> {
        self.commits += 1;
        let (id, number, at) = (&self.id, self.commits, self.context.ambient.clock.now().0);
        let notice =
            last_event.map_or_else(String::new, |seq| format!("SELECT pg_notify('longhaul_events', '{seq}'); "));
        let sql = format!(
            "INSERT INTO store_writers (writer_id, commits, at) VALUES ('{id}', {number}, {at})
             ON CONFLICT (writer_id) DO UPDATE SET commits = {number}, at = {at}; {notice}COMMIT"
        );
        let commit = || match session.control(&sql) {
            Err(error) if session.is_closed() => self.look_up(error),
            outcome => outcome,
        };
        match &self.faults {
            Some(faults) => faults.commit(&self.context.path, commit)?,
            None => commit()?,
        }
        if let Some(seq) = last_event {
            self.listening.committed(seq);
        }
        Ok(())
    }

    /// Whether the commit took place whose answer was lost. The old connection's transaction has ended, one way or the
    /// other, as soon as its lock can be had.
    fn look_up(&self, lost: StoreError) -> Result<(), StoreError> {
        let mut commits = None;
        let sql = "SELECT commits FROM store_writers WHERE writer_id = ?1";
        let looked = self.connect().and_then(|session| {
            begin(&session)?;
            session.run(sql, &[self.id.as_str().into()], &mut |row| {
                commits = row.try_get::<_, i64>(0).ok();
                Ok(true)
            })
        });
        match looked {
            Ok(_) if commits.is_some_and(|last| last >= self.commits) => Ok(()),
            Ok(_) => Err(lost),
            Err(error) => {
                tracing::warn!(%error, "it could not be found out whether a transaction was kept");
                Err(StoreError::OutcomeUnknown { path: self.context.path.clone() })
            }
        }
    }
}

fn begin(session: &Session) -> Result<(), StoreError> {
    session.control(&format!("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; {LOCK}"))
}

//! PostgreSQL behind a store: a writer's thread, readers beside it, and a listener.
//!
//! It owns who uses which connection. Invariant: a reader whose connection has broken since it was last used costs
//! nothing but a new connection.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::StreamExt;
use tokio::sync::mpsc;

use super::{
    PostgresAddress,
    listener::{self, Listening},
    migrate,
    session::{Purpose, Session},
    writer::Writer,
};
use crate::{
    Faults, Migrations, ReadTx, StoreError, StoreSettings,
    error::from_io,
    notices::Outlet,
    tx::{Context, Link},
    writer::Job,
};

/// An open PostgreSQL database.
pub(crate) struct Postgres {
    address: PostgresAddress,
    pub(crate) queue: mpsc::Sender<Job>,
    pub(crate) listening: Arc<Listening>,
    idle: Mutex<Vec<Session>>,
    patience: Duration,
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.listening.close();
    }
}

impl Postgres {
    /// Connects, migrates, and starts the threads. Blocks its thread.
    pub(crate) fn open(
        address: PostgresAddress,
        settings: &StoreSettings,
        context: &Arc<Context>,
        sets: &[Migrations],
        outlet: Outlet,
        faults: Option<Faults>,
    ) -> Result<Self, StoreError> {
        let path = &context.path;
        let patience = Duration::from_millis(settings.busy_ms_max);
        // A server that is not there when a program begins is told at once.
        let session = Session::open(&address, Purpose::Write, settings.busy_ms_max, Duration::ZERO)?;
        let mut all = vec![migrate::OWN];
        all.extend(sets);
        migrate::apply(&session, path, &all, context.ambient.clock.now().0)?;
        let listening = Arc::new(Listening::new(newest_event(&session)?, outlet));

        let (queue, mut jobs) = mpsc::channel(settings.queue_max.max(1));
        let writer = Writer::new(address.clone(), context.clone(), patience, faults, listening.clone(), session);
        let spawn = |name: &str, run: Box<dyn FnOnce() + Send>| {
            std::thread::Builder::new().name(name.to_owned()).spawn(run).map(drop).map_err(|error| from_io(path, error))
        };
        spawn("store-writer", Box::new(move || writer.run(&mut jobs)))?;
        let (to, hears) = (address.clone(), listening.clone());
        let (ready, mut is_ready) = futures::channel::mpsc::unbounded();
        spawn("store-listener", Box::new(move || listener::run(&to, &hears, ready)))?;
        // Whoever has opened the store hears of everything from here on.
        futures::executor::block_on(is_ready.next());
        Ok(Self { address, queue, listening, idle: Mutex::default(), patience })
    }

    /// Where the server is.
    pub(crate) fn address(&self) -> &PostgresAddress {
        &self.address
    }

    /// Reads one snapshot. Blocks its thread.
    pub(crate) fn read<T, E: From<StoreError>>(
        &self,
        context: &Context,
        f: impl FnOnce(&ReadTx<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let session = self.begin()?;
        let outcome = f(&ReadTx { link: Link::Postgres(&session), context, may_change: false });
        if session.control("ROLLBACK").is_ok() && !session.is_closed() {
            self.idle().push(session);
        }
        outcome
    }

    fn begin(&self) -> Result<Session, StoreError> {
        let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
        loop {
            let Some(session) = self.idle().pop() else { break };
            match session.control(begin) {
                Ok(()) => return Ok(session),
                Err(_) if session.is_closed() => {}
                Err(error) => return Err(error),
            }
        }
        let lock_ms_max = u64::try_from(self.patience.as_millis()).unwrap_or(u64::MAX);
        let session = Session::open(&self.address, Purpose::Read, lock_ms_max, self.patience)?;
        session.control(begin)?;
        Ok(session)
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Session>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn newest_event(session: &Session) -> Result<i64, StoreError> {
    let mut newest = 0;
    session.control("BEGIN READ ONLY")?;
    session.run("SELECT coalesce(max(seq), 0) FROM events", &[], &mut |row| {
        newest = row.try_get(0).unwrap_or(0);
        Ok(true)
    })?;
    session.control("ROLLBACK")?;
    Ok(newest)
}

//! SQLite behind a store: a file with a writer's thread and readers beside it, or one connection in memory.
//!
//! It owns who uses which connection; the commits are the writer's. Invariant: two processes may open and use the same
//! folder at the same time.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rusqlite::Connection;
use tokio::sync::mpsc;

use crate::{
    Faults, Migrations, ReadTx, StoreError, StoreSettings, Tx,
    connection::{connect, pragma, private_file},
    error::{from_io, from_sqlite},
    migrations,
    notices::Outlet,
    tx::{Context, Link},
    writer::{self, Job, Writer},
};

/// An open database of SQLite.
pub(crate) struct Sqlite {
    writer: Arc<Writer>,
    /// The queue of the writer's thread, which ends when this is dropped. In memory there is no thread: a commit there
    /// waits for nothing.
    queue: Option<mpsc::Sender<Job>>,
    /// Open reader connections that nobody uses at the moment.
    idle: Mutex<Vec<Connection>>,
}

impl Sqlite {
    pub(crate) fn in_folder(
        dir: &Path,
        settings: &StoreSettings,
        context: &Arc<Context>,
        sets: &[Migrations],
        outlet: Outlet,
        faults: Option<Faults>,
    ) -> Result<Self, StoreError> {
        let path = &context.path;
        // Two first openings at once would race for the journal mode and the migrations.
        let lock = dir.join("locks/open.lock");
        let opening = private_file(&lock)?;
        rustix::fs::flock(&opening, rustix::fs::FlockOperation::LockExclusive)
            .map_err(|error| from_io(&lock, error.into()))?;
        private_file(path)?;
        let connection = opened(settings, context, sets)?;
        drop(opening);

        let (jobs, mut queue) = mpsc::channel(settings.queue_max.max(1));
        let engine = Self::new(connection, settings, context, outlet, faults, Some(jobs));
        let writer = engine.writer.clone();
        std::thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || writer.run(&mut queue))
            .map_err(|error| from_io(path, error))?;
        Ok(engine)
    }

    pub(crate) fn in_memory(
        settings: &StoreSettings,
        context: &Arc<Context>,
        sets: &[Migrations],
        outlet: Outlet,
        faults: Option<Faults>,
    ) -> Result<Self, StoreError> {
        let connection = opened(settings, context, sets)?;
        Ok(Self::new(connection, settings, context, outlet, faults, None))
    }

    /// What stands for the file's name where there is no file.
    pub(crate) fn memory_path() -> PathBuf {
        PathBuf::from(":memory:")
    }

    fn new(
        connection: Connection,
        settings: &StoreSettings,
        context: &Arc<Context>,
        outlet: Outlet,
        faults: Option<Faults>,
        queue: Option<mpsc::Sender<Job>>,
    ) -> Self {
        let patience = Duration::from_millis(settings.busy_ms_max);
        let writer = Arc::new(Writer::new(connection, context.clone(), outlet, patience, faults));
        Self { writer, queue, idle: Mutex::default() }
    }

    pub(crate) fn is_in_memory(&self) -> bool {
        self.queue.is_none()
    }

    /// The write connection, with no transaction open, as soon as nobody writes. Nobody else writes while it is held.
    pub(crate) fn writer_seat(&self) -> std::sync::MutexGuard<'_, Connection> {
        self.writer.seat()
    }

    /// Has `f` committed, by whomever that costs least. An error means that the writer has ended.
    pub(crate) async fn write<T, E>(
        &self,
        f: impl FnOnce(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
        ended: impl FnOnce(Result<T, E>) + Send + 'static,
    ) -> Result<(), mpsc::error::SendError<Job>>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let Self { writer, queue, .. } = self;
        let in_flight = writer.announce();
        let mut alone = in_flight.is_alone() && !writer.is_slow();
        if alone && queue.is_some() {
            // Others that are ready on the same thread get their turn first, so that they end up in one group.
            tokio::task::yield_now().await;
            alone = in_flight.is_alone();
        }
        let job = writer::job(f, move |outcome| {
            drop(in_flight);
            ended(outcome);
        });
        let Some(queue) = queue else {
            writer.commit_here(job);
            return Ok(());
        };
        match if alone { writer.try_commit_here(job) } else { Some(job) } {
            Some(job) => queue.send(job).await,
            None => Ok(()),
        }
    }

    /// Reads through the writer's connection, on this thread.
    pub(crate) fn read_here<T, E: From<StoreError>>(
        &self,
        context: &Context,
        f: impl FnOnce(&ReadTx<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let connection = self.writer.seat();
        let read = ReadTx { link: Link::Sqlite(&connection), context, may_change: false };
        // Unwind safety: nothing can have been written, and the connection has no transaction open.
        catch_unwind(AssertUnwindSafe(|| f(&read)))
            .unwrap_or_else(|panic| Err(StoreError::Panicked { message: writer::panic_message(&*panic) }.into()))
    }

    /// Reads through a connection of its own.
    pub(crate) fn read_beside<T, E: From<StoreError>>(
        &self,
        context: &Context,
        settings: &StoreSettings,
        f: impl FnOnce(&ReadTx<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let path = &context.path;
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = match idle {
            Some(connection) => connection,
            None => {
                let connection = connect(path, settings)?;
                pragma(&connection, path, "PRAGMA query_only = ON")?;
                connection
            }
        };
        writer::statement(&connection, path, "BEGIN")?;
        let outcome = f(&ReadTx { link: Link::Sqlite(&connection), context, may_change: false });
        // A connection whose snapshot does not end is closed rather than kept.
        if writer::statement(&connection, path, "ROLLBACK").is_ok() {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        }
        outcome
    }

    /// A number that changes when another connection than the writer's has committed. Nothing while the writer is at
    /// work, for which nobody waits here.
    pub(crate) fn others_version(&self, context: &Context) -> Result<Option<i64>, StoreError> {
        let sql = "PRAGMA data_version";
        let Some(connection) = self.writer.try_seat() else { return Ok(None) };
        let version = connection.query_row(sql, [], |row| row.get(0));
        version.map(Some).map_err(|error| from_sqlite(&context.path, sql, error))
    }
}

/// Pages of the writer that stay in memory, in KiB: a large transaction that has no room writes its pages more than once.
const WRITER_CACHE_KIB: u32 = 16 * 1024;
/// Pages in the log from which a commit also moves them into the database: 32 MiB. The commit that has to do so takes as
/// long as many others, so it should be rare.
const LOG_PAGES: u32 = 8_000;

fn opened(settings: &StoreSettings, context: &Context, sets: &[Migrations]) -> Result<Connection, StoreError> {
    let mut connection = connect(&context.path, settings)?;
    let path = &context.path;
    migrations::apply(&mut connection, path, sets, context.ambient.clock.now().0)?;
    pragma(&connection, path, &format!("PRAGMA cache_size = -{WRITER_CACHE_KIB}"))?;
    pragma(&connection, path, &format!("PRAGMA wal_autocheckpoint = {LOG_PAGES}"))?;
    // From now on the writer does the waiting.
    connection.busy_timeout(Duration::ZERO).map_err(|error| from_sqlite(path, "busy_timeout", error))?;
    Ok(connection)
}

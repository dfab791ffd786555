//! Opening a store, and the handle through which everything else is reached.
//!
//! It owns the files' places, the writer's thread and the readers' connections. Invariant: two processes may
//! open and use the same folder at the same time.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use longhaul_core::{Ambient, Event};
use rusqlite::Connection;
use tokio::sync::{Semaphore, broadcast, mpsc, oneshot};

use crate::{
    Blobs, Faults, Migrations, Place, ReadTx, StoreError, StoreSettings, Tx,
    blobs::off_the_runtime,
    connection::{connect, pragma, private_dir, private_file},
    error::from_io,
    heartbeat::Heartbeat,
    locks::Locks,
    migrations,
    schema::MIGRATIONS,
    tx::Context,
    writer::{self, Job, Writer},
};

/// A handle of an open store. Cheap to clone; the writer ends with the last one.
#[derive(Clone)]
pub struct Store(Arc<Inner>);

/// A handle that does not keep the store open.
pub(crate) struct WeakStore(Weak<Inner>);

impl WeakStore {
    pub(crate) fn upgrade(&self) -> Option<Store> {
        self.0.upgrade().map(Store)
    }
}

struct Inner {
    settings: StoreSettings,
    context: Arc<Context>,
    writer: Arc<Writer>,
    /// The queue of the writer's thread, which ends when this is dropped. In memory there is no thread: a commit there
    /// waits for nothing.
    queue: Option<mpsc::Sender<Job>>,
    /// Committed events, from the writer.
    published: broadcast::Sender<Event>,
    /// Open reader connections that nobody uses at the moment.
    idle: Mutex<Vec<Connection>>,
    /// One permit for each read that may run.
    readers: Arc<Semaphore>,
    faults: Option<Faults>,
    blobs: Blobs,
    locks: Locks,
    heartbeat: Heartbeat,
}

impl Store {
    /// Opens the store, makes it where it does not exist, and brings its tables up to these migrations; the store's
    /// own are included.
    ///
    /// # Errors
    /// [`StoreError::Newer`], [`StoreError::Corrupt`], [`StoreError::Io`], [`StoreError::DiskFull`],
    /// [`StoreError::Locked`], [`StoreError::Migration`].
    pub async fn open(
        settings: StoreSettings,
        ambient: Ambient,
        migrations: &[Migrations],
    ) -> Result<Self, StoreError> {
        Self::open_as_planned(settings, ambient, migrations, None).await
    }

    /// Like [`Self::open`], with commits that fail where a test has planned it.
    ///
    /// # Errors
    /// Those of [`Self::open`].
    pub async fn open_with_faults(
        settings: StoreSettings,
        ambient: Ambient,
        migrations: &[Migrations],
        faults: Faults,
    ) -> Result<Self, StoreError> {
        Self::open_as_planned(settings, ambient, migrations, Some(faults)).await
    }

    async fn open_as_planned(
        settings: StoreSettings,
        ambient: Ambient,
        migrations: &[Migrations],
        faults: Option<Faults>,
    ) -> Result<Self, StoreError> {
        let mut sets = vec![MIGRATIONS];
        sets.extend(migrations);
        off_the_runtime(move || match settings.place.clone() {
            Place::Folder(dir) => Self::open_folder(&dir, settings, ambient, &sets, faults),
            Place::Memory => Self::open_memory(settings, ambient, &sets, faults),
        })
        .await
    }

    fn open_folder(
        dir: &Path,
        settings: StoreSettings,
        ambient: Ambient,
        sets: &[Migrations],
        faults: Option<Faults>,
    ) -> Result<Self, StoreError> {
        let path = dir.join("longhaul.db");
        for dir in [dir, &dir.join("blobs"), &dir.join("locks")] {
            private_dir(dir)?;
        }
        // Two first openings at once would race for the journal mode and the migrations.
        let opening = private_file(&dir.join("locks/open.lock"))?;
        rustix::fs::flock(&opening, rustix::fs::FlockOperation::LockExclusive)
            .map_err(|error| from_io(&dir.join("locks/open.lock"), error.into()))?;
        private_file(&path)?;
        let mut connection = connect(&path, &settings)?;
        migrations::apply(&mut connection, &path, sets, ambient.clock.now().0)?;
        drop(opening);

        let context = Arc::new(Context { path: path.clone(), ambient });
        let blobs = Blobs::in_folder(dir.join("blobs"), settings.blob_bytes_max, context.clone(), faults.clone());
        let (jobs, mut queue) = mpsc::channel(settings.queue_max.max(1));
        let store = Self::assemble(settings, context, connection, faults, Some(jobs), blobs, Locks::folder(dir));
        let writer = store.0.writer.clone();
        std::thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || writer.run(&mut queue))
            .map_err(|error| from_io(&path, error))?;
        Ok(store)
    }

    fn open_memory(
        settings: StoreSettings,
        ambient: Ambient,
        sets: &[Migrations],
        faults: Option<Faults>,
    ) -> Result<Self, StoreError> {
        let path = PathBuf::from(":memory:");
        let mut connection = connect(&path, &settings)?;
        migrations::apply(&mut connection, &path, sets, ambient.clock.now().0)?;
        let context = Arc::new(Context { path, ambient });
        let blobs = Blobs::in_memory(settings.blob_bytes_max, context.clone(), faults.clone());
        Ok(Self::assemble(settings, context, connection, faults, None, blobs, Locks::memory()))
    }

    fn assemble(
        settings: StoreSettings,
        context: Arc<Context>,
        connection: Connection,
        faults: Option<Faults>,
        queue: Option<mpsc::Sender<Job>>,
        blobs: Blobs,
        locks: Locks,
    ) -> Self {
        let (published, _) = broadcast::channel(settings.subscriber_events_max.max(1));
        let patience = Duration::from_millis(settings.busy_ms_max);
        let writer = Writer::new(connection, context.clone(), published.clone(), patience, faults.clone());
        Self(Arc::new(Inner {
            writer: Arc::new(writer),
            queue,
            published,
            idle: Mutex::new(Vec::new()),
            readers: Arc::new(Semaphore::new(settings.readers_max.max(1))),
            settings,
            context,
            faults,
            blobs,
            locks,
            heartbeat: Heartbeat::default(),
        }))
    }

    /// Runs `f` in a write transaction and returns once its commit is on the disk. When `f` fails or panics, all it
    /// wrote is undone. `f` runs on the writer's thread or, when no other transaction is in flight, on the caller's:
    /// it must not block on anything but the database. Whoever drops the returned future early does not learn whether
    /// the transaction took place.
    ///
    /// # Errors
    /// Those of `f`; those of the commit, as `E::from(StoreError)`.
    pub async fn write<T, E>(&self, f: impl FnOnce(&mut Tx<'_>) -> Result<T, E> + Send + 'static) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let Inner { writer, queue, .. } = &*self.0;
        let in_flight = writer.announce();
        let (answer, answered) = oneshot::channel();
        let mut alone = in_flight.is_alone() && !writer.is_slow();
        if alone && queue.is_some() {
            // Others that are ready on the same thread get their turn first, so that they end up in one group.
            tokio::task::yield_now().await;
            alone = in_flight.is_alone();
        }
        let job = writer::job(f, move |outcome| {
            drop(in_flight);
            // An error of `send` only means that the caller has gone.
            drop(answer.send(outcome));
        });
        if let Some(queue) = queue {
            let waiting = if alone { writer.try_commit_here(job) } else { Some(job) };
            if let Some(job) = waiting
                && queue.send(job).await.is_err()
            {
                return Err(self.closed().into());
            }
        } else {
            writer.commit_here(job);
        }
        answered.await.unwrap_or_else(|_| Err(self.closed().into()))
    }

    /// Runs `f` on a snapshot of everything committed so far, beside the writer. `f` may block its thread; in memory,
    /// where there is one connection, nothing is written meanwhile.
    ///
    /// # Errors
    /// Those of `f`; those of the database, as `E::from(StoreError)`.
    pub async fn read<T, E>(&self, f: impl FnOnce(&ReadTx<'_>) -> Result<T, E> + Send + 'static) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        if let Some(faults) = &self.0.faults {
            faults.check_alive(&self.0.context.path)?;
        }
        if self.0.queue.is_none() {
            return self.0.read_here(f);
        }
        let Ok(permit) = self.0.readers.clone().acquire_owned().await else {
            return Err(self.closed().into());
        };
        let inner = self.0.clone();
        // The permit goes along: a caller that stops waiting does not end the read.
        let reading = tokio::task::spawn_blocking(move || {
            let outcome = inner.read_beside(f);
            drop(permit);
            outcome
        });
        match reading.await {
            Ok(outcome) => outcome,
            Err(error) => Err(StoreError::Panicked { message: error.to_string() }.into()),
        }
    }

    /// The content-addressed files.
    #[must_use]
    pub fn blobs(&self) -> &Blobs {
        &self.0.blobs
    }

    /// Events from now on, each after its commit, in the order of their numbers. A subscriber that lags behind by more
    /// than the setting is told so and reads the rest with [`crate::events`]. Only this process's events come here.
    #[must_use]
    pub fn subscribe(&self) -> broadcast::Receiver<Event> {
        self.0.published.subscribe()
    }

    /// Where it keeps what it is given.
    #[must_use]
    pub fn place(&self) -> &Place {
        &self.0.settings.place
    }

    /// The clock, randomness and id generator it was opened with.
    #[must_use]
    pub fn ambient(&self) -> &Ambient {
        &self.0.context.ambient
    }

    pub(crate) fn locks(&self) -> &Locks {
        &self.0.locks
    }

    pub(crate) fn heartbeat(&self) -> &Heartbeat {
        &self.0.heartbeat
    }

    pub(crate) fn downgrade(&self) -> WeakStore {
        WeakStore(Arc::downgrade(&self.0))
    }

    fn closed(&self) -> StoreError {
        StoreError::Closed { path: self.0.context.path.clone() }
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("place", &self.0.settings.place).finish_non_exhaustive()
    }
}

impl Inner {
    /// Reads through the writer's connection, on this thread.
    fn read_here<T, E: From<StoreError>>(&self, f: impl FnOnce(&ReadTx<'_>) -> Result<T, E>) -> Result<T, E> {
        let connection = self.writer.seat();
        let read = ReadTx { connection: &connection, context: &self.context, may_change: false };
        // Unwind safety: nothing can have been written, and the connection has no transaction open.
        catch_unwind(AssertUnwindSafe(|| f(&read)))
            .unwrap_or_else(|panic| Err(StoreError::Panicked { message: writer::panic_message(&*panic) }.into()))
    }

    /// Reads through a connection of its own.
    fn read_beside<T, E: From<StoreError>>(&self, f: impl FnOnce(&ReadTx<'_>) -> Result<T, E>) -> Result<T, E> {
        let path = &self.context.path;
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = match idle {
            Some(connection) => connection,
            None => {
                let connection = connect(path, &self.settings)?;
                pragma(&connection, path, "PRAGMA query_only = ON")?;
                connection
            }
        };
        writer::statement(&connection, path, "BEGIN")?;
        let outcome = f(&ReadTx { connection: &connection, context: &self.context, may_change: false });
        // A connection whose snapshot does not end is closed rather than kept.
        if writer::statement(&connection, path, "ROLLBACK").is_ok() {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        }
        outcome
    }
}

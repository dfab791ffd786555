//! Opening a store, and the handle through which everything else is reached.
//!
//! It owns what is the same whatever database is behind it; the rest is in `sqlite` and `postgres`. Invariant: no caller
//! can tell which one it is, but by what is said here.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use longhaul_core::{Ambient, Event};
use tokio::sync::{Semaphore, broadcast, oneshot};

use crate::{
    Blobs, Faults, Migrations, Notices, Place, PostgresAddress, ReadTx, StoreError, StoreSettings, Tx,
    blobs::off_the_runtime,
    bucket::Bucket,
    connection::private_dir,
    heartbeat::Heartbeat,
    locks::Locks,
    notices::{self, Outlet},
    postgres::engine::Postgres,
    s3::S3Error,
    schema::MIGRATIONS,
    sqlite::Sqlite,
    tx::Context,
    writer,
};

/// A handle of an open store. Cheap to clone; the writer ends with the last one.
#[derive(Clone)]
pub struct Store(Arc<Inner>);

/// A handle that does not keep the store open.
#[derive(Debug, Clone)]
pub(crate) struct WeakStore(Weak<Inner>);

impl WeakStore {
    pub(crate) fn upgrade(&self) -> Option<Store> {
        self.0.upgrade().map(Store)
    }
}

struct Inner {
    settings: StoreSettings,
    context: Arc<Context>,
    engine: Engine,
    /// Where committed events and notices go.
    outlet: Outlet,
    /// Somebody has asked to hear of other processes.
    watched: AtomicBool,
    /// One permit for each read that may run.
    readers: Arc<Semaphore>,
    faults: Option<Faults>,
    blobs: Blobs,
    locks: Locks,
    heartbeat: Heartbeat,
}

/// The database behind the store.
pub(crate) enum Engine {
    Sqlite(Sqlite),
    Postgres(Postgres),
}

impl Store {
    /// Opens the store, makes it where it does not exist, and brings its tables up to these migrations; the store's
    /// own are included.
    ///
    /// # Errors
    /// [`StoreError::Newer`], [`StoreError::Corrupt`], [`StoreError::Io`], [`StoreError::DiskFull`],
    /// [`StoreError::Locked`], [`StoreError::Migration`]; on PostgreSQL also [`StoreError::Unreachable`] and
    /// [`StoreError::Refused`].
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
            Place::Postgres { address, dir } => Self::open_postgres(address, &dir, settings, ambient, &sets, faults),
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
        for dir in [dir, &dir.join("blobs"), &dir.join("locks")] {
            private_dir(dir)?;
        }
        let context = Arc::new(Context { path: dir.join("longhaul.db"), ambient, keys: settings.keys.clone() });
        let outlet = Outlet::new(settings.subscriber_events_max);
        let engine = Sqlite::in_folder(dir, &settings, &context, sets, outlet.clone(), faults.clone())?;
        let blobs = Blobs::in_folder(dir, settings.blob_bytes_max, context.clone(), faults.clone());
        let (engine, locks) = (Engine::Sqlite(engine), Locks::folder(dir));
        Self::assemble(settings, context, engine, outlet, faults, |_| blobs, locks)
    }

    fn open_postgres(
        address: PostgresAddress,
        dir: &Path,
        settings: StoreSettings,
        ambient: Ambient,
        sets: &[Migrations],
        faults: Option<Faults>,
    ) -> Result<Self, StoreError> {
        for dir in [dir, &dir.join("locks")] {
            private_dir(dir)?;
        }
        let locks = Locks::of_shared_store(dir, &ambient.ids.body())?;
        let context = Arc::new(Context { path: address.shown().clone(), ambient, keys: settings.keys.clone() });
        let outlet = Outlet::new(settings.subscriber_events_max);
        let engine = Postgres::open(address, &settings, &context, sets, outlet.clone(), faults.clone())?;
        let (bytes_max, own, planned) = (settings.blob_bytes_max, context.clone(), faults.clone());
        let blobs = |store| Blobs::in_rows(store, bytes_max, own, planned);
        Self::assemble(settings, context, Engine::Postgres(engine), outlet, faults, blobs, locks)
    }

    fn open_memory(
        settings: StoreSettings,
        ambient: Ambient,
        sets: &[Migrations],
        faults: Option<Faults>,
    ) -> Result<Self, StoreError> {
        let context = Arc::new(Context { path: Sqlite::memory_path(), ambient, keys: settings.keys.clone() });
        let outlet = Outlet::new(settings.subscriber_events_max);
        let engine = Sqlite::in_memory(&settings, &context, sets, outlet.clone(), faults.clone())?;
        let blobs = Blobs::in_memory(settings.blob_bytes_max, context.clone(), faults.clone());
        let (engine, locks) = (Engine::Sqlite(engine), Locks::memory());
        Self::assemble(settings, context, engine, outlet, faults, |_| blobs, locks)
    }

    fn assemble(
        settings: StoreSettings,
        context: Arc<Context>,
        engine: Engine,
        outlet: Outlet,
        faults: Option<Faults>,
        blobs: impl FnOnce(WeakStore) -> Blobs,
        locks: Locks,
    ) -> Result<Self, StoreError> {
        let mut problem = None;
        let inner = Arc::new_cyclic(|store| Inner {
            blobs: {
                let store = WeakStore(store.clone());
                let bucket = bucket_of(&settings, &store).unwrap_or_else(|error| {
                    problem = Some(error);
                    None
                });
                blobs(store.clone()).of(store, bucket)
            },
            engine,
            outlet,
            watched: AtomicBool::new(false),
            readers: Arc::new(Semaphore::new(settings.readers_max.max(1))),
            settings,
            context,
            faults,
            locks,
            heartbeat: Heartbeat::default(),
        });
        problem.map_or(Ok(Self(inner)), Err)
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
        self.write_then(f, |outcome| outcome).await
    }

    /// As [`Self::write`], and `then` follows the transaction as soon as it has ended, on the thread that ended it and
    /// whether or not the caller still waits: for what is kept in RAM of the rows. It must be short, and is called
    /// exactly once if `f` was. What `f` failed with is followed before the rest of its group is committed; otherwise
    /// transactions are followed in the order of their commits.
    ///
    /// # Errors
    /// Those of [`Self::write`], as `then` passes them on.
    pub async fn write_then<T, E, R>(
        &self,
        f: impl FnOnce(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
        then: impl FnOnce(Result<T, E>) -> Result<R, E> + Send + 'static,
    ) -> Result<R, E>
    where
        T: Send + 'static,
        R: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        let ended = move |outcome| {
            // Unwind safety: whatever `then` has left half done is its own, and the writer goes on for all others.
            let told = catch_unwind(AssertUnwindSafe(|| then(outcome)))
                .unwrap_or_else(|panic| Err(StoreError::Panicked { message: writer::panic_message(&*panic) }.into()));
            // An error of answering only means that the caller has gone.
            drop(answer.send(told));
        };
        let queued = match &self.0.engine {
            Engine::Sqlite(sqlite) => sqlite.write(f, ended).await,
            Engine::Postgres(postgres) => postgres.queue.send(writer::job(f, ended)).await,
        };
        if queued.is_err() {
            return Err(self.closed().into());
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
        if let Engine::Sqlite(sqlite) = &self.0.engine
            && sqlite.is_in_memory()
        {
            return sqlite.read_here(&self.0.context, f);
        }
        let Ok(permit) = self.0.readers.clone().acquire_owned().await else {
            return Err(self.closed().into());
        };
        let inner = self.0.clone();
        // The permit goes along: a caller that stops waiting does not end the read.
        let reading = tokio::task::spawn_blocking(move || {
            let outcome = inner.read_now(f);
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
    /// than the setting is told so and reads the rest with [`crate::events`].
    ///
    /// On SQLite only this process's events come here. On PostgreSQL those of every process come here, and the first
    /// may be one that another process has committed a moment before.
    #[must_use]
    pub fn subscribe(&self) -> broadcast::Receiver<Event> {
        match &self.0.engine {
            Engine::Sqlite(_) => self.0.outlet.events.subscribe(),
            Engine::Postgres(postgres) => postgres.listening.subscribe(),
        }
    }

    /// The notices of this channel from now on, sent with [`Tx::notify`] by whatever process. A notice is a hint: after
    /// it, and once after beginning to listen, look at the rows.
    ///
    /// On PostgreSQL notices of other processes come at once. On SQLite those of this process do, while of others one
    /// hears within 100 ms that they have written anything, as a notice without payload. To be called within a tokio
    /// runtime.
    #[must_use]
    pub fn listen(&self, channel: &str) -> Notices {
        let notices = self.0.outlet.notices.listen(channel);
        if matches!(self.0.settings.place, Place::Folder(_)) && !self.0.watched.swap(true, Ordering::AcqRel) {
            tokio::spawn(notices::watch(self.downgrade(), self.0.outlet.notices.clone()));
        }
        notices
    }

    /// Where it keeps what it is given.
    #[must_use]
    pub fn place(&self) -> &Place {
        &self.0.settings.place
    }

    /// Its blobs go to a bucket.
    #[must_use]
    pub fn has_bucket(&self) -> bool {
        self.0.settings.bucket.is_some()
    }

    /// The clock, randomness and id generator it was opened with.
    #[must_use]
    pub fn ambient(&self) -> &Ambient {
        &self.0.context.ambient
    }

    /// The database file; `:memory:` where there is none.
    pub(crate) fn path(&self) -> &Path {
        &self.0.context.path
    }

    /// Runs `f` on a snapshot, blocking this thread.
    pub(crate) fn read_now<T>(&self, f: impl FnOnce(&ReadTx<'_>) -> Result<T, StoreError>) -> Result<T, StoreError> {
        self.0.read_now(f)
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.0.engine
    }

    pub(crate) fn context(&self) -> &Context {
        &self.0.context
    }

    /// How long to wait for other processes.
    pub(crate) fn patience(&self) -> std::time::Duration {
        std::time::Duration::from_millis(self.0.settings.busy_ms_max)
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

    /// See [`Sqlite::others_version`].
    pub(crate) async fn others_version(&self) -> Result<Option<i64>, StoreError> {
        let store = self.clone();
        off_the_runtime(move || match &store.0.engine {
            Engine::Sqlite(sqlite) => sqlite.others_version(&store.0.context),
            Engine::Postgres(_) => Ok(None),
        })
        .await
    }

    fn closed(&self) -> StoreError {
        StoreError::Closed { path: self.0.context.path.clone() }
    }
}

/// The bucket for blobs that the settings name, opened.
fn bucket_of(settings: &StoreSettings, store: &WeakStore) -> Result<Option<Bucket>, StoreError> {
    let Some(bucket) = &settings.bucket else { return Ok(None) };
    let (Place::Folder(dir) | Place::Postgres { dir, .. }) = &settings.place else {
        let problem = "is of no use to a store in memory: open a folder or a database";
        return Err(S3Error { what: "the bucket", problem }.into());
    };
    Bucket::open(bucket, store.clone(), dir.clone()).map(Some)
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("place", &self.0.settings.place).finish_non_exhaustive()
    }
}

impl Inner {
    fn read_now<T, E: From<StoreError>>(&self, f: impl FnOnce(&ReadTx<'_>) -> Result<T, E>) -> Result<T, E> {
        match &self.engine {
            Engine::Sqlite(sqlite) if sqlite.is_in_memory() => sqlite.read_here(&self.context, f),
            Engine::Sqlite(sqlite) => sqlite.read_beside(&self.context, &self.settings, f),
            Engine::Postgres(postgres) => postgres.read(&self.context, f),
        }
    }
}

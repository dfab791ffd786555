//! Opening a store, and the handle through which everything else is reached.
//!
//! It owns the files' places and modes, the writer's thread and the readers' connections. Invariant: two processes may
//! open and use the same folder at the same time.

use std::{
    fs::{DirBuilder, File, OpenOptions},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use longhaul_core::{Ambient, Event};
use rusqlite::{Connection, OpenFlags};
use tokio::sync::{Semaphore, broadcast, mpsc, oneshot};

use crate::{
    Blobs, Migrations, ReadTx, StoreError, Tx,
    blobs::off_the_runtime,
    error::{from_io, from_sqlite},
    migrations,
    schema::MIGRATIONS,
    tx::Context,
    writer::{self, Job},
};

/// How a store is opened. Start from [`StoreSettings::new`].
#[derive(Debug, Clone)]
pub struct StoreSettings {
    /// The folder of `longhaul.db`, `blobs/` and `locks/`; made, with mode 0700, where it does not exist.
    pub dir: PathBuf,
    /// How long to wait for another process's transaction.
    pub busy_ms_max: u64,
    /// Reads that may run at once; more wait.
    pub readers_max: usize,
    /// Transactions that may wait for the writer; more wait for a place.
    pub queue_max: usize,
    /// Events a subscriber may lag behind before it must read the log again.
    pub subscriber_events_max: usize,
    /// Largest blob.
    pub blob_bytes_max: u64,
}

impl StoreSettings {
    /// The defaults, in this folder.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            busy_ms_max: 10_000,
            readers_max: 4,
            queue_max: 1024,
            subscriber_events_max: 4096,
            blob_bytes_max: 256 * 1024 * 1024,
        }
    }
}

/// A handle of an open store. Cheap to clone; the writer ends with the last one.
#[derive(Clone)]
pub struct Store(Arc<Inner>);

struct Inner {
    settings: StoreSettings,
    context: Arc<Context>,
    /// The writer's queue; the writer ends when this is dropped.
    jobs: mpsc::Sender<Job>,
    /// Committed events, from the writer.
    published: broadcast::Sender<Event>,
    /// Open reader connections that nobody uses at the moment.
    idle: Mutex<Vec<Connection>>,
    /// One permit for each read that may run.
    readers: Arc<Semaphore>,
    blobs: Blobs,
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
        let mut sets = vec![MIGRATIONS];
        sets.extend(migrations);
        off_the_runtime(move || Self::open_now(settings, ambient, &sets)).await
    }

    fn open_now(settings: StoreSettings, ambient: Ambient, sets: &[Migrations]) -> Result<Self, StoreError> {
        let path = settings.dir.join("longhaul.db");
        for dir in [&settings.dir, &settings.dir.join("blobs"), &settings.dir.join("locks")] {
            private_dir(dir)?;
        }
        // Two first openings at once would race for the journal mode and the migrations.
        let opening = private_file(&settings.dir.join("locks/open.lock"))?;
        rustix::fs::flock(&opening, rustix::fs::FlockOperation::LockExclusive)
            .map_err(|error| from_io(&settings.dir.join("locks/open.lock"), error.into()))?;
        private_file(&path)?;
        let mut connection = connect(&path, &settings)?;
        migrations::apply(&mut connection, &path, sets, ambient.clock.now().0)?;
        drop(opening);

        let context = Arc::new(Context { path: path.clone(), ambient });
        let (jobs, mut queue) = mpsc::channel(settings.queue_max.max(1));
        let (published, _) = broadcast::channel(settings.subscriber_events_max.max(1));
        let (writer_context, writer_published) = (context.clone(), published.clone());
        std::thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || writer::run(&connection, &writer_context, &mut queue, &writer_published))
            .map_err(|error| from_io(&path, error))?;
        Ok(Self(Arc::new(Inner {
            blobs: Blobs::new(settings.dir.join("blobs"), settings.blob_bytes_max, context.clone()),
            readers: Arc::new(Semaphore::new(settings.readers_max.max(1))),
            idle: Mutex::new(Vec::new()),
            settings,
            context,
            jobs,
            published,
        })))
    }

    /// Runs `f` in a write transaction and returns once its commit is on the disk. When `f` fails or panics, all it
    /// wrote is undone. `f` runs on the writer's thread: it must not block on anything but the database. Dropping the
    /// returned future does not take the transaction back.
    ///
    /// # Errors
    /// Those of `f`; those of the commit, as `E::from(StoreError)`.
    pub async fn write<T, E>(&self, f: impl FnOnce(&mut Tx<'_>) -> Result<T, E> + Send + 'static) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        // An error of `send` only means that the caller has gone.
        let job = writer::job(f, move |outcome| drop(answer.send(outcome)));
        if self.0.jobs.send(job).await.is_err() {
            return Err(self.closed().into());
        }
        answered.await.unwrap_or_else(|_| Err(self.closed().into()))
    }

    /// Runs `f` on a snapshot of everything committed so far, beside the writer. `f` may block its thread.
    ///
    /// # Errors
    /// Those of `f`; those of the database, as `E::from(StoreError)`.
    pub async fn read<T, E>(&self, f: impl FnOnce(&ReadTx<'_>) -> Result<T, E> + Send + 'static) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
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
    /// than the setting is told so and reads the rest with [`crate::events`]. Only this process's events come here.
    #[must_use]
    pub fn subscribe(&self) -> broadcast::Receiver<Event> {
        self.0.published.subscribe()
    }

    /// The folder of the store.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.0.settings.dir
    }

    /// The clock, randomness and id generator it was opened with.
    #[must_use]
    pub fn ambient(&self) -> &Ambient {
        &self.0.context.ambient
    }

    fn closed(&self) -> StoreError {
        StoreError::Closed { path: self.0.context.path.clone() }
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("dir", &self.0.settings.dir).finish_non_exhaustive()
    }
}

impl Inner {
    fn read_now<T, E: From<StoreError>>(&self, f: impl FnOnce(&ReadTx<'_>) -> Result<T, E>) -> Result<T, E> {
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
        let begin = |sql| connection.prepare_cached(sql).and_then(|mut statement| statement.execute([]));
        begin("BEGIN").map_err(|error| from_sqlite(path, "BEGIN", error))?;
        let outcome = f(&ReadTx { connection: &connection, context: &self.context });
        // A connection whose snapshot does not end is closed rather than kept.
        let ended = begin("ROLLBACK").is_ok();
        if ended {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        }
        outcome
    }
}

fn connect(path: &Path, settings: &StoreSettings) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(|error| from_sqlite(path, "open", error))?;
    connection
        .busy_timeout(Duration::from_millis(settings.busy_ms_max))
        .map_err(|error| from_sqlite(path, "busy_timeout", error))?;
    connection.set_prepared_statement_cache_capacity(256);
    // FULL makes every commit survive a power cut: what was acknowledged stays.
    for sql in [
        "PRAGMA journal_mode = WAL",
        "PRAGMA synchronous = FULL",
        "PRAGMA foreign_keys = ON",
        "SELECT count(*) FROM sqlite_schema",
    ] {
        pragma(&connection, path, sql)?;
    }
    Ok(connection)
}

/// Runs a statement that may or may not answer with rows.
fn pragma(connection: &Connection, path: &Path, sql: &str) -> Result<(), StoreError> {
    connection.execute_batch(sql).map_err(|error| from_sqlite(path, sql, error))
}

fn private_dir(dir: &Path) -> Result<(), StoreError> {
    // A folder that exists keeps its mode: it may be shared on purpose, or be no folder of ours at all.
    if dir.is_dir() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(|error| from_io(dir, error))
}

/// Opens the file, made with mode 0600 where it does not exist. SQLite gives its side files the same mode.
pub(crate) fn private_file(path: &Path) -> Result<File, StoreError> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(|error| from_io(path, error))
}

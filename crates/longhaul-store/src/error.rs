//! Why the store could not do what it was asked, sorted by what the reader of the message can do about it.
//!
//! It owns the translation of SQLite's codes and of the file system's errors; no other file looks at either.
//! Invariant: errors are values that can be cloned, because one failed commit is everybody's failure in its group.

use std::{
    error::Error,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use longhaul_core::{Digest, ThreadId};
use rusqlite::ErrorCode;

/// What lies beneath a [`StoreError`]: the driver's or the operating system's own words.
pub type Cause = Arc<dyn Error + Send + Sync>;

/// Why a store operation failed. Nothing of the failed transaction was kept, but for [`StoreError::OutcomeUnknown`].
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// The store was written by a later release.
    #[error(
        "the store {path} was written by a newer longhaul (its {component} tables have version {found}, this program \
         knows {known}): update longhaul, or choose another folder with LONGHAUL_HOME"
    )]
    Newer {
        /// The database file.
        path: PathBuf,
        /// Whose tables are newer.
        component: String,
        /// Version in the file.
        found: u32,
        /// Newest version this program knows.
        known: u32,
    },
    /// The database file is damaged, or is no database.
    #[error(
        "the store {path} is damaged or is not a database: keep a copy, then move it away together with its -wal file \
         (`mv {path} {path}.damaged`), and restore a backup or start anew"
    )]
    Corrupt {
        /// The database file.
        path: PathBuf,
        /// SQLite's words.
        #[source]
        source: Cause,
    },
    /// No space is left.
    #[error("the disk that holds {path} is full: nothing was half written; free some space, then repeat the command")]
    DiskFull {
        /// The file that could not grow.
        path: PathBuf,
        /// The system's words.
        #[source]
        source: Cause,
    },
    /// Another process kept the database locked for longer than the busy timeout.
    #[error("the store {path} is kept locked by another process: end it, then repeat the command")]
    Locked {
        /// The database file.
        path: PathBuf,
        /// SQLite's words.
        #[source]
        source: Cause,
    },
    /// The file system refused.
    #[error(
        "cannot use {path}: check that it exists, that this user may write it and that the disk is mounted writable"
    )]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's words.
        #[source]
        source: Cause,
    },
    /// A row contradicts a constraint of its table.
    #[error("the row contradicts the table's rules: {detail}")]
    Constraint {
        /// Which constraint: `UNIQUE constraint failed: tasks.tenant_id, tasks.thread_id`.
        detail: String,
    },
    /// A statement that SQLite does not accept: a defect of this program.
    #[error("the statement {sql:?} was refused by the database: this is a defect, please report it")]
    Sql {
        /// The statement, cut at 200 characters.
        sql: String,
        /// SQLite's words.
        #[source]
        source: Cause,
    },
    /// A migration step failed; the store is as it was before that step.
    #[error("migration {version} of {component} failed: please report it; the store is unchanged")]
    Migration {
        /// Whose migration.
        component: &'static str,
        /// Version that could not be reached.
        version: u32,
        /// Why.
        #[source]
        source: Box<StoreError>,
    },
    /// A column holds something else than the caller asked for.
    #[error("column {column} holds {found}, not {expected}")]
    Column {
        /// Zero-based position in the row.
        column: usize,
        /// What was asked for.
        expected: &'static str,
        /// What is there.
        found: String,
    },
    /// The keys that were given are none.
    #[error(transparent)]
    Keys(#[from] crate::StateKeysError),
    /// A sealed text cannot be opened, or none can be sealed.
    #[error(
        "what was sealed with the key {key} at {place} cannot be opened: {why}; check the keys the store is opened with"
    )]
    Unsealed {
        /// The key's id.
        key: String,
        /// Where it stands.
        place: String,
        /// Why.
        why: &'static str,
    },
    /// A query that must find a row found none.
    #[error("no row answers {sql:?}")]
    NoRow {
        /// The statement, cut at 200 characters.
        sql: String,
    },
    /// A stored record is not of the form this release reads.
    #[error("the stored {what} {id} cannot be read: it is damaged or was written by another version")]
    Record {
        /// What kind of record.
        what: &'static str,
        /// Which one.
        id: String,
        /// Why.
        #[source]
        source: Arc<serde_json::Error>,
    },
    /// An event's data exceeds [`longhaul_core::limits::EVENT_DATA_BYTES_MAX`].
    #[error(
        "the event {kind} carries {bytes} bytes, at most {bytes_max} are allowed: keep the content as a record and refer to it"
    )]
    EventTooLarge {
        /// The event's kind.
        kind: String,
        /// Size of its data when printed.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// Another process has taken the thread over; what this transaction would have written was not kept.
    #[error("thread {thread} has been taken over by another process: this one may not write to it any more")]
    LeaseLost {
        /// The thread.
        thread: ThreadId,
    },
    /// No blob of this digest belongs to the tenant.
    #[error("the blob {digest} is not in {path}")]
    BlobMissing {
        /// The digest asked for.
        digest: Digest,
        /// Where it was expected.
        path: PathBuf,
    },
    /// A blob's bytes are not those that were put.
    #[error("the blob {path} is damaged: its content has the digest {found}, not {digest}; restore it from a backup")]
    BlobDamaged {
        /// The digest asked for.
        digest: Digest,
        /// The digest of what is there.
        found: Digest,
        /// The file.
        path: PathBuf,
    },
    /// A blob larger than the store's setting.
    #[error("a blob of {bytes} bytes was refused, at most {bytes_max} are allowed")]
    BlobTooLarge {
        /// Its size.
        bytes: u64,
        /// The limit.
        bytes_max: u64,
    },
    /// A blob that was asked for whole, and is meant to be read in pieces.
    #[error("the blob {digest} is larger than {bytes_max} bytes: read it in pieces, with `Blobs::open`")]
    BlobNotWhole {
        /// The digest asked for.
        digest: Digest,
        /// Most that is given whole.
        bytes_max: u64,
    },
    /// The reader whose content was to be kept failed.
    #[error("the content that was to be kept could not be read to its end: nothing was kept; send it again")]
    BlobInterrupted {
        /// The reader's words.
        #[source]
        source: Cause,
    },
    /// A bucket's setting is missing or wrong.
    #[error(transparent)]
    BucketSetting(#[from] crate::s3::S3Error),
    /// The bucket does not answer, or refuses.
    #[error(
        "{place} cannot be used ({problem}): check its name, its keys and that it answers, then repeat the command"
    )]
    Bucket {
        /// The bucket, without credentials.
        place: String,
        /// What happened, shortened.
        problem: String,
    },
    /// An object that rows name is not in the bucket.
    #[error("{path} is not there: put its content again or restore a backup")]
    ObjectMissing {
        /// The bucket and the object's key.
        path: PathBuf,
    },
    /// A blob in a bucket that this store was not opened with.
    #[error("the blob {digest} is in {place}, which this store was not opened with: set store.blobs to it")]
    BlobElsewhere {
        /// The digest asked for.
        digest: Digest,
        /// The bucket, without credentials.
        place: String,
    },
    /// Nobody has said which blobs are needed, so none can be called superfluous.
    #[error("no component of the store {path} has said which blobs it needs: nothing was removed")]
    NoBlobReferences {
        /// The database.
        path: PathBuf,
    },
    /// PostgreSQL has its own tools, which keep the blobs as well: they are rows there.
    #[error("the store {path} is a PostgreSQL database: make its backups with pg_dump or what its server offers")]
    BackedUpElsewhere {
        /// The database, without its password.
        path: PathBuf,
    },
    /// The folder that was to receive a backup holds something.
    #[error("{path} is not empty: choose a new or an empty folder for the backup")]
    NotEmpty {
        /// The folder.
        path: PathBuf,
    },
    /// The caller's closure panicked; its part of the transaction was undone.
    #[error("a transaction's code panicked: {message}; this is a defect, please report it")]
    Panicked {
        /// The panic's message.
        message: String,
    },
    /// The database rolled the transaction back by itself, without a reason that the program saw.
    #[error(
        "the store {path} rolled the transaction back: check the disk and the system's log, then repeat the command"
    )]
    RolledBack {
        /// The database file.
        path: PathBuf,
    },
    /// A database's URL that cannot be used.
    #[error("the database's address cannot be used: {reason}")]
    Address {
        /// What is wrong with it; never the URL itself, which holds a password.
        reason: &'static str,
    },
    /// The database server does not answer.
    #[error("cannot reach {path}: check that the server runs and that its address is right, then repeat the command")]
    Unreachable {
        /// The database, without its password.
        path: PathBuf,
        /// The driver's words.
        #[source]
        source: Cause,
    },
    /// The database server answers, and does not let us in or lets us do less than we need.
    #[error("{path} refuses: {detail}; check user, password, database and rights")]
    Refused {
        /// The database, without its password.
        path: PathBuf,
        /// The server's words.
        detail: String,
    },
    /// The connection was cut before the commit.
    #[error("the connection to {path} was cut: nothing of the transaction was kept; repeat the command")]
    Disconnected {
        /// The database, without its password.
        path: PathBuf,
        /// The driver's words.
        #[source]
        source: Cause,
    },
    /// PostgreSQL has no character U+0000 in its texts.
    #[error("parameter {parameter} is text with a NUL character, which PostgreSQL cannot store: keep it as bytes")]
    NulInText {
        /// One-based, as in `?1`.
        parameter: usize,
    },
    /// A notice that is too large to be carried.
    #[error("a notice of {bytes} bytes was refused, at most {bytes_max} are allowed: keep the content as a row")]
    NoticeTooLarge {
        /// Channel and payload together.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// A commit was begun and its end never heard of: all of the transaction was kept, or nothing of it.
    #[error("it is not known whether {path} has kept the last transaction: read what is there before repeating it")]
    OutcomeUnknown {
        /// The database.
        path: PathBuf,
    },
    /// A test's [`crate::Faults`] let the store die.
    #[error("the store {path} was made to die after {commits} commits: revive it to go on")]
    Killed {
        /// The database.
        path: PathBuf,
        /// How many commits had taken place.
        commits: u64,
    },
    /// A read's statement would have changed the store.
    #[error("the statement {sql:?} changes rows and was refused in a read: this is a defect, please report it")]
    ReadOnly {
        /// The statement, cut at 200 characters.
        sql: String,
    },
    /// The store's writer has ended.
    #[error("the store {path} is closed")]
    Closed {
        /// The database file.
        path: PathBuf,
    },
}

impl StoreError {
    /// Wraps a JSON error of a stored record: `StoreError::record("checkpoint", id)`.
    pub fn record(what: &'static str, id: impl ToString) -> impl FnOnce(serde_json::Error) -> Self {
        move |source| Self::Record { what, id: id.to_string(), source: Arc::new(source) }
    }
}

/// Translates a file system error about `path`.
pub(crate) fn from_io(path: &Path, error: io::Error) -> StoreError {
    let path = path.to_owned();
    if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
        StoreError::DiskFull { path, source: Arc::new(error) }
    } else {
        StoreError::Io { path, source: Arc::new(error) }
    }
}

/// Translates a driver error about the database at `path`, met while running `sql`.
pub(crate) fn from_sqlite(path: &Path, sql: &str, error: rusqlite::Error) -> StoreError {
    let path = path.to_owned();
    let detail = error.to_string();
    let code = error.sqlite_error_code();
    let source: Cause = Arc::new(error);
    match code {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => StoreError::Corrupt { path, source },
        Some(ErrorCode::DiskFull) => StoreError::DiskFull { path, source },
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Locked { path, source },
        Some(ErrorCode::ConstraintViolation) => StoreError::Constraint { detail },
        Some(
            ErrorCode::SystemIoFailure
            | ErrorCode::CannotOpen
            | ErrorCode::ReadOnly
            | ErrorCode::PermissionDenied
            | ErrorCode::FileLockingProtocolFailed,
        ) => {
            if is_full(&path) {
                StoreError::DiskFull { path, source }
            } else {
                StoreError::Io { path, source }
            }
        }
        _ => StoreError::Sql { sql: cut(sql), source },
    }
}

/// SQLite reports some failures to grow its shared memory as plain I/O errors; the file system knows better.
fn is_full(path: &Path) -> bool {
    path.parent().and_then(|dir| rustix::fs::statvfs(dir).ok()).is_some_and(|fs| fs.f_blocks > 0 && fs.f_bavail == 0)
}

pub(crate) fn cut(sql: &str) -> String {
    sql.chars().take(200).collect()
}

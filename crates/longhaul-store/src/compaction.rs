//! Rewriting the database, so that what was deleted is not in its files any more.
//!
//! A deleted row stays readable in free pages, in the write-ahead log and in dead tuples until something overwrites it.
//! Invariant: what is reported as complete leaves no byte of a row that was deleted before the call in the files of the
//! database. Copies elsewhere (backups, replicas, an archive of PostgreSQL's log) are not ours.

use std::time::{Duration, Instant};

use crate::{
    Store, StoreError,
    blobs::off_the_runtime,
    error::from_sqlite,
    postgres::{
        engine::Postgres,
        session::{Purpose, Session},
    },
    sqlite::Sqlite,
    store::Engine,
    tx::Context,
};

/// How often to look whether others have let go.
const POLL: Duration = Duration::from_millis(5);

/// What a compaction came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compaction {
    /// Size of the database before, in bytes.
    pub bytes_before: u64,
    /// And after.
    pub bytes_after: u64,
    /// False when a reader of another process kept an old state alive for the whole wait: what was deleted may still
    /// be in the write-ahead log until the next compaction.
    pub is_complete: bool,
}

impl Store {
    /// Rewrites the database without what was deleted, and empties its log. On PostgreSQL these tables of the schema in
    /// use are rewritten, or all of them if none is named; on SQLite the whole file is. Nobody writes meanwhile, and on PostgreSQL nobody reads these
    /// tables.
    ///
    /// # Errors
    /// [`StoreError::Locked`] when another process does not let go in time, [`StoreError::DiskFull`]: as much free space
    /// as the database takes is needed; those of the database.
    pub async fn compact(&self, tables: &'static [&'static str]) -> Result<Compaction, StoreError> {
        let store = self.clone();
        off_the_runtime(move || match store.engine() {
            Engine::Sqlite(sqlite) => compact_sqlite(sqlite, store.context(), store.patience()),
            Engine::Postgres(postgres) => compact_postgres(postgres, tables, store.patience()),
        })
        .await
    }
}

fn compact_sqlite(sqlite: &Sqlite, context: &Context, patience: Duration) -> Result<Compaction, StoreError> {
    let path = &context.path;
    let connection = sqlite.writer_seat();
    let size = || -> Result<u64, StoreError> {
        let number = |sql: &str| {
            connection.query_row(sql, [], |row| row.get::<_, i64>(0)).map_err(|error| from_sqlite(path, sql, error))
        };
        Ok(u64::try_from(number("PRAGMA page_count")? * number("PRAGMA page_size")?).unwrap_or(0))
    };
    let begun = Instant::now();
    // Prepared statements would otherwise be prepared again one by one.
    connection.flush_prepared_statement_cache();
    let bytes_before = size()?;
    loop {
        match connection.execute_batch("VACUUM").map_err(|error| from_sqlite(path, "VACUUM", error)) {
            // Nothing tells when another process has ended its transaction.
            Err(StoreError::Locked { .. }) if begun.elapsed() < patience => std::thread::park_timeout(POLL),
            Err(error) => return Err(error),
            Ok(()) => break,
        }
    }
    if sqlite.is_in_memory() {
        return Ok(Compaction { bytes_before, bytes_after: size()?, is_complete: true });
    }
    let sql = "PRAGMA wal_checkpoint(TRUNCATE)";
    let is_complete = loop {
        let busy: i64 =
            connection.query_row(sql, [], |row| row.get(0)).map_err(|error| from_sqlite(path, sql, error))?;
        if busy == 0 || begun.elapsed() >= patience {
            break busy == 0;
        }
        std::thread::park_timeout(POLL);
    };
    Ok(Compaction { bytes_before, bytes_after: size()?, is_complete })
}

fn compact_postgres(postgres: &Postgres, tables: &[&str], patience: Duration) -> Result<Compaction, StoreError> {
    let lock_ms_max = u64::try_from(patience.as_millis()).unwrap_or(u64::MAX);
    let session = Session::open(postgres.address(), Purpose::Write, lock_ms_max, patience)?;
    let mut tables: Vec<String> = tables.iter().map(|table| (*table).to_owned()).collect();
    if tables.is_empty() {
        session.control("BEGIN READ ONLY")?;
        let sql = "SELECT quote_ident(tablename) FROM pg_tables WHERE schemaname = current_schema() ORDER BY 1";
        session.run(sql, &[], &mut |row| {
            tables.extend(row.try_get::<_, String>(0).ok());
            Ok(true)
        })?;
        session.control("ROLLBACK")?;
    }
    let size = || -> Result<u64, StoreError> {
        let mut bytes = 0;
        session.control("BEGIN READ ONLY")?;
        for table in &tables {
            session.run("SELECT pg_total_relation_size(to_regclass(?1))", &[table.as_str().into()], &mut |row| {
                bytes += u64::try_from(row.try_get::<_, Option<i64>>(0).ok().flatten().unwrap_or(0)).unwrap_or(0);
                Ok(true)
            })?;
        }
        session.control("ROLLBACK")?;
        Ok(bytes)
    };
    let bytes_before = size()?;
    for table in &tables {
        session.control(&format!("VACUUM (FULL, ANALYZE) {table}"))?;
    }
    // The pages of the old files are still in the server's cache and on their way to the disk until then.
    let _ = session.control("CHECKPOINT");
    Ok(Compaction { bytes_before, bytes_after: size()?, is_complete: true })
}

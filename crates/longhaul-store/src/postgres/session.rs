//! One connection, used by one thread at a time.
//!
//! It owns the driver's runtime, the cache of prepared statements, and savepoints around statements; not when a
//! transaction begins or ends (`writer`, `reader`). Invariant: a statement that fails in a write transaction undoes only
//! itself, as on SQLite; where that is impossible the transaction can no longer be committed.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    fmt::Write,
    path::PathBuf,
    pin::pin,
    time::{Duration, Instant},
};

use futures::{StreamExt, future};
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{Client, NoTls, Row, RowStream, Statement, error::SqlState};

use super::{
    PostgresAddress,
    cell::{Param, fits, natural},
    dialect,
    failure::from_postgres,
};
use crate::{
    StoreError, Value,
    error::{cut, from_io},
};

/// Statements kept prepared. Beyond that all are forgotten, and those in use are prepared again.
const STATEMENTS_MAX: usize = 256;

/// A program that stops in the middle of a transaction loses it after this, or after half the time that others wait
/// for their turn, if that is more: it must not hold them up for ever.
const IDLE_WRITER_MS_MIN: u64 = 1_000;

/// The server found no type for a parameter, or more than one.
const UNDECIDED: [SqlState; 2] = [SqlState::INDETERMINATE_DATATYPE, SqlState::AMBIGUOUS_PARAMETER];

/// The column of a table whose values the database chooses.
const KEY_OF: &str = "SELECT quote_ident(attname) FROM pg_attribute
    WHERE attrelid = to_regclass(?1) AND attidentity <> '' AND NOT attisdropped";

const RETRY: Duration = Duration::from_millis(50);

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Write transactions.
    Write,
    /// Snapshots.
    Read,
}

pub(crate) struct Session {
    /// Taken when the session is dropped, which may happen where blocking is forbidden.
    runtime: Option<Runtime>,
    client: Client,
    path: PathBuf,
    statements: RefCell<HashMap<String, Vec<Statement>>>,
    /// The key columns of the tables that were inserted into.
    keys: RefCell<HashMap<String, String>>,
    /// Control statements that go out together with the next statement.
    pending: RefCell<String>,
    /// The savepoint of the last statement is there.
    guarded: Cell<bool>,
    broken: Cell<bool>,
    /// Why the open transaction cannot be committed any more.
    lost: RefCell<Option<StoreError>>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Session {
    /// Connects, and waits up to `patience` for a server that is starting or cannot be reached. Blocks its thread.
    pub(crate) fn open(
        address: &PostgresAddress,
        purpose: Purpose,
        lock_ms_max: u64,
        patience: Duration,
    ) -> Result<Self, StoreError> {
        let path = address.shown().clone();
        let runtime = Builder::new_current_thread().enable_all().build().map_err(|error| from_io(&path, error))?;
        let until = Instant::now() + patience;
        let client = runtime.block_on(async {
            loop {
                match connect(address, purpose, lock_ms_max).await {
                    Err(StoreError::Disconnected { .. }) if Instant::now() < until => tokio::time::sleep(RETRY).await,
                    Err(StoreError::Disconnected { path, source }) => {
                        break Err(StoreError::Unreachable { path, source });
                    }
                    outcome => break outcome,
                }
            }
        })?;
        Ok(Self {
            runtime: Some(runtime),
            client,
            path,
            statements: RefCell::default(),
            keys: RefCell::default(),
            pending: RefCell::default(),
            guarded: Cell::new(false),
            broken: Cell::new(false),
            lost: RefCell::new(None),
        })
    }

    /// The connection has gone, with whatever was not committed.
    pub(crate) fn is_closed(&self) -> bool {
        self.broken.get() || self.client.is_closed()
    }

    /// Why the open transaction cannot be committed, if it cannot.
    pub(crate) fn take_lost(&self) -> Option<StoreError> {
        self.lost.borrow_mut().take()
    }

    /// Runs control statements now, after those that were put off.
    pub(crate) fn control(&self, sql: &str) -> Result<(), StoreError> {
        self.put_off(sql);
        self.guarded.set(false);
        let pending = self.pending.take();
        self.block_on(self.client.batch_execute(&pending)).map_err(|error| self.wrong(&pending, error))
    }

    /// Runs control statements together with the next statement.
    pub(crate) fn put_off(&self, sql: &str) {
        let mut pending = self.pending.borrow_mut();
        // Writing to a string cannot fail.
        let _ = write!(pending, "{sql};");
        self.guarded.set(false);
    }

    /// Inserts one row and gives the key that the database chose for it.
    pub(crate) fn insert(&self, sql: &str, params: &[Value]) -> Result<i64, StoreError> {
        let no_key = || StoreError::NoRow { sql: cut(sql) };
        let mut words = sql.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| !word.is_empty());
        let table = words.nth(2).ok_or_else(no_key)?;
        let known = self.keys.borrow().get(table).cloned();
        let key = match known {
            Some(key) => key,
            None => {
                let mut found = None;
                self.run(KEY_OF, &[Value::Text(table.to_lowercase())], &mut |row| {
                    found = row.try_get::<_, String>(0).ok();
                    Ok(false)
                })?;
                let key = found.ok_or_else(no_key)?;
                self.keys.borrow_mut().insert(table.to_owned(), key.clone());
                key
            }
        };
        let mut chosen = None;
        self.run(&format!("{sql} RETURNING {key}"), params, &mut |row| {
            chosen = row.try_get::<_, i64>(0).ok();
            Ok(true)
        })?;
        chosen.ok_or_else(no_key)
    }

    /// Runs a statement, gives its rows to `each` until that answers `false`, and tells how many rows it changed.
    pub(crate) fn run(
        &self,
        sql: &str,
        params: &[Value],
        each: &mut dyn FnMut(&Row) -> Result<bool, StoreError>,
    ) -> Result<u64, StoreError> {
        if let Some(number) = params.iter().position(|value| matches!(value, Value::Text(text) if text.contains('\0')))
        {
            return Err(StoreError::NulInText { parameter: number + 1 });
        }
        let cached = self.cached(sql, params);
        // A statement that is not prepared yet may be refused, and a change may contradict a rule of its table.
        let guard = cached.is_none() || !is_select(sql);
        if guard {
            let begun = if self.guarded.get() { "RELEASE SAVEPOINT one; SAVEPOINT one" } else { "SAVEPOINT one" };
            self.put_off(begun);
            self.guarded.set(true);
        }
        let begun = self.block_on(self.begin(sql, params, cached));
        let rows = match begun {
            Ok(rows) => rows,
            Err(error) => return Err(self.undo(guard, self.wrong(sql, error))),
        };
        let mut rows = pin!(rows);
        loop {
            match self.block_on(rows.next()) {
                Some(Ok(row)) => {
                    if !each(&row)? {
                        return Ok(0);
                    }
                }
                Some(Err(error)) => return Err(self.undo(guard, self.wrong(sql, error))),
                None => return Ok(rows.rows_affected().unwrap_or(0)),
            }
        }
    }

    /// Sends the statement, and what was put off before it, in one go where it is already prepared.
    async fn begin(
        &self,
        sql: &str,
        params: &[Value],
        cached: Option<Statement>,
    ) -> Result<RowStream, tokio_postgres::Error> {
        let pending = self.pending.take();
        let values = params.iter().map(Param);
        match cached {
            Some(statement) if pending.is_empty() => self.client.query_raw(&statement, values).await,
            Some(statement) => {
                let before = self.client.batch_execute(&pending);
                let (before, rows) = future::join(before, self.client.query_raw(&statement, values)).await;
                before.and(rows)
            }
            None => {
                if !pending.is_empty() {
                    self.client.batch_execute(&pending).await?;
                }
                let statement = self.prepare(sql, params).await?;
                self.client.query_raw(&statement, values).await
            }
        }
    }

    fn cached(&self, sql: &str, params: &[Value]) -> Option<Statement> {
        let statements = self.statements.borrow();
        statements.get(sql)?.iter().find(|statement| all_fit(statement, params)).cloned()
    }

    /// Prepares a statement: with the types that the server works out, and where a value is of another type, with
    /// the value's own.
    async fn prepare(&self, sql: &str, params: &[Value]) -> Result<Statement, tokio_postgres::Error> {
        let translated = dialect::statement(sql);
        let mut statement = match self.client.prepare(&translated).await {
            Err(error) if error.code().is_some_and(|code| UNDECIDED.contains(code)) && !params.is_empty() => {
                self.client.batch_execute("ROLLBACK TO SAVEPOINT one").await?;
                let types: Vec<_> = params.iter().map(natural).collect();
                self.client.prepare_typed(&translated, &types).await?
            }
            outcome => outcome?,
        };
        if !all_fit(&statement, params) && statement.params().len() == params.len() {
            let choose = |(ty, value): (&tokio_postgres::types::Type, &Value)| {
                if fits(value, ty) { ty.clone() } else { natural(value) }
            };
            let types: Vec<_> = statement.params().iter().zip(params).map(choose).collect();
            statement = self.client.prepare_typed(&translated, &types).await?;
        }
        let mut statements = self.statements.borrow_mut();
        if statements.len() >= STATEMENTS_MAX {
            statements.clear();
        }
        statements.entry(sql.to_owned()).or_default().push(statement.clone());
        Ok(statement)
    }

    /// Undoes a failed statement alone, or marks its transaction as lost.
    fn undo(&self, guarded: bool, error: StoreError) -> StoreError {
        let undo = self.client.batch_execute("ROLLBACK TO SAVEPOINT one");
        let undone = guarded && !self.is_closed() && self.block_on(undo).is_ok();
        if !undone {
            *self.lost.borrow_mut() = Some(error.clone());
        }
        error
    }

    fn wrong(&self, sql: &str, error: tokio_postgres::Error) -> StoreError {
        let error = from_postgres(&self.path, sql, error);
        // The server says that it closes a connection before it does.
        if matches!(error, StoreError::Disconnected { .. }) {
            self.broken.set(true);
        }
        error
    }

    fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.as_ref().expect("it is taken when the session is dropped").block_on(work)
    }
}

async fn connect(address: &PostgresAddress, purpose: Purpose, lock_ms_max: u64) -> Result<Client, StoreError> {
    let wrong = |error| from_postgres(address.shown(), "connect", error);
    let (client, connection) = address.config().connect(NoTls).await.map_err(wrong)?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection to PostgreSQL ended");
        }
    });
    let mut settings = format!(
        "SET lock_timeout = {lock_ms_max}; SET statement_timeout = 0; SET client_min_messages = warning; \
         SET standard_conforming_strings = on; "
    );
    if purpose == Purpose::Write {
        // What was acknowledged stays, whatever the server's default is.
        let idle = (lock_ms_max / 2).max(IDLE_WRITER_MS_MIN);
        let _ = write!(settings, "SET synchronous_commit = on; SET idle_in_transaction_session_timeout = {idle}");
    }
    client.batch_execute(&settings).await.map_err(wrong)?;
    Ok(client)
}

fn all_fit(statement: &Statement, params: &[Value]) -> bool {
    statement.params().iter().zip(params).all(|(ty, value)| fits(value, ty))
}

/// Whether the statement only reads, so that it fails for a defect only.
fn is_select(sql: &str) -> bool {
    sql.trim_start().get(..6).is_some_and(|word| word.eq_ignore_ascii_case("select"))
}

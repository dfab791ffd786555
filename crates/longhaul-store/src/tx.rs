//! The two transaction types through which every crate reads and writes.
//!
//! It owns the running of statements; not when a transaction begins or ends (`writer`, `store`).
//! Invariant: code that holds a [`Tx`] does no other I/O, and nothing it wrote is visible before the commit.

use std::{ops::Deref, path::PathBuf};

use longhaul_core::{Ambient, Event, TimeMs};
use rusqlite::Connection;

use crate::{
    Row, StateKeys, StoreError, Value,
    error::{cut, from_sqlite},
    notices::Signal,
    postgres::session::Session,
};

/// The open transaction's connection.
#[derive(Clone, Copy)]
pub(crate) enum Link<'a> {
    Sqlite(&'a Connection),
    Postgres(&'a Session),
}

/// What transactions know of their store.
#[derive(Debug)]
pub(crate) struct Context {
    /// The database file; `:memory:` where there is none, and `postgres://…` without its password.
    pub(crate) path: PathBuf,
    pub(crate) ambient: Ambient,
    pub(crate) keys: Option<StateKeys>,
}

/// A snapshot of the store: what was committed when it began, whatever others write meanwhile.
#[derive(Clone, Copy)]
pub struct ReadTx<'a> {
    pub(crate) link: Link<'a>,
    pub(crate) context: &'a Context,
    /// It belongs to a write transaction.
    pub(crate) may_change: bool,
}

impl ReadTx<'_> {
    /// All rows of the answer, each read by `f`. Parameters are `?1`, `?2` ….
    ///
    /// # Errors
    /// Those of the database, and those of `f`.
    pub fn query<T>(
        &self,
        sql: &str,
        params: &[Value],
        mut f: impl FnMut(&Row<'_>) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let mut found = Vec::new();
        self.for_each(sql, params, |row| {
            found.push(f(row)?);
            Ok(true)
        })?;
        Ok(found)
    }

    /// The first row of the answer, if there is one.
    ///
    /// # Errors
    /// Those of the database, and those of `f`.
    pub fn query_optional<T>(
        &self,
        sql: &str,
        params: &[Value],
        mut f: impl FnMut(&Row<'_>) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        let mut found = None;
        self.for_each(sql, params, |row| {
            found = Some(f(row)?);
            Ok(false)
        })?;
        Ok(found)
    }

    /// The first row of the answer.
    ///
    /// # Errors
    /// [`StoreError::NoRow`] when there is none; those of the database, and those of `f`.
    pub fn query_one<T>(
        &self,
        sql: &str,
        params: &[Value],
        f: impl FnMut(&Row<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.query_optional(sql, params, f)?.ok_or_else(|| StoreError::NoRow { sql: cut(sql) })
    }

    /// Gives the rows to `f` one by one, without collecting them, until it answers `false`.
    ///
    /// # Errors
    /// Those of the database, and those of `f`.
    pub fn for_each(
        &self,
        sql: &str,
        params: &[Value],
        mut f: impl FnMut(&Row<'_>) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        match self.link {
            Link::Sqlite(connection) => {
                let wrong = |error| from_sqlite(&self.context.path, sql, error);
                let mut statement = connection.prepare_cached(sql).map_err(wrong)?;
                if !self.may_change && !statement.readonly() {
                    return Err(StoreError::ReadOnly { sql: cut(sql) });
                }
                let mut rows = statement.query(rusqlite::params_from_iter(params)).map_err(wrong)?;
                while let Some(row) = rows.next().map_err(wrong)? {
                    if !f(&Row::sqlite(row))? {
                        break;
                    }
                }
                Ok(())
            }
            Link::Postgres(session) => session.run(sql, params, &mut |row| f(&Row::postgres(row))).map(drop),
        }
    }

    /// The same snapshot where a [`Tx`] is wanted: whatever it is asked to write is refused with
    /// [`StoreError::ReadOnly`]. For code that is given a transaction and must only read in this one.
    #[must_use]
    pub fn refusing_writes(&self) -> Tx<'_> {
        Tx::new(ReadTx { may_change: false, ..*self })
    }

    /// Now, by the one clock that everybody shares who uses this store: this machine's for a file, the server's for
    /// PostgreSQL. For what expires; everything else takes [`Self::now`], which tests can set.
    pub(crate) fn shared_now(&self) -> Result<TimeMs, StoreError> {
        match self.link {
            Link::Sqlite(_) => Ok(self.now()),
            Link::Postgres(_) => {
                self.query_one("SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)", &[], |row| {
                    row.get(0)
                })
            }
        }
    }

    /// Now, by the store's clock.
    #[must_use]
    pub fn now(&self) -> TimeMs {
        self.context.ambient.clock.now()
    }

    /// The store's clock, randomness and id generator.
    #[must_use]
    pub fn ambient(&self) -> &Ambient {
        &self.context.ambient
    }
}

/// A write transaction. It also reads, what it has written itself included.
pub struct Tx<'a> {
    pub(crate) read: ReadTx<'a>,
    /// Events appended so far; published when the commit has succeeded.
    pub(crate) appended: Vec<Event>,
    /// Notices of a SQLite transaction; sent when the commit has succeeded. PostgreSQL keeps its own.
    pub(crate) noticed: Vec<Signal>,
    /// The error on which SQLite rolled the whole transaction back by itself, if it did.
    pub(crate) broken: Option<StoreError>,
}

impl<'a> Tx<'a> {
    pub(crate) fn new(read: ReadTx<'a>) -> Self {
        Self { read, appended: Vec::new(), noticed: Vec::new(), broken: None }
    }
}

impl<'a> Deref for Tx<'a> {
    type Target = ReadTx<'a>;
    fn deref(&self) -> &ReadTx<'a> {
        &self.read
    }
}

impl Tx<'_> {
    /// Runs one statement and tells how many rows it changed.
    ///
    /// # Errors
    /// Those of the database; [`StoreError::Constraint`] leaves the transaction usable.
    pub fn execute(&mut self, sql: &str, params: &[Value]) -> Result<u64, StoreError> {
        self.check_may_change(sql)?;
        match self.read.link {
            Link::Sqlite(connection) => self.execute_sqlite(connection, sql, params),
            Link::Postgres(session) => session.run(sql, params, &mut |_| Ok(true)),
        }
    }

    fn check_may_change(&self, sql: &str) -> Result<(), StoreError> {
        if self.read.may_change { Ok(()) } else { Err(StoreError::ReadOnly { sql: cut(sql) }) }
    }

    fn execute_sqlite(&mut self, connection: &Connection, sql: &str, params: &[Value]) -> Result<u64, StoreError> {
        let changed = connection
            .prepare_cached(sql)
            .and_then(|mut statement| statement.execute(rusqlite::params_from_iter(params)));
        changed.map(|rows| rows as u64).map_err(|error| {
            let error = from_sqlite(&self.read.context.path, sql, error);
            if connection.is_autocommit() {
                self.broken = Some(error.clone());
            }
            error
        })
    }

    /// Inserts one row, by `INSERT INTO table …`, and gives the integer key the database chose for it.
    ///
    /// # Errors
    /// Those of [`Self::execute`].
    pub fn insert(&mut self, sql: &str, params: &[Value]) -> Result<i64, StoreError> {
        self.check_may_change(sql)?;
        match self.read.link {
            Link::Sqlite(connection) => {
                self.execute_sqlite(connection, sql, params)?;
                Ok(connection.last_insert_rowid())
            }
            Link::Postgres(session) => session.insert(sql, params),
        }
    }
}

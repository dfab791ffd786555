//! What the disk and the driver alone can do: the floor that durable figures are read against.
//!
//! The bare loop writes the very rows that a run of ours wrote, into a database of the same form. Invariant: both sides
//! have WAL, `synchronous=FULL` and the same size of page.

use std::{fs::OpenOptions, io::Write, path::Path, time::Instant};

use anyhow::{Context, ensure};
use longhaul_core::ThreadId;
use rusqlite::{Connection, types::Value as Cell};
use serde_json::{Value, json};
use tempfile::TempDir;

const COUNT: u32 = 2_000;
const ROW_BYTES: usize = 500;

pub(crate) fn measure() -> anyhow::Result<Value> {
    let dir = tempfile::tempdir()?;
    let commits = OneRow::new(dir.path())?.rate(COUNT)?;
    let mut file = OpenOptions::new().create(true).append(true).open(dir.path().join("raw"))?;
    let bytes = vec![7_u8; ROW_BYTES];
    let started = Instant::now();
    for _ in 0..COUNT {
        file.write_all(&bytes)?;
        file.sync_data()?;
    }
    let syncs = f64::from(COUNT) / started.elapsed().as_secs_f64();
    Ok(json!({ "commits_s": commits, "fdatasync_s": syncs }))
}

/// One row of 500 bytes a commit: the floor as everybody measures it.
pub(crate) struct OneRow(Connection);

impl OneRow {
    pub(crate) fn new(dir: &Path) -> anyhow::Result<Self> {
        let connection = Connection::open(dir.join("floor.db"))?;
        durable(&connection)?;
        connection.execute_batch("CREATE TABLE t (id INTEGER PRIMARY KEY, v BLOB)")?;
        Ok(Self(connection))
    }

    /// Commits a second.
    pub(crate) fn rate(&self, count: u32) -> anyhow::Result<f64> {
        let bytes = vec![7_u8; ROW_BYTES];
        let mut insert = self.0.prepare("INSERT INTO t (v) VALUES (?1)")?;
        let started = Instant::now();
        for _ in 0..count {
            // A transaction of its own.
            insert.execute([&bytes])?;
        }
        Ok(f64::from(count) / started.elapsed().as_secs_f64())
    }
}

fn durable(connection: &Connection) -> anyhow::Result<()> {
    let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    ensure!(mode == "wal", "no write-ahead log here: {mode}");
    Ok(connection.execute_batch("PRAGMA synchronous = FULL")?)
}

/// What a statement about the table says.
fn texts(connection: &Connection, sql: &str) -> anyhow::Result<Vec<String>> {
    let mut statement = connection.prepare(sql)?;
    let rows = statement.query_map([TABLE], |row| row.get(0))?;
    rows.collect::<Result<_, _>>().context("reading the store's form")
}

/// Writes again, alone, what one of our runs wrote for each of its supersteps.
pub(crate) struct Bare {
    ours: Connection,
    alone: Connection,
    insert: String,
    select: String,
    _dir: TempDir,
}

/// The table with one row for each superstep.
const TABLE: &str = "checkpoints";

impl Bare {
    /// An empty database of the same form as the store at `ours`.
    pub(crate) fn like(ours: &Path) -> anyhow::Result<Self> {
        let dir = tempfile::tempdir()?;
        let ours = Connection::open(ours)?;
        let alone = Connection::open(dir.path().join("bare.db"))?;
        let page: i64 = ours.query_row("PRAGMA page_size", [], |row| row.get(0))?;
        alone.execute_batch(&format!("PRAGMA page_size = {page}"))?;
        durable(&alone)?;
        let tables = texts(&ours, "SELECT sql FROM sqlite_master WHERE tbl_name = ?1 AND sql IS NOT NULL")?;
        ensure!(!tables.is_empty(), "the store has no table {TABLE}");
        for sql in tables {
            alone.execute_batch(&sql)?;
        }
        let names = texts(&ours, "SELECT name FROM pragma_table_info(?1)")?;
        let marks = vec!["?"; names.len()].join(", ");
        let names = names.join(", ");
        let insert = format!("INSERT INTO {TABLE} ({names}) VALUES ({marks})");
        let select = format!(
            "SELECT {names} FROM {TABLE} WHERE superstep > 0 AND execution_id =
             (SELECT execution_id FROM executions WHERE thread_id = ?1) ORDER BY superstep"
        );
        Ok(Self { ours, alone, insert, select, _dir: dir })
    }

    /// The rows of the one execution of a thread, as they are in our store.
    pub(crate) fn rows_of(&self, thread: &ThreadId) -> anyhow::Result<Vec<Vec<Cell>>> {
        let mut select = self.ours.prepare(&self.select)?;
        let width = select.column_count();
        let rows = select.query_map([thread.as_str()], |row| (0..width).map(|column| row.get(column)).collect());
        rows?.collect::<Result<_, _>>().context("reading our rows")
    }

    /// Writes each row in a transaction of its own; seconds.
    pub(crate) fn write(&self, rows: &[Vec<Cell>]) -> anyhow::Result<f64> {
        let mut insert = self.alone.prepare(&self.insert)?;
        let mut begin = self.alone.prepare("BEGIN IMMEDIATE")?;
        let mut commit = self.alone.prepare("COMMIT")?;
        let started = Instant::now();
        for row in rows {
            begin.execute([])?;
            insert.execute(rusqlite::params_from_iter(row))?;
            commit.execute([])?;
        }
        Ok(started.elapsed().as_secs_f64())
    }
}

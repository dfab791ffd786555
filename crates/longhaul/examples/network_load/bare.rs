//! The bare driver: the rows that the network's log has, written again into a table of the same definition, ten a
//! commit, on the same disk, with the same settings.

use std::time::Instant;

use rusqlite::{Connection, OpenFlags, params_from_iter, types::Value as Cell};
use serde_json::{Value, json};

use crate::Failure;

const ROWS_A_COMMIT: usize = 10;
const TABLE: &str = "network_events";

pub(crate) fn measured(database: &str, rows: usize) -> Result<Value, Failure> {
    let source = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let beside = std::path::Path::new(database).with_extension("bare");
    for end in ["bare", "bare-wal", "bare-shm"] {
        let _ = std::fs::remove_file(beside.with_extension(end)); // there may be none
    }
    let target = Connection::open(&beside)?;
    target.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;")?;
    let mut definitions = source
        .prepare("SELECT sql FROM sqlite_master WHERE tbl_name = ?1 AND sql IS NOT NULL ORDER BY type DESC, name")?;
    for definition in definitions.query_map([TABLE], |row| row.get::<_, String>(0))? {
        target.execute_batch(&definition?)?;
    }
    let mut all = source.prepare(&format!("SELECT * FROM {TABLE} LIMIT ?1"))?;
    let width = all.column_count();
    let kept = all
        .query_map([i64::try_from(rows)?], |row| (0..width).map(|column| row.get(column)).collect())?
        .collect::<Result<Vec<Vec<Cell>>, _>>()?;
    let marks = vec!["?"; width].join(", ");
    let begun = Instant::now();
    let mut insert = target.prepare(&format!("INSERT INTO {TABLE} VALUES ({marks})"))?;
    for ten in kept.chunks(ROWS_A_COMMIT) {
        target.execute_batch("BEGIN IMMEDIATE")?;
        for row in ten {
            insert.execute(params_from_iter(row))?;
        }
        target.execute_batch("COMMIT")?;
    }
    let took = begun.elapsed().as_secs_f64();
    Ok(json!({ "per_second": kept.len() as f64 / took, "rows": kept.len() }))
}

//! Measures what a write costs: a bare loop of SQLite, then the same rows through the store, in turns.
//!
//! `cargo run --release -p longhaul-store --example commit_speed [ROUNDS [FOLDER]]`. One write is a look at a row (as
//! a fence does) and an insert, in a transaction of its own that has reached the disk when the loop goes on. Turns are
//! short and alternate, so that whatever else the machine does disturbs both alike; the middle turn counts.

use std::{path::Path, time::Instant};

use longhaul_core::Ambient;
use longhaul_store::{Migrations, Store, StoreError, StoreSettings, values};

const TABLES: Migrations = Migrations {
    component: "speed",
    steps: &["CREATE TABLE fences (id TEXT NOT NULL PRIMARY KEY, token INTEGER NOT NULL) STRICT;
              INSERT INTO fences VALUES ('thread', 7);
              CREATE TABLE steps (id INTEGER PRIMARY KEY, name TEXT NOT NULL, result BLOB NOT NULL) STRICT;"],
};
const FENCE: &str = "SELECT token FROM fences WHERE id = ?1";
const INSERT: &str = "INSERT INTO steps (name, result) VALUES (?1, ?2)";
const TURN: u32 = 400;
const WRITERS: u32 = 64;

type Error = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Error> {
    let mut args = std::env::args().skip(1);
    let rounds: usize = args.next().map_or(Ok(15), |text| text.parse())?;
    let scratch = match args.next() {
        Some(dir) => tempfile::tempdir_in(dir)?,
        None => tempfile::tempdir()?,
    };
    let one = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let many = tokio::runtime::Builder::new_multi_thread().enable_all().worker_threads(2).build()?;
    let dir = scratch.path();
    let bare = bare(dir)?;
    let file = |name: &str| one.block_on(Store::open(StoreSettings::new(dir.join(name)), Ambient::system(), &[TABLES]));
    let (on_one, on_many) = (file("one")?, file("many")?);
    let memory = one.block_on(Store::open(StoreSettings::in_memory(), Ambient::system(), &[TABLES]))?;

    let mut turns: Vec<[f64; 6]> = Vec::new();
    for _ in 0..rounds {
        turns.push([
            bare_turn(&bare)?,
            one.block_on(single(on_one.clone()))?,
            many.block_on(async { tokio::spawn(single(on_many.clone())).await? })?,
            one.block_on(together(on_one.clone()))?,
            many.block_on(together(on_many.clone()))?,
            one.block_on(single(memory.clone()))?,
        ]);
    }
    let middle = |column: usize| {
        let mut rates: Vec<f64> = turns.iter().map(|turn| turn[column]).collect();
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    };
    let ratio = |column: usize| {
        let mut ratios: Vec<f64> = turns.iter().map(|turn| turn[column] / turn[0]).collect();
        ratios.sort_by(f64::total_cmp);
        100.0 * ratios[ratios.len() / 2]
    };
    for (column, name) in [
        "bare SQLite, one thread",
        "store, one writer, runtime of one thread",
        "store, one writer, a worker of two",
        "store, 64 writers, runtime of one thread",
        "store, 64 writers, two workers",
        "store in memory, one writer",
    ]
    .into_iter()
    .enumerate()
    {
        let rate = middle(column);
        println!("{name:<42} {rate:>9.0} writes/s {:>8.1} us each {:>7.0} % of bare", 1e6 / rate, ratio(column));
    }
    Ok(())
}

fn bare(dir: &Path) -> Result<rusqlite::Connection, Error> {
    let connection = rusqlite::Connection::open(dir.join("bare.db"))?;
    connection.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;")?;
    connection.execute_batch(TABLES.steps[0])?;
    Ok(connection)
}

fn bare_turn(connection: &rusqlite::Connection) -> Result<f64, Error> {
    let begun = Instant::now();
    for _ in 0..TURN {
        connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        let token: i64 = connection.prepare_cached(FENCE)?.query_row(["thread"], |row| row.get(0))?;
        assert_eq!(token, 7);
        connection.prepare_cached(INSERT)?.execute(rusqlite::params!["a/1", [7_u8; 200]])?;
        connection.prepare_cached("COMMIT")?.execute([])?;
    }
    Ok(f64::from(TURN) / begun.elapsed().as_secs_f64())
}

async fn write(store: &Store) -> Result<(), StoreError> {
    store
        .write(|tx| {
            let token = tx.query_one(FENCE, &values!["thread"], |row| row.get::<i64>(0))?;
            assert_eq!(token, 7);
            tx.execute(INSERT, &values!["a/1", vec![7_u8; 200]]).map(drop)
        })
        .await
}

async fn single(store: Store) -> Result<f64, Error> {
    let begun = Instant::now();
    for _ in 0..TURN {
        write(&store).await?;
    }
    Ok(f64::from(TURN) / begun.elapsed().as_secs_f64())
}

async fn together(store: Store) -> Result<f64, Error> {
    const EACH: u32 = 50;
    let begun = Instant::now();
    let writers: Vec<_> = (0..WRITERS)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move {
                for _ in 0..EACH {
                    write(&store).await?;
                }
                Ok::<_, StoreError>(())
            })
        })
        .collect();
    for writer in writers {
        writer.await??;
    }
    Ok(f64::from(WRITERS * EACH) / begun.elapsed().as_secs_f64())
}

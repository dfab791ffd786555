//! Measures what a write costs: a bare loop of SQLite, then the same rows through the store, in turns.
//!
//! `cargo run --release -p longhaul-store --example commit_speed [ROUNDS [FOLDER]]`. One write is a look at a row (as
//! a fence does) and an insert, in a transaction of its own that has reached the disk when the loop goes on. Turns are
//! short and alternate, so that whatever else the machine does disturbs both alike; the middle turn counts.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use longhaul_core::{Ambient, Scope};
use longhaul_store::{Lease, LeaseClaim, LeaseError, Migrations, Store, StoreError, StoreSettings, give_back, values};

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
const TTL: Duration = Duration::from_secs(60);

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
    println!("checking a lease                           {:>28.2} us each", one.block_on(fences(on_one))?);
    println!("claim, take, hold, give back, in memory    {:>28.2} us each", one.block_on(leases(memory))?);
    Ok(())
}

/// Microseconds of one check of a lease within a transaction.
async fn fences(store: Store) -> Result<f64, Error> {
    const TIMES: u32 = 20_000;
    let thread = "fenced".parse()?;
    let lease = Lease::acquire(&store, &Scope::single_user(), &thread, TTL).await?;
    let token = lease.token().clone();
    let took = store
        .write(move |tx| {
            let begun = Instant::now();
            for _ in 0..TIMES {
                tx.check_lease(&token)?;
            }
            Ok::<_, StoreError>(begun.elapsed())
        })
        .await?;
    Ok(took.as_secs_f64() * 1e6 / f64::from(TIMES))
}

/// Microseconds of taking a thread and giving it back, in two transactions.
async fn leases(store: Store) -> Result<f64, Error> {
    const TIMES: u32 = 5_000;
    let thread = "taken".parse()?;
    let begun = Instant::now();
    for _ in 0..TIMES {
        let claim = LeaseClaim::lock(&store, &Scope::single_user(), &thread).await?;
        let taking = store.write(move |tx| {
            let token = claim.take(tx, TTL)?;
            Ok::<_, LeaseError>((claim, token))
        });
        let (claim, token) = taking.await?;
        let lease = claim.hold(token);
        let token = lease.token().clone();
        store.write(move |tx| give_back(tx, &token)).await?;
    }
    Ok(begun.elapsed().as_secs_f64() * 1e6 / f64::from(TIMES))
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

//! Measures durable writes a second on a private PostgreSQL cluster: alone, by many in one process, and
//! through several openings.
//!
//! `cargo run --release -p longhaul-store --example postgres_speed`

use std::time::{Duration, Instant};

use longhaul_core::{Ambient, EventDraft, Scope, TaskScope};
use longhaul_store::{Migrations, Store, StoreError, StoreSettings, tasks, values};
use longhaul_testbed::PrivateCluster;
use tokio::task::JoinSet;

const PROBE: Migrations = Migrations {
    component: "probe",
    steps: &["CREATE TABLE probe (n INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT NOT NULL) STRICT"],
};

/// How long each measurement lasts.
const TIME: Duration = Duration::from_secs(3);

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let started = Instant::now();
    let cluster = PrivateCluster::start()?;
    println!("cluster started in {} ms", started.elapsed().as_millis());
    let database = cluster.create_database()?;
    let dir = tempfile::tempdir()?;
    let settings = StoreSettings::from_url(&database.url(), dir.path())?;
    let open = || Store::open(settings.clone(), Ambient::system(), &[PROBE]);
    let started = Instant::now();
    let mut stores = vec![open().await?];
    println!("first opening, with migrations: {} ms", started.elapsed().as_millis());
    let started = Instant::now();
    for _ in 0..3 {
        stores.push(open().await?);
    }
    println!("another opening: {} ms", started.elapsed().as_millis() / 3);
    let scope = tasks_of(&stores[0]).await?;
    for (used, writers) in [(1, 1), (1, 8), (1, 64), (4, 4), (4, 64)] {
        for events in [false, true] {
            let rate = writes(&stores[..used], writers, events.then_some(&scope)).await?;
            let what = if events { "row + event" } else { "row" };
            println!("{used} stores, {writers} writers, {what}: {rate:.0} writes/s");
        }
    }
    Ok(())
}

async fn tasks_of(store: &Store) -> Result<TaskScope, StoreError> {
    store
        .write(|tx| {
            let new = tasks::NewTask {
                thread: "t1".parse().expect("a literal thread id"),
                kind: "probe".to_owned(),
                title: String::new(),
                dir: None,
                model: None,
                data: serde_json::json!({}),
            };
            tasks::create(tx, &Scope::single_user(), None, new).map(|task| task.scope)
        })
        .await
}

/// Rows of 200 bytes, each in a transaction of its own.
async fn writes(stores: &[Store], writers: usize, scope: Option<&TaskScope>) -> Result<f64, StoreError> {
    let until = Instant::now() + TIME;
    let mut running = JoinSet::new();
    for writer in 0..writers {
        let (store, scope) = (stores[writer % stores.len()].clone(), scope.cloned());
        running.spawn(async move {
            let mut done = 0_u32;
            while Instant::now() < until {
                let (row, scope) = (values!["x".repeat(200).as_str()], scope.clone());
                store
                    .write(move |tx| {
                        tx.execute("INSERT INTO probe (text) VALUES (?1)", &row)?;
                        if let Some(scope) = scope {
                            tx.append_event(&scope, None, None, EventDraft::internal("a.b", serde_json::json!({})))?;
                        }
                        Ok::<_, StoreError>(())
                    })
                    .await?;
                done += 1;
            }
            Ok::<_, StoreError>(done)
        });
    }
    let mut total = 0;
    while let Some(done) = running.join_next().await {
        total += done.expect("a writer does not panic")?;
    }
    Ok(f64::from(total) / TIME.as_secs_f64())
}

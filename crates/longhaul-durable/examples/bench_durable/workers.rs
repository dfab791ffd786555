//! Worker processes on one PostgreSQL: executions of five steps, each of which waits 20 ms for the world outside. The
//! database is a private cluster that ends with this process.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context, ensure};
use longhaul_core::Ambient;
use longhaul_durable::{END, Effect, Enqueue, Graph, GraphBuilder, GraphState, Runtime, START, Worker};
use longhaul_store::{Store, StoreError, StoreSettings};
use longhaul_testbed::PrivateCluster;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{
    measure::{Stopwatch, median},
    place::{on_one_thread, open, scope, thread},
};

const STEPS: u64 = 5;
const OUTSIDE: Duration = Duration::from_millis(20);
/// Executions of one worker in a turn.
const EACH: u64 = 15;
/// How often the queue's progress is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(5);
const GRAPH: &str = "visits";
const URL: &str = "LONGHAUL_BENCH_POSTGRES";

#[derive(Debug, Clone, Default, Serialize, Deserialize, GraphState)]
struct Visits {
    n: u64,
}

fn visiting() -> anyhow::Result<Graph<Visits>> {
    let graph = GraphBuilder::<Visits>::new(GRAPH, 1)
        .node("visit", |ctx, state| async move {
            let outside = async {
                tokio::time::sleep(OUTSIDE).await;
                Ok(())
            };
            ctx.step("outside", Effect::Pure, outside).await?;
            Ok(VisitsUpdate::new().n(state.n + 1))
        })
        .edge(START, "visit")
        .branch("visit", &["visit", END], |state| if state.n < STEPS { "visit" } else { END });
    Ok(graph.build()?)
}

/// One worker and four, in turns: executions a second.
pub(crate) fn measure() -> anyhow::Result<Value> {
    let cluster = match PrivateCluster::start() {
        Ok(cluster) => cluster,
        Err(error) => return Ok(json!({ "unavailable": error.to_string() })),
    };
    let (mut one, mut four) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        one.push(rate(&cluster, 1)?);
        four.push(rate(&cluster, 4)?);
    }
    Ok(json!({ "one": median(one), "four": median(four) }))
}

/// Fills the queue of a new database, starts workers, and lets them begin together once each is connected.
fn rate(cluster: &PrivateCluster, workers: u64) -> anyhow::Result<f64> {
    let database = cluster.create_database()?;
    on_one_thread(async {
        let dir = tempfile::tempdir()?;
        let store = open(StoreSettings::from_url(&database.url(), dir.path())?).await?;
        let runtime = Runtime::new(store.clone(), Ambient::system());
        let count = workers * EACH;
        for number in 0..count {
            let (scope, thread) = (scope()?, thread(number)?);
            runtime.enqueue(&scope, GRAPH, &thread, &Visits::default(), Enqueue::default()).await?;
        }
        let mut children = Vec::new();
        for _ in 0..workers {
            let mut worker = Command::new(std::env::current_exe()?);
            worker.arg("worker").env(URL, database.url()).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = worker.spawn()?;
            expect(&mut child, "ready")?;
            children.push(child);
        }
        let watch = Stopwatch::start();
        for child in &mut children {
            writeln!(child.stdin.as_mut().context("no pipe")?, "go")?;
        }
        let mut looks = tokio::time::interval(LOOK_EVERY);
        while completed(&store).await? < count {
            looks.tick().await;
            ensure!(watch.seconds() < 120.0, "the workers do not finish");
        }
        let seconds = watch.seconds();
        for mut child in children {
            // A worker ends with its input.
            drop(child.stdin.take());
            ensure!(child.wait()?.success(), "a worker failed");
        }
        Ok(count as f64 / seconds)
    })
}

async fn completed(store: &Store) -> anyhow::Result<u64> {
    const DONE: &str = "SELECT COUNT(*) FROM executions WHERE status = 'completed'";
    let read = store.read(|read| read.query_one(DONE, &[], |row| row.get::<i64>(0)));
    Ok(u64::try_from(read.await.map_err(|error: StoreError| error)?)?)
}

fn expect(child: &mut Child, word: &str) -> anyhow::Result<()> {
    let mut line = String::new();
    let output = child.stdout.as_mut().context("no pipe")?;
    BufReader::with_capacity(1, output).read_line(&mut line)?;
    ensure!(line.trim() == word, "a worker said {line:?}");
    Ok(())
}

/// Runs what is in the queue, one execution at a time, until its input ends.
pub(crate) fn worker() -> anyhow::Result<Value> {
    on_one_thread(async {
        let url = std::env::var(URL).with_context(|| format!("{URL} is not set"))?;
        let dir = tempfile::tempdir()?;
        let store = open(StoreSettings::from_url(&url, dir.path())?).await?;
        let worker = Worker::new(Runtime::new(store, Ambient::system())).serve(visiting()?);
        println!("ready");
        std::io::stdin().read_line(&mut String::new())?;
        let shutdown = CancellationToken::new();
        let end = shutdown.clone();
        std::thread::spawn(move || {
            // An error is an end as well.
            let _ = std::io::stdin().read_line(&mut String::new());
            end.cancel();
        });
        let worked = worker.run(shutdown).await?;
        Ok(json!({ "completed": worked.completed, "looks": worked.looks }))
    })
}

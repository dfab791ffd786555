//! Worker processes on one PostgreSQL: executions of five steps, each of which waits 20 ms for the world outside. The
//! database is a private cluster that ends with this process.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context, ensure};
use longhaul_core::Ambient;
use longhaul_durable::{END, Effect, Graph, GraphBuilder, GraphState, Runtime, START};
use longhaul_store::StoreSettings;
use longhaul_testbed::PrivateCluster;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    measure::{Stopwatch, median},
    place::{completed, on_one_thread, open, options, scope, thread},
};

const STEPS: u64 = 5;
const OUTSIDE: Duration = Duration::from_millis(20);
/// Executions of one worker in a turn.
const EACH: u64 = 15;
const URL: &str = "LONGHAUL_BENCH_POSTGRES";

#[derive(Debug, Clone, Default, Serialize, Deserialize, GraphState)]
struct Visits {
    n: u64,
}

fn visiting() -> anyhow::Result<Graph<Visits>> {
    let graph = GraphBuilder::<Visits>::new("visits", 1)
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

/// Starts workers on a new database and lets them begin together once each is connected.
fn rate(cluster: &PrivateCluster, workers: u64) -> anyhow::Result<f64> {
    let database = cluster.create_database()?;
    let mut children = Vec::new();
    for number in 0..workers {
        let mut worker = Command::new(std::env::current_exe()?);
        worker.args(["worker", &(number * EACH).to_string(), &EACH.to_string()]).env(URL, database.url());
        let mut child = worker.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        expect(&mut child, "ready")?;
        children.push(child);
    }
    let watch = Stopwatch::start();
    for child in &mut children {
        writeln!(child.stdin.as_mut().context("no pipe")?, "go")?;
    }
    for mut child in children {
        ensure!(child.wait()?.success(), "a worker failed");
    }
    Ok((workers * EACH) as f64 / watch.seconds())
}

fn expect(child: &mut Child, word: &str) -> anyhow::Result<()> {
    let mut line = String::new();
    let output = child.stdout.as_mut().context("no pipe")?;
    BufReader::with_capacity(1, output).read_line(&mut line)?;
    ensure!(line.trim() == word, "a worker said {line:?}");
    Ok(())
}

/// Runs executions one after the other.
pub(crate) fn worker(first: u64, count: u64) -> anyhow::Result<Value> {
    on_one_thread(async {
        let url = std::env::var(URL).with_context(|| format!("{URL} is not set"))?;
        let dir = tempfile::tempdir()?;
        let store = open(StoreSettings::from_url(&url, dir.path())?).await?;
        let (runtime, graph) = (Runtime::new(store, Ambient::system()), visiting()?);
        println!("ready");
        std::io::stdin().read_line(&mut String::new())?;
        for number in first..first + count {
            let outcome = runtime.run(&graph, &scope()?, &thread(number)?, Visits::default(), options()).await?;
            ensure!(completed(outcome)?.n == STEPS, "an execution stopped early");
        }
        Ok(json!({ "executions": count }))
    })
}

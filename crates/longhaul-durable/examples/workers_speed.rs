//! How many executions a second one worker completes, and how many four do, on one store.
//!
//! Each worker has one execution in flight and a handle of the store of its own, as a process would; each execution has
//! three nodes, each with a step that waits for 20 ms as if for a model. Prints one JSON object a line:
//! `workers_speed [sqlite|postgres] [executions for each worker]`.

use std::{
    error::Error,
    path::Path,
    time::{Duration, Instant},
};

use longhaul_core::{Ambient, TaskScope};
use longhaul_durable::{
    END, Effect, Enqueue, EntryFilter, Graph, GraphBuilder, GraphState, MIGRATIONS, NodeContext, NodeError, Runtime,
    START, Worker,
};
use longhaul_store::{Store, StoreSettings};
use longhaul_testbed::PrivateCluster;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

#[derive(Debug, Clone, Default, Serialize, Deserialize, GraphState)]
struct Count {
    steps: u32,
}

async fn ask(ctx: NodeContext, state: std::sync::Arc<Count>) -> Result<CountUpdate, NodeError> {
    let waiting = async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        Ok(())
    };
    ctx.step("model", Effect::Pure, waiting).await?;
    Ok(CountUpdate::new().steps(state.steps + 1))
}

fn graph() -> Graph<Count> {
    GraphBuilder::<Count>::new("asks", 1)
        .node("one", ask)
        .node("two", ask)
        .node("three", ask)
        .edge(START, "one")
        .edge("one", "two")
        .edge("two", "three")
        .edge("three", END)
        .build()
        .expect("the graph is sound")
}

async fn open(dir: &Path, url: Option<&str>) -> Result<Runtime, Box<dyn Error>> {
    let settings = match url {
        Some(url) => StoreSettings::from_url(url, dir)?,
        None => StoreSettings::new(dir),
    };
    Ok(Runtime::new(Store::open(settings, Ambient::system(), &[MIGRATIONS]).await?, Ambient::system()))
}

/// Executions a second.
async fn measure(workers: u32, executions: u32, url: Option<&str>) -> Result<f64, Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let (runtime, scope) = (open(dir.path(), url).await?, TaskScope::single_user());
    for n in 0..executions {
        let thread = format!("thread_{workers}-{n}").parse()?;
        runtime.enqueue(&scope, "asks", &thread, &Count::default(), Enqueue::default()).await?;
    }
    let mut handles = Vec::new();
    for _ in 0..workers {
        handles.push(open(dir.path(), url).await?);
    }
    let begun = Instant::now();
    let shutdown = CancellationToken::new();
    let working: Vec<_> = handles
        .into_iter()
        .map(|runtime| tokio::spawn(Worker::new(runtime).serve(graph()).run(shutdown.clone())))
        .collect();
    let one = EntryFilter { limit: 1, ..EntryFilter::default() };
    while !runtime.queue(&scope.scope, one.clone()).await?.is_empty() {
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    let took = begun.elapsed();
    shutdown.cancel();
    let mut completed = 0;
    for worker in working {
        completed += worker.await??.completed;
    }
    assert_eq!(completed, u64::from(executions), "each execution is completed once");
    Ok(f64::from(executions) / took.as_secs_f64())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let kind = args.next().unwrap_or_else(|| "postgres".to_owned());
    let each: u32 = args.next().map_or(Ok(50), |count| count.parse())?;
    let mut speeds = Vec::new();
    for workers in [1, 4] {
        let executions = each * workers;
        let speed = if kind == "postgres" {
            let database = PrivateCluster::shared()?.create_database()?;
            measure(workers, executions, Some(&database.url())).await?
        } else {
            measure(workers, executions, None).await?
        };
        println!(
            "{}",
            serde_json::json!({ "store": kind, "workers": workers, "executions": executions, "per_second": speed })
        );
        speeds.push(speed);
    }
    println!("{}", serde_json::json!({ "store": kind, "four_against_one": speeds[1] / speeds[0] }));
    Ok(())
}

//! Threads of 50 messages that wait for an answer, and how long it takes from the answer to their next node.

use std::{fs, path::Path};

use anyhow::{Context, bail, ensure};
use longhaul_core::Ambient;
use longhaul_durable::{
    END, GivenAnswer, Graph, GraphBuilder, GraphState, Outcome, RunOptions, Runtime, START, Wait, WaitId,
};
use longhaul_store::StoreSettings;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    measure::{Stopwatch, median},
    place::{completed, on_one_thread, open, options, scope, thread},
};

const THREADS: u64 = 200;
const MESSAGES: usize = 50;
/// Those that the warm process resumes; the others are for cold ones.
const WARM: std::ops::Range<u64> = 20..120;

#[derive(Debug, Clone, Default, Serialize, Deserialize, GraphState)]
struct Asked {
    #[append]
    messages: Vec<String>,
}

/// `say` makes the node print a line as soon as it goes on.
fn asking(say: bool) -> anyhow::Result<Graph<Asked>> {
    let graph = GraphBuilder::<Asked>::new("ask", 1)
        .node("ask", move |ctx, _| async move {
            let answer = ctx.pause_for::<String>(Wait::approval("ok?")).await?;
            if say {
                println!("resumed");
            }
            Ok(AskedUpdate::new().messages(answer.into_value()))
        })
        .edge(START, "ask")
        .edge("ask", END);
    Ok(graph.build()?)
}

async fn runtime(dir: &Path) -> anyhow::Result<Runtime> {
    Ok(Runtime::new(open(StoreSettings::new(dir)).await?, Ambient::system()))
}

/// Leaves 200 waiting threads in this folder, and the ids of their waits: what a link in a message would carry.
pub(crate) fn make(dir: &Path) -> anyhow::Result<Value> {
    on_one_thread(async {
        let (runtime, graph) = (runtime(dir).await?, asking(false)?);
        let mut waits = Vec::new();
        let watch = Stopwatch::start();
        for number in 0..THREADS {
            let state = Asked { messages: vec!["x".repeat(200); MESSAGES] };
            let outcome = runtime.run(&graph, &scope()?, &thread(number)?, state, options()).await?;
            let Outcome::Waiting(open) = outcome else { bail!("thread {number} does not wait") };
            waits.push(open.first().context("no wait")?.id.to_string());
        }
        fs::write(dir.join("waits.json"), serde_json::to_vec(&waits)?)?;
        Ok(json!({ "ms": watch.ms(), "threads": THREADS }))
    })
}

fn wait(dir: &Path, number: u64) -> anyhow::Result<WaitId> {
    let waits: Vec<String> = serde_json::from_slice(&fs::read(dir.join("waits.json"))?)?;
    let found = waits.get(usize::try_from(number)?).context("no such thread")?;
    Ok(found.parse()?)
}

async fn answer(runtime: &Runtime, graph: &Graph<Asked>, number: u64, wait: WaitId) -> anyhow::Result<()> {
    let given = GivenAnswer { wait, value: json!("y"), request_id: format!("r{number}"), actor: "bench".to_owned() };
    let options = RunOptions { answer: Some(given), ..options() };
    let outcome = runtime.run(graph, &scope()?, &thread(number)?, Asked::default(), options).await?;
    let state = completed(outcome)?;
    ensure!(state.messages.len() == MESSAGES + 1, "{} messages", state.messages.len());
    Ok(())
}

/// In a process that has just started. The caller's clock ends at the line that the node prints.
pub(crate) fn cold(dir: &Path, number: u64) -> anyhow::Result<Value> {
    on_one_thread(async {
        let watch = Stopwatch::start();
        let (runtime, graph) = (runtime(dir).await?, asking(true)?);
        let opened = watch.ms();
        answer(&runtime, &graph, number, wait(dir, number)?).await?;
        Ok(json!({ "opened_ms": opened, "resumed_ms": watch.ms() - opened }))
    })
}

/// In a process that is at work: the whole call, from answer to complete.
pub(crate) fn warm(dir: &Path) -> anyhow::Result<Value> {
    on_one_thread(async {
        let (runtime, graph) = (runtime(dir).await?, asking(false)?);
        let mut times = Vec::new();
        for number in WARM {
            let wait = wait(dir, number)?;
            let watch = Stopwatch::start();
            answer(&runtime, &graph, number, wait).await?;
            times.push(watch.ms());
        }
        times.sort_by(f64::total_cmp);
        let p95 = times.get(times.len() * 95 / 100).copied();
        Ok(json!({ "p50_ms": median(times), "p95_ms": p95 }))
    })
}

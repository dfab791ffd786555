//! Supersteps one after another, on many threads at once, and side by side in one fan-out.

use anyhow::ensure;
use longhaul_durable::{END, Graph, GraphBuilder, GraphState, START, Send};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    floor::{Bare, OneRow},
    measure::{Stopwatch, median},
    place::{Bench, Mode, on_one_thread},
};

/// How often ours and the bare loop take turns.
const TURNS: u64 = 5;

#[derive(Debug, Clone, Default, Serialize, Deserialize, GraphState)]
pub(crate) struct Count {
    pub(crate) n: u64,
}

/// One node that counts to `count`.
pub(crate) fn counting(count: u64) -> anyhow::Result<Graph<Count>> {
    let graph = GraphBuilder::<Count>::new("loop", 1)
        .node("node", |_, state| async move { Ok(CountUpdate::new().n(state.n + 1)) })
        .edge(START, "node")
        .branch("node", &["node", END], move |state| if state.n < count { "node" } else { END });
    Ok(graph.build()?)
}

/// Without a disk: CPU time of a superstep. A first run warms up.
pub(crate) fn plain(mode: Mode, count: u64) -> anyhow::Result<Value> {
    on_one_thread(async {
        let bench = Bench::open(mode).await?;
        bench.complete(&counting(count.div_ceil(20))?, Count::default()).await?;
        let graph = counting(count)?;
        let watch = Stopwatch::start();
        let state = bench.complete(&graph, Count::default()).await?;
        let (seconds, cpu) = (watch.seconds(), watch.cpu_us());
        ensure!(state.n == count, "it counted to {}", state.n);
        Ok(json!({ "cpu_us": cpu / count as f64, "steps_s": count as f64 / seconds }))
    })
}

/// On the disk, in turns with a bare loop of the driver that writes the same rows, and with the disk's floor.
pub(crate) fn sqlite(count: u64) -> anyhow::Result<Value> {
    on_one_thread(async {
        let bench = Bench::open(Mode::Sqlite).await?;
        let dir = tempfile::tempdir()?;
        let floor = OneRow::new(dir.path())?;
        let bare = Bare::like(&bench.file().unwrap_or_default())?;
        let each = count.div_ceil(TURNS);
        let graph = counting(each)?;
        bench.complete(&counting(each.div_ceil(10))?, Count::default()).await?;
        let (mut ours, mut cpu, mut alone, mut floors) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for _ in 0..TURNS {
            let thread = bench.new_thread()?;
            let watch = Stopwatch::start();
            bench.complete_on(&thread, &graph, Count::default()).await?;
            ours.push(each as f64 / watch.seconds());
            cpu.push(watch.cpu_us() / each as f64);
            let rows = bare.rows_of(&thread)?;
            ensure!(rows.len() as u64 >= each, "only {} rows for {each} supersteps", rows.len());
            alone.push(rows.len() as f64 / bare.write(&rows)?);
            floors.push(floor.rate(u32::try_from(each)?)?);
        }
        Ok(json!({
            "steps_s": median(ours), "cpu_us": median(cpu), "bare_steps_s": median(alone), "floor_s": median(floors),
        }))
    })
}

/// Many threads at once, each with a loop of its own, in turns with the floor of one.
pub(crate) fn threads(threads: u64, count: u64) -> anyhow::Result<Value> {
    on_one_thread(async move {
        let dir = tempfile::tempdir()?;
        let floor = OneRow::new(dir.path())?;
        let bench = std::sync::Arc::new(Bench::open(Mode::Sqlite).await?);
        let (mut speeds, mut floors, mut cpu) = (Vec::new(), Vec::new(), Vec::new());
        for turn in 0..=TURNS {
            // The first turn warms up.
            let each = if turn == 0 { count.div_ceil(10) } else { count };
            let graph = counting(each)?;
            floors.push(floor.rate(500)?);
            let watch = Stopwatch::start();
            let running: Vec<_> = (0..threads)
                .map(|_| {
                    let (bench, graph) = (bench.clone(), graph.clone());
                    tokio::spawn(async move { bench.complete(&graph, Count::default()).await })
                })
                .collect();
            for one in running {
                ensure!(one.await??.n == each, "a thread stopped early");
            }
            if turn > 0 {
                speeds.push((threads * each) as f64 / watch.seconds());
                cpu.push(watch.cpu_us() / (threads * each) as f64);
            }
        }
        Ok(json!({ "steps_s": median(speeds), "floor_s": median(floors), "cpu_us": median(cpu) }))
    })
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, GraphState)]
struct Gathered {
    #[append]
    out: Vec<u64>,
}

/// One superstep of `count` tasks, and a join.
pub(crate) fn fanout(count: u64, mode: Mode) -> anyhow::Result<Value> {
    on_one_thread(async move {
        let graph = GraphBuilder::<Gathered>::new("fan_out", 1)
            .node_with_input("work", |_, _, i: u64| async move { Ok(GatheredUpdate::new().out([i])) })
            .node("join", |_, _| async { Ok(GatheredUpdate::new()) })
            .fan_out(START, &["work"], move |_| (0..count).map(|i| Send::new("work", &i)).collect())
            .edge("work", "join")
            .edge("join", END)
            .build()?;
        let bench = Bench::open(mode).await?;
        let (mut times, mut cpu) = (Vec::new(), Vec::new());
        for _ in 0..5 {
            let watch = Stopwatch::start();
            let state = bench.complete(&graph, Gathered::default()).await?;
            times.push(watch.ms());
            cpu.push(watch.cpu_us() / 1_000.0);
            ensure!(state.out == (0..count).collect::<Vec<_>>(), "not every task's result is there, in order");
        }
        // The peer's script gives its best of three.
        let best = times.iter().skip(2).copied().fold(f64::INFINITY, f64::min);
        Ok(json!({ "ms": best, "median_ms": median(times), "cpu_ms": median(cpu) }))
    })
}

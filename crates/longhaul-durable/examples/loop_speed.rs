//! What a superstep costs: `cargo run --release -p longhaul-durable --example loop_speed`.
//!
//! Each line is one workload, with wall time and, where it matters, processor time of the whole process. The last
//! column compares with a loop that writes the same rows through the driver alone.

use std::{path::Path, sync::Arc, time::Instant};

use longhaul_core::{Ambient, Scope, TaskScope, ThreadId};
use longhaul_durable::{
    END, Field, Flow, Graph, GraphBuilder, GraphState, MIGRATIONS, Outcome, Reducer, RunOptions, Runtime, START, Send,
    StopWhen,
};
use longhaul_store::{Store, StoreSettings};
use serde::{Deserialize, Serialize};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Counter {
    count: u64,
}

impl GraphState for Counter {
    type Update = u64;
    fn apply(&mut self, update: u64) {
        self.count += update;
    }
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Chat {
    messages: Vec<String>,
}

impl GraphState for Chat {
    type Update = String;
    const FIELDS: &'static [Field] = &[Field { name: "messages", reducer: Reducer::Append }];
    fn apply(&mut self, message: String) {
        self.messages.push(message);
    }
}

fn counting(to: u64) -> Result<Graph<Counter>> {
    Ok(GraphBuilder::<Counter>::new("counting", 1)
        .node("count", |_, _| async { Ok(1_u64) })
        .edge(START, "count")
        .branch("count", &["count", END], move |state| if state.count < to { "count" } else { END })
        .build()?)
}

fn chatting(to: usize) -> Result<Graph<Chat>> {
    Ok(GraphBuilder::<Chat>::new("chatting", 1)
        .node("say", |_, _| async { Ok("x".repeat(200)) })
        .edge(START, "say")
        .branch("say", &["say", END], move |state| if state.messages.len() < to { "say" } else { END })
        .build()?)
}

fn fanning(width: u64) -> Result<Graph<Counter>> {
    Ok(GraphBuilder::<Counter>::new("fanning", 1)
        .node("split", |_, _| async { Ok(Flow::nothing()) })
        .node_with_input("work", |_, _, n: u64| async move { Ok(n) })
        .edge(START, "split")
        .fan_out("split", &["work"], move |_| (0..width).map(|n| Send::new("work", &n)).collect())
        .edge("work", END)
        .build()?)
}

fn scope() -> Result<TaskScope> {
    let scope = Scope::single_user();
    Ok(TaskScope { scope, session: "sess_1".parse()?, task: "task_1".parse()?, trace: "trace_1".parse()? })
}

fn cpu_us() -> f64 {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    used.tv_sec as f64 * 1e6 + used.tv_nsec as f64 / 1e3
}

fn options<S>() -> RunOptions<S> {
    RunOptions { supersteps_max: u64::MAX, ..RunOptions::default() }
}

async fn run<S: GraphState + Default + std::fmt::Debug>(
    runtime: &Runtime,
    graph: &Graph<S>,
    thread: &str,
) -> Result<S> {
    let thread: ThreadId = thread.parse()?;
    let outcome = runtime.run(graph, &scope()?, &thread, S::default(), options()).await?;
    let Outcome::Completed(state) = outcome else { return Err(format!("not completed: {outcome:?}").into()) };
    Ok(state)
}

async fn memory() -> Result<Runtime> {
    Ok(Runtime::new(
        Store::open(StoreSettings::in_memory(), Ambient::system(), &[MIGRATIONS]).await?,
        Ambient::system(),
    ))
}

async fn on_disk(dir: &Path) -> Result<Runtime> {
    Ok(Runtime::new(Store::open(StoreSettings::new(dir), Ambient::system(), &[MIGRATIONS]).await?, Ambient::system()))
}

async fn looped(name: &str, runtime: &Runtime, supersteps: u64) -> Result<f64> {
    run(runtime, &counting(200)?, "warm-up").await?;
    let graph = counting(supersteps)?;
    let (cpu, begun) = (cpu_us(), Instant::now());
    run(runtime, &graph, "loop").await?;
    let (cpu, wall) = (cpu_us() - cpu, begun.elapsed().as_secs_f64());
    let rate = supersteps as f64 / wall;
    println!("{name:32} {rate:>9.0} supersteps/s {:>8.2} µs CPU each", cpu / supersteps as f64);
    Ok(rate)
}

fn bare(dir: &Path, supersteps: u64) -> Result<f64> {
    let connection = rusqlite::Connection::open(dir.join("bare.db"))?;
    connection.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
         CREATE TABLE leases (tenant_id TEXT, thread_id TEXT, token INTEGER, PRIMARY KEY (tenant_id, thread_id)) STRICT;
         INSERT INTO leases VALUES ('tenant_default', 'loop', 1);
         CREATE TABLE checkpoints (tenant_id TEXT NOT NULL, execution_id TEXT NOT NULL, ns TEXT NOT NULL,
             superstep INTEGER NOT NULL, v INTEGER NOT NULL, nodes TEXT NOT NULL, frontier TEXT NOT NULL,
             form TEXT NOT NULL, data TEXT NOT NULL, digest BLOB NOT NULL, at INTEGER NOT NULL,
             PRIMARY KEY (tenant_id, execution_id, ns, superstep)) STRICT, WITHOUT ROWID;",
    )?;
    let begun = Instant::now();
    for superstep in 0..supersteps {
        connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        let lease: i64 = connection
            .prepare_cached("SELECT token FROM leases WHERE tenant_id = ?1 AND thread_id = ?2")?
            .query_row(("tenant_default", "loop"), |row| row.get(0))?;
        let frontier = format!("{{\"s\":{superstep},\"f\":[\"count\"]}}");
        connection
            .prepare_cached("INSERT INTO checkpoints VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)")?
            .execute((
                "tenant_default",
                "exec_0192abcdef0123456789abcdef01",
                "",
                superstep as i64,
                2,
                "count",
                frontier,
                "delta",
                "[[1]]",
                [7_u8; 32],
                lease,
            ))?;
        connection.prepare_cached("COMMIT")?.execute([])?;
    }
    Ok(supersteps as f64 / begun.elapsed().as_secs_f64())
}

async fn many(runtime: &Runtime, threads: u64, supersteps: u64) -> Result<()> {
    let graph = counting(supersteps)?;
    let begun = Instant::now();
    let mut runs = tokio::task::JoinSet::new();
    for n in 0..threads {
        let (runtime, graph) = (runtime.clone(), graph.clone());
        let (scope, thread): (_, ThreadId) = (scope()?, format!("many-{n}").parse()?);
        runs.spawn(async move { runtime.run(&graph, &scope, &thread, Counter::default(), options()).await.map(drop) });
    }
    while let Some(ended) = runs.join_next().await {
        ended??;
    }
    let rate = (threads * supersteps) as f64 / begun.elapsed().as_secs_f64();
    println!("{:32} {rate:>9.0} supersteps/s", format!("{threads} threads at once, SQLite"));
    Ok(())
}

async fn fanned(name: &str, runtime: &Runtime) -> Result<()> {
    let graph = fanning(1000)?;
    let mut best = f64::MAX;
    for n in 0..8 {
        let begun = Instant::now();
        let state = run(runtime, &graph, &format!("fan-{n}")).await?;
        assert_eq!(state.count, 499_500, "every task's update is there");
        best = best.min(begun.elapsed().as_secs_f64() * 1e3);
    }
    println!("{:32} {best:>9.2} ms, best of 8", format!("fan-out of 1,000, {name}"));
    Ok(())
}

async fn sized(messages: usize) -> Result<u64> {
    let dir = tempfile::tempdir()?;
    let runtime = on_disk(dir.path()).await?;
    run(&runtime, &chatting(messages)?, "chat").await?;
    let thread: ThreadId = "chat".parse()?;
    let mut best = f64::MAX;
    for _ in 0..5 {
        let begun = Instant::now();
        let state: Option<Chat> = runtime.state(&Scope::single_user(), &thread).await?;
        assert_eq!(state.map(|state| state.messages.len()), Some(messages), "the whole state is there");
        best = best.min(begun.elapsed().as_secs_f64() * 1e3);
    }
    drop(runtime);
    let path = dir.path().join("longhaul.db");
    let connection = rusqlite::Connection::open(&path)?;
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    let bytes = std::fs::metadata(&path)?.len();
    println!(
        "{:32} {:>9.1} KiB, state read in {best:.2} ms",
        format!("{messages} messages of 200 B"),
        bytes as f64 / 1024.0
    );
    Ok(bytes)
}

async fn resumed(runtime: &Runtime) -> Result<()> {
    let mut times = Vec::new();
    for n in 0..200 {
        let thread: ThreadId = format!("resume-{n}").parse()?;
        let stop: StopWhen<Chat> = Arc::new(|state: &Chat| state.messages.len() == 50);
        let stopping = RunOptions { stop_when: Some(stop), ..options() };
        runtime.run(&chatting(51)?, &scope()?, &thread, Chat::default(), stopping).await?;
        let (graph, scope) = (chatting(51)?, scope()?);
        let begun = Instant::now();
        let outcome = runtime.run(&graph, &scope, &thread, Chat::default(), options()).await?;
        times.push(begun.elapsed().as_secs_f64() * 1e3);
        assert!(matches!(outcome, Outcome::Completed(_)), "{outcome:?}");
    }
    times.sort_by(f64::total_cmp);
    println!("{:32} {:>9.2} ms p50, {:.2} ms p95", "warm resume after 50 messages", times[100], times[190]);
    Ok(())
}

fn resident_kib() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmRSS")).ok_or("no VmRSS")?;
    Ok(line.split_whitespace().nth(1).ok_or("no number")?.parse()?)
}

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<()> {
    let dir = tempfile::tempdir()?;
    looped("loop, nothing kept", &Runtime::ephemeral(Ambient::system()), 100_000).await?;
    let runtime = memory().await?;
    looped("loop, in memory", &runtime, 50_000).await?;
    fanned("in memory", &runtime).await?;
    drop(runtime);
    let runtime = on_disk(&dir.path().join("store")).await?;
    let before = bare(dir.path(), 5_000)?;
    let ours = looped("loop, SQLite FULL", &runtime, 5_000).await?;
    std::fs::remove_file(dir.path().join("bare.db"))?;
    let after = bare(dir.path(), 5_000)?;
    let bare = before.max(after);
    println!("{:32} {bare:>9.0} supersteps/s: ours is {:.0} %", "the same rows, driver alone", ours / bare * 100.0);
    many(&runtime, 64, 400).await?;
    fanned("SQLite FULL", &runtime).await?;
    resumed(&runtime).await?;
    let sizes = [sized(1_000).await?, sized(2_000).await?, sized(5_000).await?, sized(10_000).await?];
    println!("{:32} {:>9.2}", "size of 10,000 over 5,000", sizes[3] as f64 / sizes[2] as f64);
    let kept = on_disk(&dir.path().join("long")).await?;
    let before = resident_kib()?;
    looped("100,000 supersteps, SQLite", &kept, 100_000).await?;
    println!("{:32} {before} KiB before, {} KiB after", "resident", resident_kib()?);
    Ok(())
}

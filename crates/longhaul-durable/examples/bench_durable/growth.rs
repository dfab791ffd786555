//! A thread that grows by one message of 200 bytes a superstep: its size on disk, and what reading it costs.

use std::path::Path;

use anyhow::{Context, ensure};
use longhaul_core::Scope;
use longhaul_durable::{END, GraphBuilder, GraphState, START};
use rusqlite::Connection;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    measure::{Stopwatch, median},
    place::{Bench, Mode, on_one_thread},
};

#[derive(Debug, Clone, Default, Serialize, Deserialize, GraphState)]
struct Chat {
    #[append]
    messages: Vec<String>,
    n: u64,
}

fn message(number: u64) -> String {
    format!("m{number:06} {}", "x".repeat(192))
}

pub(crate) fn measure(count: u64) -> anyhow::Result<Value> {
    on_one_thread(async {
        let graph = GraphBuilder::<Chat>::new("growth", 1)
            .node("node", |_, state| async move { Ok(ChatUpdate::new().messages([message(state.n)]).n(state.n + 1)) })
            .edge(START, "node")
            .branch("node", &["node", END], move |state| if state.n < count { "node" } else { END })
            .build()?;
        let bench = Bench::open(Mode::Sqlite).await?;
        let thread = bench.new_thread()?;
        let watch = Stopwatch::start();
        let state = bench.complete_on(&thread, &graph, Chat::default()).await?;
        let seconds = watch.seconds();
        ensure!(state.messages.len() as u64 == count, "{} messages", state.messages.len());
        let file = bench.file().context("a store on disk")?;
        let bytes = truncated_bytes(&file)?;

        let scope = Scope::single_user();
        let execution = bench.runtime.find(&scope, &thread).await?.context("the thread has no execution")?.id;
        let (mut reads, mut histories) = (Vec::new(), Vec::new());
        for _ in 0..5 {
            let watch = Stopwatch::start();
            let state = bench.runtime.state::<Chat>(&scope, &thread).await?.context("the thread has no state")?;
            reads.push(watch.ms());
            ensure!(state.messages.len() as u64 == count, "{} messages were read", state.messages.len());
            let watch = Stopwatch::start();
            let last = bench.runtime.history(&scope, &thread, 10).await?;
            histories.push(watch.ms());
            ensure!(last.len() == 10, "{} checkpoints were read", last.len());
        }
        let history = bench.runtime.history(&scope, &thread, u32::MAX).await?;
        ensure!(history.len() as u64 > count, "{} checkpoints for {count} supersteps", history.len());
        let half = bench.runtime.state_at::<Chat>(&scope, &execution, count / 2).await?;
        ensure!(half.messages.len() as u64 == count / 2, "half way there were {} messages", half.messages.len());
        Ok(json!({
            "bytes": bytes, "history": history.len(), "get_state_ms": median(reads), "history_ms": median(histories),
            "steps_s": count as f64 / seconds,
        }))
    })
}

/// The database's bytes once the log is written back and cut to nothing.
fn truncated_bytes(file: &Path) -> anyhow::Result<u64> {
    let connection = Connection::open(file)?;
    let busy: i64 = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
    ensure!(busy == 0, "the log could not be truncated");
    let log = file.with_extension("db-wal");
    let rest = log.metadata().map_or(0, |log| log.len());
    Ok(file.metadata()?.len() + rest)
}

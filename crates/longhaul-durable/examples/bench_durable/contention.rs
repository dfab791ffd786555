//! Two processes that want the same thread, round after round. One wins and appends to the thread's state; the other is
//! refused. Between rounds each also acts as the stale writer that it might be: it keeps the token of a lease that it
//! has given up, and tries to commit with it once the other has taken the thread.

use std::{
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, ensure};
use longhaul_core::{Ambient, Scope};
use longhaul_durable::{DurableError, Graph, GraphBuilder, GraphState, Outcome, RunOptions, Runtime, START};
use longhaul_store::{Lease, LeaseError, LeaseToken, Migrations, Store, StoreError, StoreSettings, values};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::place::{on_one_thread, options, scope, thread};

/// What fenced writers wrote, in the order of their commits.
const FENCED: Migrations = Migrations {
    component: "bench",
    steps: &["CREATE TABLE fenced (seq INTEGER PRIMARY KEY AUTOINCREMENT, token INTEGER NOT NULL) STRICT"],
};

/// The number behind the thread's newest lease.
const TOKEN: &str = "SELECT token FROM leases WHERE thread_id = ?1";

/// A right that this process had once.
struct Kept {
    lease: LeaseToken,
    token: i64,
}

/// Who appended, and which of its own entries it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    by: String,
    n: u64,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, GraphState)]
struct Log {
    #[append]
    entries: Vec<Entry>,
}

/// What one process saw.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Seen {
    committed: u64,
    refused: u64,
    stale_refused: u64,
    stale_committed: u64,
    locked: u64,
    other_errors: u64,
    words: Vec<String>,
}

/// A graph without end, which runs stop after one superstep; what it appends is this process's.
fn appending(name: &str, n: u64) -> anyhow::Result<Graph<Log>> {
    let name = name.to_owned();
    let graph = GraphBuilder::<Log>::new("log", 1)
        .node("append", move |_, _| {
            let entry = Entry { by: name.clone(), n };
            async move { Ok(LogUpdate::new().entries([entry])) }
        })
        .edge(START, "append")
        .branch("append", &["append", longhaul_durable::END], |_| "append");
    Ok(graph.build()?)
}

async fn store(dir: &Path) -> anyhow::Result<Store> {
    let migrations = [longhaul_durable::MIGRATIONS, FENCED];
    Ok(Store::open(StoreSettings::new(dir), Ambient::system(), &migrations).await?)
}

pub(crate) fn measure(rounds: u64) -> anyhow::Result<Value> {
    let dir = tempfile::tempdir()?;
    on_one_thread(async { store(dir.path()).await.map(drop) })?;
    let mut children = Vec::new();
    for name in ["a", "b"] {
        let mut contender = Command::new(std::env::current_exe()?);
        contender.arg("contender").arg(dir.path()).args([name, &rounds.to_string()]);
        children.push(contender.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?);
    }
    let mut seen = Vec::new();
    for child in children {
        let output = child.wait_with_output()?;
        ensure!(output.status.success(), "a contender failed");
        seen.push(serde_json::from_slice::<Seen>(&output.stdout)?);
    }
    on_one_thread(judge(dir.path(), &seen))
}

async fn judge(dir: &Path, seen: &[Seen]) -> anyhow::Result<Value> {
    let store = store(dir).await?;
    let runtime = Runtime::new(store.clone(), Ambient::system());
    let scope = Scope::single_user();
    let entries = runtime.state::<Log>(&scope, &thread(1)?).await?.context("nobody ran the thread")?.entries;
    // Each process numbers its commits 1, 2, 3 …: a gap is a lost commit, a number twice is a fork.
    let (mut lost, mut forked) = (0, 0);
    for (name, process) in ["a", "b"].iter().zip(seen) {
        let numbers: Vec<u64> = entries.iter().filter(|entry| entry.by == *name).map(|entry| entry.n).collect();
        lost += (1..=process.committed).filter(|n| !numbers.contains(n)).count();
        forked += numbers.len().saturating_sub(usize::try_from(process.committed)?);
    }
    let (executions, tokens) = store
        .read(|read| {
            let executions = read.query("SELECT execution_id FROM executions", &[], |_| Ok(()))?;
            let tokens = read.query("SELECT token FROM fenced ORDER BY seq", &[], |row| row.get::<i64>(0))?;
            Ok::<_, StoreError>((executions.len(), tokens))
        })
        .await?;
    forked += executions.saturating_sub(1);
    let backwards = tokens.windows(2).filter(|pair| pair[0] > pair[1]).count() as u64;
    let sum = |count: fn(&Seen) -> u64| seen.iter().map(count).sum::<u64>();
    Ok(json!({
        "lost": lost, "forked": forked, "committed": sum(|one| one.committed), "refused": sum(|one| one.refused),
        "stale_refused": sum(|one| one.stale_refused), "stale_committed": sum(|one| one.stale_committed) + backwards,
        "locked": sum(|one| one.locked), "other_errors": sum(|one| one.other_errors),
        "words": seen.iter().flat_map(|one| one.words.iter().take(3)).collect::<Vec<_>>(),
    }))
}

/// One of the two processes.
pub(crate) fn contender(dir: &Path, name: &str, rounds: u64) -> anyhow::Result<Value> {
    on_one_thread(async {
        let store = store(dir).await?;
        let runtime = Runtime::new(store.clone(), Ambient::system());
        let mut seen = Seen::default();
        let mut kept = None;
        for _ in 0..rounds {
            append(&runtime, name, &mut seen).await?;
            stale(&store, &mut kept, &mut seen).await?;
            // The other's turn, perhaps.
            tokio::task::yield_now().await;
        }
        Ok(serde_json::to_value(&seen)?)
    })
}

/// One round: a run of one superstep, or a refusal.
async fn append(runtime: &Runtime, name: &str, seen: &mut Seen) -> anyhow::Result<()> {
    let n = seen.committed + 1;
    let graph = appending(name, n)?;
    let mine = Entry { by: name.to_owned(), n };
    let stop = std::sync::Arc::new(move |state: &Log| state.entries.last() == Some(&mine));
    let options = RunOptions { stop_when: Some(stop), ..options() };
    match runtime.run(&graph, &scope()?, &thread(1)?, Log::default(), options).await {
        Ok(Outcome::Stopped(_)) => seen.committed += 1,
        Ok(_) => seen.note("a run ended in another way"),
        Err(DurableError::Lease(LeaseError::Held { .. })) => seen.refused += 1,
        Err(error) => seen.note(&chain(&error)),
    }
    Ok(())
}

/// Tries to commit with the token of an earlier round, then takes another one to be kept.
async fn stale(store: &Store, kept: &mut Option<Kept>, seen: &mut Seen) -> anyhow::Result<()> {
    let (scope, thread) = (Scope::single_user(), thread(1)?);
    if let Some(Kept { lease, token }) = kept.take() {
        let written = store
            .write(move |tx| {
                tx.check_lease(&lease)?;
                tx.execute("INSERT INTO fenced (token) VALUES (?1)", &values![token])?;
                tx.query_one(TOKEN, &values![&thread], |row| row.get::<i64>(0))
            })
            .await;
        match written {
            // Nobody has taken the thread since: the token is not stale.
            Ok(now) if now == token => {}
            Ok(_) => seen.stale_committed += 1,
            Err(StoreError::LeaseLost { .. }) => seen.stale_refused += 1,
            Err(error) => seen.note(&chain(&error)),
        }
    }
    let thread = self::thread(1)?;
    match Lease::acquire(store, &scope, &thread, Duration::from_secs(30)).await {
        Ok(lease) => {
            let read = store.read(move |read| read.query_one(TOKEN, &values![&thread], |row| row.get::<i64>(0)));
            let token = read.await.map_err(|error: StoreError| error)?;
            *kept = Some(Kept { lease: lease.token().clone(), token });
        }
        Err(LeaseError::Held { .. }) => {}
        Err(error @ LeaseError::Store(_)) => seen.note(&chain(&error)),
    }
    Ok(())
}

impl Seen {
    fn note(&mut self, words: &str) {
        if words.contains("locked") || words.contains("busy") {
            self.locked += 1;
        } else {
            self.other_errors += 1;
        }
        self.words.push(words.to_owned());
    }
}

/// An error and what lies beneath it.
fn chain(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        words = format!("{words}: {source}");
        next = source.source();
    }
    words
}

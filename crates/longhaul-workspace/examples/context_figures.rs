//! Measures context packs through the public interface; each subcommand ends with one JSON line.
//!
//! `load DIR TASKS EACH ASKED`: a store of so many tasks with so many records each, of which the first `ASKED` tasks get vectors. `packs DIR TASKS
//! ROUNDS one|all`: context packs of these tasks, or of all at once. `memory DIR TASKS ROUNDS`: the same without model and
//! vectors, and the anonymous memory that it took. A record's text is 2 kB of words in no order; vectors are made up from
//! the text, so that nothing but our work is measured. `DIR` is made by `load`; remove it afterwards.

use std::{path::Path, sync::Arc, time::Instant};

use async_trait::async_trait;
use longhaul_core::{Ambient, Scope, SessionId, TaskId, TaskScope, TraceId};
use longhaul_memory::{EmbedError, Embedder, Memory};
use longhaul_store::{Store, StoreSettings};
use longhaul_workspace::{
    Ingest, Kind, Workspace,
    context::{ContextPack, ContextRequest},
};
use serde_json::{Value, json};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const DIMENSIONS: usize = 384;
/// Records given to one call.
const BATCH: usize = 1_000;
/// Words of which texts are made.
const WORDS: [&str; 19] = [
    "risk",
    "review",
    "approval",
    "contract",
    "clause",
    "payment",
    "vendor",
    "audit",
    "evidence",
    "report",
    "finding",
    "control",
    "policy",
    "amendment",
    "liability",
    "scope",
    "delivery",
    "penalty",
    "invoice",
];
const GOALS: [&str; 5] = [
    "revise the risk review report according to approval",
    "which clause of the contract limits liability for late delivery",
    "audit findings on payment control",
    "penalty for the vendor's invoice",
    "amendment of the policy",
];

/// Vectors from a text's bytes: cheap, always the same, and spread like those of a model.
struct MadeUp;

#[async_trait]
impl Embedder for MadeUp {
    fn id(&self) -> &'static str {
        "made-up"
    }

    fn dimensions(&self) -> usize {
        DIMENSIONS
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        Ok(texts.iter().map(|text| vector(text)).collect())
    }
}

fn vector(text: &str) -> Vec<f32> {
    let mut random = Random(text.bytes().fold(1, |seed: u64, byte| seed.wrapping_mul(31).wrapping_add(byte.into())));
    (0..DIMENSIONS).map(|_| (random.next() % 2_001) as f32 / 1_000.0 - 1.0).collect()
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }
}

fn record(number: usize) -> Ingest {
    let mut random = Random(number as u64 + 1);
    let words = (0..300).map(|_| WORDS[random.next() as usize % WORDS.len()]).collect::<Vec<_>>();
    let text = format!("record {number} {}", words.join(" "));
    Ingest::new(Kind::Observation, "observations", &format!("note {number} {}", words[0]), "agent", text)
}

fn owner(task: usize) -> TaskScope {
    TaskScope {
        scope: Scope::single_user(),
        session: SessionId::from_body("bench"),
        task: TaskId::from_body(&format!("t{task:06}")),
        trace: TraceId::from_body("bench"),
    }
}

async fn open(dir: &Path, with_vectors: bool) -> Outcome<(Workspace, Memory)> {
    let migrations = [longhaul_memory::MIGRATIONS, longhaul_workspace::MIGRATIONS];
    let store = Store::open(StoreSettings::new(dir), Ambient::system(), &migrations).await?;
    let embedder = with_vectors.then(|| Arc::new(MadeUp) as Arc<dyn Embedder>);
    let memory = Memory::new(store.clone(), embedder);
    Ok((Workspace::new(store, memory.clone()), memory))
}

#[tokio::main]
async fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let given = |at: usize| arguments.get(at).map(String::as_str).unwrap_or_default();
    let number = |at: usize| given(at).parse::<usize>().map_err(|_| format!("argument {at} must be a number"));
    let dir = Path::new(given(1));
    let measured = match given(0) {
        "load" => load(dir, number(2)?, number(3)?, number(4)?).await?,
        "packs" => packs(dir, number(2)?, number(3)?, given(4) == "all").await?,
        "memory" => anonymous(dir, number(2)?, number(3)?).await?,
        _ => return Err("load DIR TASKS EACH ASKED | packs DIR TASKS ROUNDS one|all | memory DIR TASKS ROUNDS".into()),
    };
    println!("{measured}");
    Ok(())
}

async fn load(dir: &Path, tasks: usize, each: usize, asked: usize) -> Outcome<Value> {
    let started = Instant::now();
    let (with, memory) = open(dir, true).await?;
    for task in 0..asked.min(tasks) {
        fill(&with, task, each).await?;
    }
    memory.index_pending().await?;
    drop((with, memory));
    let (without, _memory) = open(dir, false).await?;
    for task in asked.min(tasks)..tasks {
        fill(&without, task, each).await?;
        if task % 50 == 0 {
            eprintln!("  {} records after {:.0} s", task * each, started.elapsed().as_secs_f64());
        }
    }
    Ok(json!({"records": tasks * each, "load_s": started.elapsed().as_secs_f64(), "anonymous_kb": anonymous_kb()}))
}

async fn fill(workspace: &Workspace, task: usize, each: usize) -> Outcome<()> {
    let workspace = workspace.task(&owner(task));
    for from in (0..each).step_by(BATCH) {
        let batch = (from..each.min(from + BATCH)).map(|number| record(task * each + number)).collect();
        workspace.ingest_many(batch).await?;
    }
    Ok(())
}

async fn packs(dir: &Path, tasks: usize, rounds: usize, all: bool) -> Outcome<Value> {
    let (workspace, _memory) = open(dir, true).await?;
    let (mut times, mut cold) = (Vec::new(), Vec::new());
    let mut last = None;
    for round in 0..rounds {
        for task in 0..if all { 1 } else { tasks } {
            let pack = build(&workspace, task, round, all).await?;
            let took = pack.elapsed_us - pack.searched.embedded_us;
            // The first of each reads columns and vectors of the task from the store.
            if round == 0 {
                cold.push(took)
            } else {
                times.push(took)
            }
            last = Some(pack);
        }
    }
    let pack = last.ok_or("nothing was asked")?;
    Ok(json!({
        "p50_us": at(&mut times, 50), "p99_us": at(&mut times, 99), "first_p50_us": at(&mut cold, 50),
        "items": pack.items.len(), "omitted": pack.omitted.len(), "used_tokens": pack.used_tokens,
        "parts": pack.searched.record_parts, "notes": pack.notes, "anonymous_kb": anonymous_kb(),
    }))
}

async fn anonymous(dir: &Path, tasks: usize, rounds: usize) -> Outcome<Value> {
    let (workspace, _memory) = open(dir, false).await?;
    let mut peak = anonymous_kb();
    for round in 0..rounds {
        for task in 0..tasks {
            build(&workspace, task, round, false).await?;
            peak = peak.max(anonymous_kb());
        }
    }
    // And one of everything that is in reach.
    build(&workspace, 0, 0, true).await?;
    Ok(json!({"anonymous_kb": peak.max(anonymous_kb())}))
}

async fn build(workspace: &Workspace, task: usize, round: usize, all: bool) -> Outcome<ContextPack> {
    let goal = format!("{} {}", GOALS[(task + round) % GOALS.len()], round % 7);
    let request = ContextRequest::new(goal).budget_tokens(12_000);
    let owner = owner(task);
    let pack = if all {
        workspace.user(&owner.scope).build_context(&request).await?
    } else {
        workspace.task(&owner).build_context(&request).await?
    };
    if pack.used_tokens > pack.budget_tokens {
        return Err("a pack is over its budget".into());
    }
    Ok(pack)
}

fn at(times: &mut [u64], percent: usize) -> Option<u64> {
    times.sort_unstable();
    times.get((times.len() * percent / 100).min(times.len().max(1) - 1)).copied()
}

/// Anonymous memory of this process, in kB (Linux; otherwise 0).
fn anonymous_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}

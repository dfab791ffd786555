//! How many records and milestones a second are kept durably. For `cargo xtask bench workspace`.
//!
//! `workspace_figures --dir DIR [--records N] [--text plain|real]`: DIR is a new folder on the disk that is measured; N
//! records (10,000 unless given) of 2 kB are ingested in batches, spread over tasks of 1,000, then N/5 one by one, then
//! N/5 milestones. `plain` text says a few words over and over; `real` has about 180 distinct words in each record, as
//! English prose of that length does. Every record can be found by its words from its commit on; vectors are queued.
//! Prints one JSON object: records a second, latencies in microseconds, and how many index rows wait for vectors.

use std::{path::PathBuf, sync::Arc, time::Instant};

use async_trait::async_trait;
use longhaul_core::{Ambient, Rng, Scope, SeededRng, SessionId, TaskId, TaskScope, TraceId};
use longhaul_memory::{EmbedError, Embedder, Memory};
use longhaul_store::{Store, StoreSettings};
use longhaul_workspace::{Find, Ingest, Kind, NewMilestone, RecordRef, TaskWorkspace, Workspace};
use serde_json::{Value, json};

type Failure = Box<dyn std::error::Error + Send + Sync>;

const RECORD_BYTES: usize = 2_048;
const TASK_RECORDS: usize = 1_000;

/// Never asked here: it only makes index rows wait for a vector.
struct Later;

#[async_trait]
impl Embedder for Later {
    fn id(&self) -> &'static str {
        "later"
    }

    fn dimensions(&self) -> usize {
        4
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        Ok(vec![vec![1.0; 4]; texts.len()])
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let value = |flag: &str| {
        let at = arguments.iter().position(|argument| argument == flag);
        at.and_then(|at| arguments.get(at + 1)).cloned()
    };
    let dir = PathBuf::from(value("--dir").ok_or("name a new folder with --dir")?);
    let records: usize = value("--records").map_or(Ok(10_000), |text| text.parse())?;
    let is_real = match value("--text").as_deref() {
        None | Some("real") => true,
        Some("plain") => false,
        Some(other) => return Err(format!("--text {other}: there are plain and real").into()),
    };
    let migrations = [longhaul_memory::MIGRATIONS, longhaul_workspace::MIGRATIONS];
    let store = Store::open(StoreSettings::new(&dir), Ambient::system(), &migrations).await?;
    let memory = Memory::new(store.clone(), Some(Arc::new(Later)));
    let workspace = Workspace::new(store, memory.clone());
    let mut texts = Texts::new(is_real);

    let batched = batched(&workspace, &mut texts, records).await?;
    let (one_by_one, kept) = one_by_one(&workspace, &mut texts, records / 5).await?;
    let milestones = milestones(&workspace, &kept, records / 5).await?;
    let backlog = memory.backlog(&Scope::single_user()).await?;
    println!(
        "{}",
        json!({
            "records": records, "record_bytes": RECORD_BYTES, "text": if is_real { "real" } else { "plain" },
            "distinct_words": texts.distinct(), "batched": batched, "one_by_one": one_by_one,
            "milestones": milestones, "backlog": backlog,
        })
    );
    Ok(())
}

fn task(workspace: &Workspace, name: &str) -> TaskWorkspace {
    workspace.task(&TaskScope {
        scope: Scope::single_user(),
        session: SessionId::from_body("figures"),
        task: TaskId::from_body(name),
        trace: TraceId::from_body("figures"),
    })
}

fn record(texts: &mut Texts, number: usize) -> Ingest {
    Ingest::new(Kind::Observation, "pages", &format!("page {number} of the file"), "tool:reader", texts.next())
}

async fn batched(workspace: &Workspace, texts: &mut Texts, records: usize) -> Result<Value, Failure> {
    let batches: Vec<Vec<Ingest>> = (0..records.div_ceil(TASK_RECORDS))
        .map(|batch| (0..TASK_RECORDS.min(records - batch * TASK_RECORDS)).map(|n| record(texts, n)).collect())
        .collect();
    let (started, mut kept) = (Instant::now(), 0);
    for (number, batch) in batches.into_iter().enumerate() {
        kept += task(workspace, &format!("b{number}")).ingest_many(batch).await?.len();
    }
    let seconds = started.elapsed().as_secs_f64();
    Ok(json!({ "per_second": rate(kept, seconds), "seconds": seconds }))
}

async fn one_by_one(
    workspace: &Workspace,
    texts: &mut Texts,
    records: usize,
) -> Result<(Value, Vec<RecordRef>), Failure> {
    let all: Vec<Ingest> = (0..records).map(|n| record(texts, n)).collect();
    let (mut kept, mut took) = (Vec::with_capacity(records), Vec::with_capacity(records));
    let started = Instant::now();
    for (number, each) in all.into_iter().enumerate() {
        let begun = Instant::now();
        kept.push(task(workspace, &format!("o{}", number / TASK_RECORDS)).ingest(each).await?);
        took.push(begun.elapsed().as_micros());
    }
    let seconds = started.elapsed().as_secs_f64();
    // Found at once, whatever waits for its vector.
    let found = task(workspace, "o0").search(&Find::new("page 7 of the file", 5)).await?;
    if found.hits.is_empty() {
        return Err("a record that was kept is not found".into());
    }
    Ok((json!({ "per_second": rate(records, seconds), "us": quantiles(took) }), kept))
}

async fn milestones(workspace: &Workspace, kept: &[RecordRef], count: usize) -> Result<Value, Failure> {
    let task = task(workspace, "o0");
    let mut took = Vec::with_capacity(count);
    let started = Instant::now();
    for number in 0..count {
        let refs = kept.iter().cycle().skip(number).take(2).cloned().collect();
        let begun = Instant::now();
        task.reach(NewMilestone { name: format!("step {number}"), refs, ..NewMilestone::default() }).await?;
        took.push(begun.elapsed().as_micros());
    }
    let seconds = started.elapsed().as_secs_f64();
    Ok(json!({ "per_second": rate(count, seconds), "us": quantiles(took) }))
}

fn rate(count: usize, seconds: f64) -> f64 {
    (count as f64 / seconds).round()
}

fn quantiles(mut took: Vec<u128>) -> Value {
    took.sort_unstable();
    let at = |share: usize| took.get((took.len() * share / 100).min(took.len().saturating_sub(1))).copied();
    json!({ "p50": at(50), "p99": at(99) })
}

/// Texts of [`RECORD_BYTES`].
struct Texts {
    random: SeededRng,
    words: Vec<String>,
    /// How many words the texts so far had, and how many different ones each.
    distinct: (usize, usize),
}

impl Texts {
    fn new(is_real: bool) -> Self {
        let (random, count) = (SeededRng::new(3), if is_real { 30_000 } else { 12 });
        let syllables = ["ka", "ro", "mi", "ten", "sel", "dor", "vi", "pas", "lun", "gre", "ob", "ish"];
        let word = |number: usize| {
            let mut word = String::new();
            let mut rest = number + 12;
            while rest > 0 {
                word.push_str(syllables[rest % syllables.len()]);
                rest /= syllables.len();
            }
            word
        };
        Self { random, words: (0..count).map(word).collect(), distinct: (0, 0) }
    }

    /// Frequent words come often, as in prose: the rank is a power of an even chance.
    fn next(&mut self) -> String {
        let (mut text, mut different) = (String::with_capacity(RECORD_BYTES + 16), std::collections::HashSet::new());
        while text.len() < RECORD_BYTES {
            let chance = (self.random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
            let rank = (self.words.len() as f64).powf(chance) - 1.0;
            let word = &self.words[(rank as usize).min(self.words.len() - 1)];
            different.insert(word.clone());
            text.push_str(word);
            text.push(' ');
        }
        text.truncate(RECORD_BYTES);
        self.distinct = (self.distinct.0 + 1, self.distinct.1 + different.len());
        text
    }

    fn distinct(&self) -> usize {
        self.distinct.1 / self.distinct.0.max(1)
    }
}

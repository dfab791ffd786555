//! Measuring the whole engine through its public interface: rows with texts, metadata, threads and vectors, loaded,
//! searched by meaning, by words, with filters, beside writers.
//!
//! Recall is against a comparison of everything in full precision.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use async_trait::async_trait;
use longhaul_core::{Ambient, Scope};
use longhaul_store::{Store, StoreSettings};

use super::{Searched, micros, vectors::anonymous_kb};
use crate::{
    Condition, EmbedError, Embedder, Kind, MIGRATIONS, Memory, MemoryError, NewMemory, Op, Query, Source, vectors,
};

/// What to measure.
#[derive(Debug, Clone)]
pub struct EngineSettings {
    /// One text for each memory.
    pub texts: Arc<Vec<String>>,
    /// Its unit vector, all of one length.
    pub vectors: Arc<Vec<Vec<f32>>>,
    /// Texts with unit vectors to search for.
    pub queries: Arc<Vec<(String, Vec<f32>)>>,
    /// Hits of each search.
    pub k: usize,
    /// Single writes whose time until they are found is measured.
    pub single_writes: usize,
}

/// What was measured. Times are beside the embedding.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EngineMeasured {
    /// Checking and committing all memories with their vectors and keywords, in milliseconds.
    pub load_ms: u64,
    /// From then on until the first search by meaning and words had its answer.
    pub searchable_ms: u64,
    /// From then on until the background was done.
    pub indexed_ms: u64,
    /// Anonymous memory of the process that all this took, in kB (Linux; otherwise 0).
    pub anonymous_kb: u64,
    /// Searches by meaning.
    pub meaning: Searched,
    /// Searches by meaning among the fiftieth part with one value of the metadata.
    pub filtered: Searched,
    /// Searches by words.
    pub words: Searched,
    /// Searches by meaning and words, with a condition on the metadata, a time range and decay.
    pub hybrid: Searched,
    /// One durable write until a search has found it.
    pub write_to_found: Searched,
    /// Searches by meaning during 1,000 writes a second.
    pub while_writing: Searched,
    /// Writes a second that were reached then.
    pub writes_per_second: u64,
    /// The first search of a new process.
    pub reopened_ms: u64,
}

/// Fails when it is asked: every vector is given.
struct Given(usize);

#[async_trait]
impl Embedder for Given {
    fn id(&self) -> &'static str {
        "given"
    }

    fn dimensions(&self) -> usize {
        self.0
    }

    async fn embed(&self, _texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        Err(EmbedError::Failed { id: "given".to_owned(), problem: "every vector is given".to_owned() })
    }
}

/// Memories given to one call while loading.
const LOADED: usize = 10_240;

/// What kind of search is measured.
#[derive(Debug, Clone, Copy, PartialEq)]
enum By {
    Meaning,
    Filtered,
    Words,
    Hybrid,
}

struct Bench {
    memory: Memory,
    scope: Scope,
    settings: EngineSettings,
    started_ms: i64,
}

/// Fills a new store in `dir` and searches it.
///
/// # Errors
/// Those of the store.
pub async fn engine(dir: &Path, settings: EngineSettings) -> Result<EngineMeasured, MemoryError> {
    let dimensions = settings.vectors.first().map_or(0, Vec::len);
    let open = || async {
        let store = Store::open(StoreSettings::new(dir), Ambient::system(), &[MIGRATIONS]).await?;
        Ok::<_, MemoryError>(Memory::new(store, Some(Arc::new(Given(dimensions)))))
    };
    let mut bench = Bench { memory: open().await?, scope: Scope::single_user(), settings, started_ms: 0 };
    bench.started_ms = bench.memory.shared.store.ambient().clock.now().0;
    let before_kb = anonymous_kb();
    let started = Instant::now();
    bench.load().await?;
    let load_ms = micros(started.elapsed()) / 1000;
    let started = Instant::now();
    bench.search(0, By::Hybrid).await?;
    let searchable_ms = micros(started.elapsed()) / 1000;
    let mut peak_kb = anonymous_kb();
    let started = Instant::now();
    while !bench.memory.shared.vectors.is_idle() {
        peak_kb = peak_kb.max(anonymous_kb());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let indexed_ms = micros(started.elapsed()) / 1000;

    let meaning = bench.measure(By::Meaning, &bench.truth(1)).await?;
    let filtered = bench.measure(By::Filtered, &bench.truth(50)).await?;
    let words = bench.measure(By::Words, &[]).await?;
    let hybrid = bench.measure(By::Hybrid, &[]).await?;
    peak_kb = peak_kb.max(anonymous_kb());
    let write_to_found = bench.write_to_found().await?;
    let stop = Arc::new(AtomicBool::new(false));
    let writer = tokio::spawn(bench.writer(stop.clone()));
    let while_writing = bench.measure(By::Meaning, &[]).await?;
    stop.store(true, Ordering::Relaxed);
    let writes_per_second = writer.await.unwrap_or(Ok(0))?;

    bench.memory = open().await?;
    let started = Instant::now();
    bench.search(0, By::Hybrid).await?;
    let reopened_ms = micros(started.elapsed()) / 1000;
    Ok(EngineMeasured {
        load_ms,
        searchable_ms,
        indexed_ms,
        anonymous_kb: peak_kb.saturating_sub(before_kb),
        meaning,
        filtered,
        words,
        hybrid,
        write_to_found,
        while_writing,
        writes_per_second,
        reopened_ms,
    })
}

impl Bench {
    fn new_memory(&self, number: usize) -> NewMemory {
        let Self { settings, .. } = self;
        let mut memory = NewMemory::new(
            "measured",
            Kind::Fact,
            Source::Harness,
            settings.texts[number % settings.texts.len()].clone(),
        );
        memory.meta.insert("n".to_owned(), number.into());
        memory.meta.insert("part".to_owned(), (number % 50).into());
        memory.thread = Some(format!("thread {}", number / 20));
        memory.vector = Some(settings.vectors[number % settings.vectors.len()].clone());
        memory
    }

    async fn load(&self) -> Result<(), MemoryError> {
        let count = self.settings.vectors.len();
        for from in (0..count).step_by(LOADED) {
            let batch = (from..count.min(from + LOADED)).map(|number| self.new_memory(number)).collect();
            self.memory.insert_many(&self.scope, batch).await?;
        }
        Ok(())
    }

    fn query(&self, index: usize, by: By) -> Query {
        let (text, vector) = &self.settings.queries[index % self.settings.queries.len()];
        let text = if by == By::Words || by == By::Hybrid { text.clone() } else { String::new() };
        let vector = (by != By::Words).then(|| vector.clone());
        let mut query = Query { text, vector, k: self.settings.k, ..Query::default() };
        match by {
            By::Filtered => {
                query.filter = vec![Condition::new("part", Op::Eq, 0)];
                query.context = false;
            }
            By::Hybrid => {
                query.filter = vec![Condition::new("part", Op::Lt, 45)];
                query.since = Some(longhaul_core::TimeMs(self.started_ms));
            }
            // What stands beside a memory would put others first than the comparison of everything does.
            By::Meaning => query.context = false,
            By::Words => {}
        }
        query
    }

    /// The numbers found.
    async fn search(&self, index: usize, by: By) -> Result<Vec<u64>, MemoryError> {
        let recall = self.memory.search(&self.scope, &self.query(index, by)).await?;
        Ok(recall.hits.iter().filter_map(|hit| hit.item.meta.get("n")?.as_u64()).collect())
    }

    /// Searches; with a truth also what share of it was found.
    async fn measure(&self, by: By, truth: &[Vec<u64>]) -> Result<Searched, MemoryError> {
        let (mut times, mut right) = (Vec::new(), 0);
        for round in 0..4 {
            for index in 0..self.settings.queries.len() {
                let started = Instant::now();
                let found = self.search(index, by).await?;
                let took = micros(started.elapsed());
                if round > 0 {
                    times.push(took);
                    right += truth
                        .get(index)
                        .map_or(found.len(), |truth| found.iter().filter(|number| truth.contains(number)).count());
                }
            }
        }
        let recall = right as f64 / (times.len() * self.settings.k).max(1) as f64;
        Ok(summed(times, recall))
    }

    /// Numbers of the nearest to each query, among every `step`-th.
    fn truth(&self, step: usize) -> Vec<Vec<u64>> {
        let nearest = |(_, query): &(String, Vec<f32>)| {
            let all = (0..self.settings.vectors.len()).step_by(step);
            let mut all: Vec<(f32, u64)> =
                all.map(|number| (vectors::dot(query, &self.settings.vectors[number]), number as u64)).collect();
            let take = self.settings.k.min(all.len() - 1);
            all.select_nth_unstable_by(take, |a, b| b.0.total_cmp(&a.0));
            all[..take].iter().map(|(_, number)| *number).collect()
        };
        self.settings.queries.iter().map(nearest).collect()
    }

    async fn write_to_found(&self) -> Result<Searched, MemoryError> {
        let (mut times, mut found) = (Vec::new(), 0);
        for number in 0..self.settings.single_writes {
            let marker = format!("marker{number}x");
            let mut memory = self.new_memory(number);
            memory.content = format!("{marker} {}", memory.content);
            let query = Query { vector: memory.vector.clone(), ..Query::new(&marker, 5) };
            let started = Instant::now();
            let id = self.memory.add(&self.scope, memory).await?;
            let recall = self.memory.search(&self.scope, &query).await?;
            times.push(micros(started.elapsed()));
            found += usize::from(recall.hits.iter().any(|hit| hit.item.id == id));
        }
        let recall = found as f64 / times.len().max(1) as f64;
        Ok(summed(times, recall))
    }

    /// 1,000 single writes a second until told to stop; gives the rate that was reached.
    fn writer(&self, stop: Arc<AtomicBool>) -> impl Future<Output = Result<u64, MemoryError>> + use<> {
        let (memory, scope) = (self.memory.clone(), self.scope.clone());
        let new: Vec<NewMemory> = (0..1_000).map(|number| self.new_memory(number)).collect();
        async move {
            let started = Instant::now();
            let mut ticks = tokio::time::interval(Duration::from_millis(10));
            let mut written = 0_usize;
            while !stop.load(Ordering::Relaxed) {
                ticks.tick().await;
                let mut writes = tokio::task::JoinSet::new();
                for _ in 0..10 {
                    let (memory, scope, new) = (memory.clone(), scope.clone(), new[written % new.len()].clone());
                    writes.spawn(async move { memory.add(&scope, new).await });
                    written += 1;
                }
                while let Some(write) = writes.join_next().await {
                    write.unwrap_or(Err(MemoryError::Empty))?;
                }
            }
            Ok((written as f64 / started.elapsed().as_secs_f64()) as u64)
        }
    }
}

fn summed(mut times: Vec<u64>, recall: f64) -> Searched {
    times.sort_unstable();
    let at =
        |percent: usize| times.get((times.len() * percent / 100).min(times.len().max(1) - 1)).copied().unwrap_or(0);
    Searched { p50_us: at(50), p99_us: at(99), recall }
}

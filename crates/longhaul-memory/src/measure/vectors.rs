//! Measuring the vector engine by itself: rows with vectors in a store, searched without words and SQL filters.
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

use longhaul_core::{Ambient, Scope};
use longhaul_store::{Store, StoreSettings, Tx, values};

use super::micros;
use crate::{
    MIGRATIONS, MemoryError, Namespace,
    bits::Bits,
    namespace::PartitionId,
    vectors::{self, Cache},
};

/// What to measure.
#[derive(Debug, Clone)]
pub struct VectorSettings {
    /// Unit vectors of one length, one memory each.
    pub vectors: Arc<Vec<Vec<f32>>>,
    /// Unit vectors to search for, not among them.
    pub queries: Arc<Vec<Vec<f32>>>,
    /// Hits of each search.
    pub k: usize,
}

/// Times of many searches in microseconds, and the share of the true nearest that they found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Searched {
    /// Half took no longer.
    pub p50_us: u64,
    /// Of a hundred, 99 took no longer.
    pub p99_us: u64,
    /// From 0 to 1.
    pub recall: f64,
}

/// What was measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct VectorsMeasured {
    /// Committing all rows, in milliseconds.
    pub load_ms: u64,
    /// From then on until the first search had its answer.
    pub searchable_ms: u64,
    /// From then on until the background was done, its file included.
    pub indexed_ms: u64,
    /// The first search of a new process, which reads the file.
    pub reopened_ms: u64,
    /// Anonymous memory that this took at most, in kB (Linux; otherwise 0).
    pub anonymous_kb: u64,
    /// Searches while the background builds.
    pub while_building: Searched,
    /// Searches when it is done.
    pub idle: Searched,
    /// Searches among one memory of fifty.
    pub filtered: Searched,
    /// Searches during 1,000 writes a second.
    pub while_writing: Searched,
    /// Writes a second that were reached then.
    pub writes_per_second: u64,
}

const EMBEDDER: &str = "measured";

struct Bench {
    store: Store,
    cache: Arc<Cache>,
    id: PartitionId,
    settings: VectorSettings,
}

/// Fills a new store in `dir` with the vectors and searches them.
///
/// # Errors
/// Those of the store.
pub async fn vectors(dir: &Path, settings: VectorSettings) -> Result<VectorsMeasured, MemoryError> {
    let store = Store::open(StoreSettings::new(dir), Ambient::system(), &[MIGRATIONS]).await?;
    let id = PartitionId::new(&Scope::single_user().tenant, &Namespace::default());
    let new_cache = || Arc::new(Cache::new(1 << 40, Some(dir.join("indexes"))));
    let mut bench = Bench { store, cache: new_cache(), id, settings };
    let count = bench.settings.vectors.len();
    let everything = Arc::new(of_every(count, 1));
    let truth = bench.truth(1);

    let started = Instant::now();
    for from in (0..count).step_by(1000) {
        bench.insert(from, from..count.min(from + 1000), count).await?;
    }
    let load_ms = millis(started);
    let before_kb = anonymous_kb();
    let started = Instant::now();
    bench.search(0, everything.clone()).await?;
    let searchable_ms = millis(started);
    let mut peak_kb = anonymous_kb();

    let started = Instant::now();
    let mut early = Vec::new();
    while !bench.cache.is_idle() {
        let query = early.len() % bench.settings.queries.len();
        let asked = Instant::now();
        let found = bench.search(query, everything.clone()).await?;
        early.push((micros(asked.elapsed()), hits(&found, &truth[query])));
        peak_kb = peak_kb.max(anonymous_kb());
        // As many searches as a busy user makes, so that building is measured rather than searching.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let indexed_ms = millis(started);
    let while_building = bench.summed(early);

    let idle = bench.measure(&everything, &truth).await?;
    let filtered = bench.measure(&Arc::new(of_every(count, 50)), &bench.truth(50)).await?;

    let stop = Arc::new(AtomicBool::new(false));
    let writer = tokio::spawn(bench.writer(count, stop.clone()));
    let while_writing = bench.measure(&everything, &truth).await?;
    stop.store(true, Ordering::Relaxed);
    let writes_per_second = writer.await.unwrap_or(Ok(0))?;

    bench.cache = new_cache();
    let started = Instant::now();
    bench.search(0, everything).await?;
    let reopened_ms = millis(started);
    let anonymous_kb = peak_kb.saturating_sub(before_kb);
    Ok(VectorsMeasured {
        load_ms,
        searchable_ms,
        indexed_ms,
        reopened_ms,
        anonymous_kb,
        while_building,
        idle,
        filtered,
        while_writing,
        writes_per_second,
    })
}

impl Bench {
    /// Writes vectors under numbers from `first + 1` on.
    async fn insert(&self, first: usize, range: std::ops::Range<usize>, all: usize) -> Result<(), MemoryError> {
        let (vectors, id) = (self.settings.vectors.clone(), self.id.clone());
        let insert = move |tx: &mut Tx<'_>| {
            for (seq, index) in (first + 1..).zip(range) {
                put(tx, &id, seq, &vectors[index % all])?;
            }
            Ok::<_, MemoryError>(())
        };
        self.store.write(insert).await
    }

    /// 1,000 single writes a second until told to stop; gives the rate that was reached.
    fn writer(&self, first: usize, stop: Arc<AtomicBool>) -> impl Future<Output = Result<u64, MemoryError>> + use<> {
        let (vectors, id, store) = (self.settings.vectors.clone(), self.id.clone(), self.store.clone());
        async move {
            let started = Instant::now();
            let mut ticks = tokio::time::interval(Duration::from_millis(10));
            let mut written = 0;
            while !stop.load(Ordering::Relaxed) {
                ticks.tick().await;
                for _ in 0..10 {
                    let (vectors, id) = (vectors.clone(), id.clone());
                    let vector =
                        move |tx: &mut Tx<'_>| put(tx, &id, first + written + 1, &vectors[written % vectors.len()]);
                    store.write(vector).await?;
                    written += 1;
                }
            }
            Ok((written as f64 / started.elapsed().as_secs_f64()) as u64)
        }
    }

    async fn search(&self, query: usize, allowed: Arc<Bits>) -> Result<Vec<(f32, i64)>, MemoryError> {
        let (cache, id, settings) = (self.cache.clone(), self.id.clone(), self.settings.clone());
        self.store
            .read(move |read| {
                let query = &settings.queries[query];
                let current = cache.current(read, &id, EMBEDDER, query.len())?;
                Ok(current.search(read, query, &allowed, settings.k)?)
            })
            .await
    }

    async fn measure(&self, allowed: &Arc<Bits>, truth: &[Vec<i64>]) -> Result<Searched, MemoryError> {
        let mut times = Vec::new();
        for round in 0..4 {
            for (query, truth) in truth.iter().enumerate() {
                let started = Instant::now();
                let found = self.search(query, allowed.clone()).await?;
                if round > 0 {
                    times.push((micros(started.elapsed()), hits(&found, truth)));
                }
            }
        }
        Ok(self.summed(times))
    }

    fn summed(&self, mut times: Vec<(u64, usize)>) -> Searched {
        times.sort_unstable();
        let at = |percent: usize| times.get(times.len() * percent / 100).map_or(0, |(time, _)| *time);
        let found: usize = times.iter().map(|(_, found)| found).sum();
        let recall = found as f64 / (times.len() * self.settings.k).max(1) as f64;
        Searched { p50_us: at(50), p99_us: at(99), recall }
    }

    /// Numbers of the nearest to each query, among every `step`-th.
    fn truth(&self, step: usize) -> Vec<Vec<i64>> {
        let allowed = of_every(self.settings.vectors.len(), step);
        let nearest = |query: &Vec<f32>| {
            let cosine = |seq: i64| vectors::dot(query, &self.settings.vectors[seq as usize - 1]);
            let mut all: Vec<(f32, i64)> = allowed.iter().map(|seq| (cosine(seq), seq)).collect();
            let take = self.settings.k.min(all.len() - 1);
            all.select_nth_unstable_by(take, |a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)));
            all[..take].iter().map(|(_, seq)| *seq).collect()
        };
        self.settings.queries.iter().map(nearest).collect()
    }
}

fn put(tx: &mut Tx<'_>, id: &PartitionId, seq: usize, vector: &[f32]) -> Result<(), MemoryError> {
    tx.execute(
        "INSERT INTO memory_partitions (tenant_id, namespace, owner, purpose, frozen, last_seq, last_change,
                                        last_vector_seq, analyser, documents, terms, created_at)
         VALUES (?1, ?2, 'user_1', 'memory', 0, ?3, 0, ?3, 0, 0, 0, 0)
         ON CONFLICT (tenant_id, namespace)
         DO UPDATE SET last_seq = excluded.last_seq, last_vector_seq = excluded.last_vector_seq",
        &values![&id.tenant, id.namespace.as_str(), seq],
    )?;
    tx.execute(
        "INSERT INTO memory_vectors (tenant_id, namespace, seq, embedder, vector_seq, vector)
         VALUES (?1, ?2, ?3, ?4, ?3, ?5)",
        &values![&id.tenant, id.namespace.as_str(), seq, EMBEDDER, vectors::encode(vector)],
    )?;
    Ok(())
}

fn of_every(count: usize, step: usize) -> Bits {
    let mut bits = Bits::up_to(count as i64);
    (1..=count).step_by(step).for_each(|seq| bits.add(seq as i64));
    bits
}

fn hits(found: &[(f32, i64)], truth: &[i64]) -> usize {
    found.iter().filter(|(_, seq)| truth.contains(seq)).count()
}

fn millis(since: Instant) -> u64 {
    micros(since.elapsed()) / 1000
}

pub(super) fn anonymous_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}

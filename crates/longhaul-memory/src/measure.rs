//! Measuring recall on a corpus that is made up but shaped like real text: word frequencies after Zipf, vectors that
//! follow the words. For benches; it uses nothing but the public interface.

mod clusters;
mod engine;
mod expiry;
mod vectors;

pub use clusters::{clustered, unit};
pub use engine::{EngineMeasured, EngineSettings, engine};
pub use expiry::{ExpiryMeasured, expiry};
pub use vectors::{Searched, VectorSettings, VectorsMeasured, vectors};

use std::{
    collections::HashMap,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use longhaul_core::{Ambient, Rng, Scope, SeededRng};
use longhaul_store::{Store, StoreSettings};

use crate::{EmbedError, Embedder, Kind, LocalModel, MIGRATIONS, Memory, MemoryError, NewMemory, Query, Source};

/// What to measure.
#[derive(Debug, Clone, Copy)]
pub struct RecallSettings {
    /// Memories in the tenant.
    pub memories: usize,
    /// Words of each memory.
    pub words: usize,
    /// Words of each query.
    pub query_words: usize,
    /// Searches.
    pub searches: usize,
}

impl Default for RecallSettings {
    /// 10,000 memories of 40 words, 200 searches of 12 words.
    fn default() -> Self {
        Self { memories: 10_000, words: 40, query_words: 12, searches: 200 }
    }
}

/// What was measured, in microseconds beside the embedding of the query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecallMeasured {
    /// The first search of a process, which reads the vectors from the store.
    pub first_us: u64,
    /// The fastest of the following searches: what it takes when nothing else wants the processor.
    pub fastest_us: u64,
    /// Half of the following searches took no longer.
    pub p50_us: u64,
    /// Of a hundred of the following searches, 99 took no longer.
    pub p99_us: u64,
    /// One write transaction with one memory, on average over the corpus (500 memories share a commit).
    pub insert_us: u64,
}

/// What the local embedding model takes, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EmbeddingMeasured {
    /// Identifying the model, without its weights: what a start pays.
    pub open_us: u64,
    /// Reading the weights and embedding the first text.
    pub first_us: u64,
    /// A query of about 15 tokens; median of 30.
    pub query_us: u64,
    /// A text of about 100 tokens among 32 of them; mean.
    pub batch_text_us: u64,
}

/// Loads the model in `dir` and embeds.
///
/// # Errors
/// Those of the embedder.
pub async fn embedding(dir: &Path) -> Result<EmbeddingMeasured, EmbedError> {
    let started = Instant::now();
    let model = LocalModel::open(dir)?;
    let open_us = micros(started.elapsed());
    let query = ["how does the login page keep the session alive after a restart".to_owned()];
    let started = Instant::now();
    model.embed(&query).await?;
    let first_us = micros(started.elapsed());
    let mut times = Vec::new();
    for _ in 0..30 {
        let started = Instant::now();
        model.embed(&query).await?;
        times.push(micros(started.elapsed()));
    }
    times.sort_unstable();
    let texts: Vec<String> = (0..32).map(|n| format!("{n} {}", query[0].repeat(8))).collect();
    let started = Instant::now();
    model.embed(&texts).await?;
    let batch_text_us = micros(started.elapsed()) / 32;
    Ok(EmbeddingMeasured { open_us, first_us, query_us: times[times.len() / 2], batch_text_us })
}

/// Fills a new store in `dir` and searches it.
///
/// # Errors
/// Those of the store.
pub async fn recall(dir: &Path, settings: RecallSettings) -> Result<RecallMeasured, MemoryError> {
    let store = Store::open(StoreSettings::new(dir), Ambient::system(), &[MIGRATIONS]).await?;
    let memory = Memory::new(store.clone(), Some(Arc::new(WordVectors)));
    let scope = Scope::single_user();
    let corpus = Corpus(SeededRng::new(7));

    let started = Instant::now();
    let mut left = settings.memories;
    while left > 0 {
        let batch: Vec<String> = (0..left.min(500)).map(|_| corpus.text(settings.words)).collect();
        left -= batch.len();
        let (memory, scope) = (memory.clone(), scope.clone());
        let insert = move |tx: &mut longhaul_store::Tx<'_>| {
            for text in batch {
                memory.insert(tx, &scope, &NewMemory::new("project", Kind::Episode, Source::Harness, text))?;
            }
            Ok::<_, MemoryError>(())
        };
        store.write(insert).await?;
    }
    let insert_us = micros(started.elapsed()) / settings.memories.max(1) as u64;
    memory.index_pending().await?;

    let first_us = memory.search(&scope, &Query::new(corpus.text(settings.query_words), 10)).await?.elapsed_us;
    let mut times = Vec::with_capacity(settings.searches);
    for _ in 0..settings.searches {
        let query = Query::new(corpus.text(settings.query_words), 10);
        times.push(memory.search(&scope, &query).await?.elapsed_us);
    }
    times.sort_unstable();
    let at =
        |percent: usize| times.get((times.len() * percent / 100).min(times.len().max(1) - 1)).copied().unwrap_or(0);
    Ok(RecallMeasured { first_us, fastest_us: at(0), p50_us: at(50), p99_us: at(99), insert_us })
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Makes texts up.
struct Corpus(SeededRng);

impl Corpus {
    fn text(&self, words: usize) -> String {
        let words: Vec<String> = (0..words).map(|_| format!("w{}x", self.word())).collect();
        words.join(" ")
    }

    /// A rank among 20,000 words, with the inverse of the rank as its probability, nearly.
    fn word(&self) -> u64 {
        const WORDS: f64 = 20_000.0;
        let uniform = (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        WORDS.powf(uniform) as u64
    }
}

/// Vectors that add up one random direction for each word: near when words are shared.
struct WordVectors;

const DIMENSIONS: usize = 384;

#[async_trait]
impl Embedder for WordVectors {
    fn id(&self) -> &'static str {
        "word-vectors"
    }

    fn dimensions(&self) -> usize {
        DIMENSIONS
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let mut directions: HashMap<&str, Vec<f32>> = HashMap::new();
        let mut vectors = Vec::with_capacity(texts.len());
        for text in texts {
            let mut sum = vec![0.0; DIMENSIONS];
            for word in text.split_whitespace() {
                let direction = directions.entry(word).or_insert_with(|| direction(word));
                sum.iter_mut().zip(direction).for_each(|(sum, value)| *sum += *value);
            }
            vectors.push(sum);
        }
        Ok(vectors)
    }
}

/// A direction that follows from the word: xorshift (Marsaglia, 2003), started with a hash.
fn direction(word: &str) -> Vec<f32> {
    let mut state = word.bytes().fold(5381_u64, |hash, byte| hash.wrapping_mul(33) ^ u64::from(byte)) | 1;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / 8_388_608.0 - 1.0
    };
    (0..DIMENSIONS).map(next).collect()
}

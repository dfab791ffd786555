//! Measures memory over a Milvus server: how long a search takes with the overlay, how long filling takes, and whether a
//! read is ever stale. `cargo run --release -p longhaul-milvus --example measure_milvus -- full 100000 10000` starts a
//! server of its own (`full` or `lite`, from `scripts/peers.sh`), or takes the address of one. The last line is JSON.

use std::{sync::Arc, time::Instant};

use async_trait::async_trait;
use longhaul_core::{Ambient, Rng, Scope, SeededRng};
use longhaul_memory::{EmbedError, Embedder, Kind, MIGRATIONS, Memory, NewMemory, Query, Source, remote::Replicated};
use longhaul_milvus::{Address, Milvus, MilvusSettings};
use longhaul_store::{Store, StoreSettings};
use longhaul_testbed::{MilvusKind, MilvusServer};

const DIMENSIONS: usize = 384;
const CENTRES: usize = 1_000;
const SEARCHES: usize = 300;
/// Memories written by one call.
const PAGE: usize = 5_000;

/// Vectors are given with the memories; there is nothing to embed.
struct Given;

#[async_trait]
impl Embedder for Given {
    fn id(&self) -> &str {
        "measure"
    }

    fn dimensions(&self) -> usize {
        DIMENSIONS
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let mut one = vec![0.0; DIMENSIONS];
        one[0] = 1.0;
        Ok(texts.iter().map(|_| one.clone()).collect())
    }
}

/// Clustered vectors.
struct Vectors {
    rng: SeededRng,
    centres: Vec<Vec<f32>>,
}

impl Vectors {
    fn new() -> Self {
        let rng = SeededRng::new(7);
        let centres = (0..CENTRES).map(|_| noise(&rng, 1.0)).collect();
        Self { rng, centres }
    }

    fn next(&self) -> Vec<f32> {
        let centre = &self.centres[(self.rng.next_u64() % CENTRES as u64) as usize];
        centre.iter().zip(noise(&self.rng, 0.9)).map(|(centre, noise)| centre + noise).collect()
    }
}

fn noise(rng: &SeededRng, scale: f32) -> Vec<f32> {
    // The sum of four uniform numbers is near enough to a normal one.
    let one = |word: u64| (0..4).map(|part| ((word >> (16 * part)) & 0xffff) as f32 / 65_536.0 - 0.5).sum::<f32>();
    (0..DIMENSIONS).map(|_| one(rng.next_u64()) * scale).collect()
}

fn memory(number: usize, vector: Vec<f32>) -> NewMemory {
    let text = format!("memory number{number} of topic{}", number % 977);
    NewMemory { vector: Some(vector), ..NewMemory::new("measured", Kind::Note, Source::Agent, text) }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [server, rows, fresh] = args.as_slice() else { return Err("usage: full|lite|URI ROWS FRESH_READS".into()) };
    let (rows, fresh): (usize, usize) = (rows.parse()?, fresh.parse()?);
    let started = match server.as_str() {
        "full" => Some(MilvusServer::start(MilvusKind::Full)?),
        "lite" => Some(MilvusServer::start(MilvusKind::Lite)?),
        _ => None,
    };
    let uri = started.as_ref().map_or(server.clone(), MilvusServer::uri);
    let folder = tempfile::tempdir()?;
    let store = Store::open(StoreSettings::new(folder.path()), Ambient::system(), &[MIGRATIONS]).await?;
    let (memory_of, scope) = (Memory::new(store, Some(Arc::new(Given))), Scope::single_user());
    memory_of.connect(Arc::new(Milvus::new(MilvusSettings::new(Address::parse(&uri)?), Ambient::system())?))?;

    let vectors = Vectors::new();
    let began = Instant::now();
    for from in (0..rows).step_by(PAGE) {
        let page = (from..rows.min(from + PAGE)).map(|number| memory(number, vectors.next())).collect();
        memory_of.insert_many(&scope, page).await?;
    }
    let insert_s = began.elapsed().as_secs_f64();
    eprintln!("{rows} rows written in {insert_s:.1} s");
    let began = Instant::now();
    let Replicated { upserted, .. } = memory_of.replicate_pending().await?;
    let replicate_s = began.elapsed().as_secs_f64();
    eprintln!("{upserted} rows given to the server in {replicate_s:.1} s");
    let began = Instant::now();
    let moved = memory_of.migrate_to_remote(&mut |_| {}).await?;
    eprintln!(
        "{} rows verified, {} of them by value, in {:.1} s",
        moved.vectors,
        moved.sampled,
        began.elapsed().as_secs_f64()
    );

    let stop = Arc::new(tokio::sync::Notify::new());
    let stopped = stop.clone();
    let indexer = tokio::spawn(memory_of.indexer().run(async move { stopped.notified().await }));
    let queries: Vec<Vec<f32>> = (0..SEARCHES).map(|_| vectors.next()).collect();
    let quiet = searches(&memory_of, &scope, &queries).await?;
    let hybrid = searches_with(&memory_of, &scope, &queries, "memory of topic5").await?;

    let mut stale = 0;
    let mut visible_ms = Vec::with_capacity(fresh);
    for number in 0..fresh {
        let (new, wanted) = (memory(rows + number, vectors.next()), format!("number{}", rows + number));
        let vector = new.vector.clone();
        let began = Instant::now();
        memory_of.insert_many(&scope, vec![new]).await?;
        let recall = memory_of.search(&scope, &Query { vector, ..Query::new("", 3) }).await?;
        visible_ms.push(began.elapsed().as_secs_f64() * 1e3);
        stale += usize::from(!recall.hits.iter().any(|hit| hit.item.content.contains(&wanted)));
    }
    let busy = searches(&memory_of, &scope, &queries).await?;
    stop.notify_one();
    indexer.await?;
    println!(
        r#"{{"rows":{rows},"insert_s":{insert_s:.2},"replicate_s":{replicate_s:.2},"search_ms":{quiet},"hybrid_ms":{hybrid},"search_with_overlay_ms":{busy},"fresh_reads":{fresh},"stale":{stale},"insert_and_find_ms":{}}}"#,
        spread(visible_ms)
    );
    Ok(())
}

async fn searches(memory: &Memory, scope: &Scope, queries: &[Vec<f32>]) -> Result<String, Box<dyn std::error::Error>> {
    searches_with(memory, scope, queries, "").await
}

/// The times of searches, in milliseconds; an answer that was given without the server is an error.
async fn searches_with(
    memory: &Memory,
    scope: &Scope,
    queries: &[Vec<f32>],
    text: &str,
) -> Result<String, Box<dyn std::error::Error>> {
    let mut times = Vec::with_capacity(queries.len());
    for vector in queries {
        let query = Query { vector: Some(vector.clone()), ..Query::new(text, 10) };
        let began = Instant::now();
        let recall = memory.search(scope, &query).await?;
        times.push(began.elapsed().as_secs_f64() * 1e3);
        if !recall.notes.is_empty() {
            return Err(recall.notes.join("; ").into());
        }
    }
    Ok(spread(times))
}

fn spread(mut times: Vec<f64>) -> String {
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times.get((times.len() as f64 * share) as usize).copied().unwrap_or(0.0);
    format!(r#"{{"p50":{:.2},"p99":{:.2}}}"#, at(0.5), at(0.99))
}

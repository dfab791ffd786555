//! Measures the whole engine and prints one JSON object: `engine_figures DIR COUNT [TEXTS] [VECTORS]`. `TEXTS` is a file
//! of one text a line, used again and again where it is shorter; without it texts are made up. `VECTORS` is a file of
//! little-endian 32-bit floats, 384 a vector, of at least `COUNT` and 200 vectors; without it clusters are made up. `DIR`
//! must not exist; remove it afterwards.

use std::{path::Path, sync::Arc};

use longhaul_memory::measure::{self, EngineSettings, Searched, clustered, unit};
use serde_json::{Value, json};

const DIMENSIONS: usize = 384;
const QUERIES: usize = 200;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (dir, count) = (Path::new(&arguments[0]), arguments[1].parse::<usize>()?);
    let mut vectors = match arguments.get(3) {
        Some(file) => from_file(file, count + QUERIES)?,
        None => clustered(count + QUERIES, DIMENSIONS, (count / 200).max(1), 0.8),
    };
    let mut texts = match arguments.get(2).filter(|file| !file.is_empty()) {
        Some(file) => {
            std::fs::read_to_string(file)?.lines().filter(|line| line.len() > 20).map(str::to_owned).collect()
        }
        None => made_up(count),
    };
    let asked: Vec<Vec<f32>> = vectors.split_off(count);
    // Questions are parts of texts, so that their words have the frequencies of words.
    let ask = |index: usize| {
        let words = texts[index * 7919 % texts.len()].split(' ').take(12).collect::<Vec<_>>();
        words.join(" ")
    };
    let queries = asked.into_iter().enumerate().map(|(index, vector)| (ask(index), vector)).collect();
    texts.truncate(count);
    let settings = EngineSettings {
        texts: Arc::new(texts),
        vectors: Arc::new(vectors),
        queries: Arc::new(queries),
        k: 10,
        single_writes: 1_000,
    };
    let m = measure::engine(dir, settings).await?;
    let searched = |of: Searched| -> Value { json!({"p50_us": of.p50_us, "p99_us": of.p99_us, "recall": of.recall}) };
    println!(
        "{}",
        json!({
            "memories": count, "load_ms": m.load_ms, "searchable_ms": m.searchable_ms, "indexed_ms": m.indexed_ms,
            "anonymous_kb": m.anonymous_kb, "meaning": searched(m.meaning), "filtered": searched(m.filtered),
            "words": searched(m.words), "hybrid": searched(m.hybrid), "write_to_found": searched(m.write_to_found),
            "while_writing": searched(m.while_writing), "writes_per_second": m.writes_per_second,
            "reopened_ms": m.reopened_ms,
        })
    );
    Ok(())
}

fn from_file(file: &str, count: usize) -> Result<Vec<Vec<f32>>, Box<dyn std::error::Error>> {
    let bytes = std::fs::read(file)?;
    let value = |bytes: &[u8]| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    let vectors = bytes.chunks_exact(4 * DIMENSIONS).take(count);
    let vectors: Vec<Vec<f32>> = vectors.map(|of| unit(of.chunks_exact(4).map(value).collect())).collect();
    if vectors.len() < count { Err(format!("{file} has {} vectors", vectors.len()).into()) } else { Ok(vectors) }
}

/// Sentences of words whose frequencies follow Zipf, with a tenth part of common English ones.
fn made_up(count: usize) -> Vec<String> {
    const COMMON: [&str; 10] =
        ["the", "of", "and", "meeting", "project", "customer", "about", "said", "review", "plan"];
    let mut state = 5_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    let mut word = || {
        let draw = next();
        if draw % 4 == 0 {
            return COMMON[next() as usize % COMMON.len()].to_owned();
        }
        // A rank among 30,000 with the inverse of the rank as its probability, nearly.
        let uniform = (next() % 1_000_000) as f64 / 1_000_000.0;
        let mut rank = 30_000_f64.powf(uniform) as u64;
        let mut word = String::new();
        loop {
            word.push_str(["ba", "ke", "lo", "mi", "nu", "ra", "si", "to", "ve", "wu"][(rank % 10) as usize]);
            rank /= 10;
            if rank == 0 {
                return word;
            }
        }
    };
    (0..count).map(|_| (0..18).map(|_| word()).collect::<Vec<_>>().join(" ")).collect()
}

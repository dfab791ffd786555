//! Measures the default embedding model on this thread, for `cargo xtask bench memory --only embedding`: milliseconds of each text alone
//! and 32 times at once, and the vectors, as one JSON line. Called with the model's folder and the texts as JSON.

use std::{error::Error, path::Path, time::Instant};

use longhaul_memory::LocalModel;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(dir), Some(texts)) = (args.next(), args.next()) else {
        return Err("usage: bench_embedding MODEL_FOLDER TEXTS_AS_JSON".into());
    };
    let texts: Vec<String> = serde_json::from_str(&texts)?;
    let began = Instant::now();
    let model = LocalModel::load(Path::new(&dir))?;
    let load_ms = began.elapsed().as_secs_f64() * 1e3;
    let mut single = Vec::new();
    let mut batch = Vec::new();
    for text in &texts {
        single.push(median_ms(&model, std::slice::from_ref(text), 30)?);
        batch.push(median_ms(&model, &vec![text.clone(); 32], 3)?);
    }
    let vectors = model.embed_now(&texts)?;
    let bytes = model.bytes()?;
    let measured = serde_json::json!({
        "single_ms": single, "batch_ms": batch, "vectors": vectors, "load_ms": load_ms, "weights_bytes": bytes,
    });
    println!("{measured}");
    Ok(())
}

fn median_ms(model: &LocalModel, texts: &[String], rounds: usize) -> Result<f64, Box<dyn Error>> {
    model.embed_now(texts)?;
    let mut times = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        let began = Instant::now();
        model.embed_now(texts)?;
        times.push(began.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

//! Embeds a file of texts, one a line: `sentence_vectors MODEL_FOLDER TEXTS OUT`. `OUT` gets little-endian 32-bit floats; what
//! it holds already is not embedded again, so that a run that was stopped goes on.

use std::{
    error::Error,
    fs::{File, OpenOptions},
    io::Write,
    path::Path,
};

use longhaul_memory::{Embedder, LocalModel};

/// Texts between two writes.
const PAGE: usize = 256;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [model, texts, out] = arguments.as_slice() else {
        return Err("usage: sentence_vectors MODEL_FOLDER TEXTS OUT".into());
    };
    let model = LocalModel::load(Path::new(model))?;
    let texts: Vec<String> = std::fs::read_to_string(texts)?.lines().map(str::to_owned).collect();
    let bytes = 4 * model.dimensions();
    let there = File::open(out).and_then(|file| file.metadata()).map_or(0, |found| found.len() as usize / bytes);
    let mut file = OpenOptions::new().create(true).truncate(false).write(true).open(out)?;
    file.set_len((there * bytes) as u64)?;
    std::io::Seek::seek(&mut file, std::io::SeekFrom::End(0))?;
    let rest = texts.get(there..).unwrap_or_default();
    // Two threads, each with the next page: the pages are written in order.
    for (number, pages) in rest.chunks(2 * PAGE).enumerate() {
        let (first, second) = pages.split_at(pages.len().min(PAGE));
        let (first, second) = std::thread::scope(|scope| {
            let other = scope.spawn(|| if second.is_empty() { Ok(Vec::new()) } else { model.embed_now(second) });
            (model.embed_now(first), other.join())
        });
        let second = second.map_err(|_| "embedding panicked")?;
        for vector in first?.into_iter().chain(second?) {
            let values: Vec<u8> = vector.iter().flat_map(|value| value.to_le_bytes()).collect();
            file.write_all(&values)?;
        }
        if number % 20 == 0 {
            eprintln!("  {} of {} embedded", there + number * 2 * PAGE, texts.len());
        }
    }
    println!("{{\"vectors\": {}}}", texts.len());
    Ok(())
}

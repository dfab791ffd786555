//! Measures the vector engine: `vector_figures DIR COUNT [clusters] [noise]` with made-up clusters, or
//! `vector_figures DIR FILE` with vectors of 384 little-endian 32-bit floats. `DIR` must not exist; remove it afterwards.

use std::{path::Path, sync::Arc};

use longhaul_memory::measure::{self, VectorSettings, clustered, unit};

const DIMENSIONS: usize = 384;
const QUERIES: usize = 200;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (dir, source) = (Path::new(&arguments[0]), &arguments[1]);
    let number = |index: usize| arguments.get(index).map(|word| word.parse::<f32>()).transpose();
    let mut vectors = match source.parse::<usize>() {
        Ok(count) => {
            let clusters = number(2)?.map_or(count / 200, |clusters| clusters as usize);
            clustered(count + QUERIES, DIMENSIONS, clusters, number(3)?.unwrap_or(0.8))
        }
        Err(_) => {
            let bytes = std::fs::read(source)?;
            let value = |bytes: &[u8]| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            let values: Vec<f32> = bytes.chunks_exact(4).map(value).collect();
            values.chunks_exact(DIMENSIONS).map(|vector| unit(vector.to_vec())).collect()
        }
    };
    let queries = vectors.split_off(vectors.len() - QUERIES);
    println!("{} vectors", vectors.len());
    let settings = VectorSettings { vectors: Arc::new(vectors), queries: Arc::new(queries), k: 10 };
    println!("{:#?}", measure::vectors(dir, settings).await?);
    Ok(())
}

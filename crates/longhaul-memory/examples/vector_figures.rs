//! Measures the vector engine: `vector_figures DIR COUNT [clusters] [noise]` with made-up clusters, or
//! `vector_figures DIR FILE` with vectors of 384 little-endian 32-bit floats. `DIR` must not exist; remove it afterwards.

use std::{path::Path, sync::Arc};

use longhaul_memory::measure::{self, VectorSettings};

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
            clustered(count + QUERIES, clusters, number(3)?.unwrap_or(0.8))
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

fn clustered(count: usize, clusters: usize, noise: f32) -> Vec<Vec<f32>> {
    // xorshift (Marsaglia, 2003); each number gives four parts, whose sum is nearly normal.
    let mut state = 88_172_645_463_325_252_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let parts = |bits: u64| (0..4).map(|part| (bits >> (16 * part) & 0xFFFF) as f32 / 32_768.0 - 1.0).sum::<f32>();
    let mut normal = || 0.866 * parts(next());
    let centres: Vec<Vec<f32>> = (0..clusters).map(|_| unit((0..DIMENSIONS).map(|_| normal()).collect())).collect();
    let spread = noise / (DIMENSIONS as f32).sqrt();
    let near = |index: usize| {
        let centre = &centres[index * 7919 % clusters];
        unit(centre.iter().map(|value| value + spread * normal()).collect())
    };
    (0..count).map(near).collect()
}

fn unit(vector: Vec<f32>) -> Vec<f32> {
    let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
    vector.into_iter().map(|value| value / length).collect()
}

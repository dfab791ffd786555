use longhaul_memory::{Embedder, MiniLm};
use std::io::Write;
#[tokio::main]
async fn main() {
    let model = MiniLm::load(std::path::Path::new(&std::env::args().nth(1).unwrap())).unwrap();
    let text = std::fs::read_to_string("/work/t-vec-data/sentences.txt").unwrap();
    let n: usize = std::env::args().nth(2).unwrap().parse().unwrap();
    let lines: Vec<String> = text.lines().take(n).map(str::to_owned).collect();
    let mut out = std::io::BufWriter::new(std::fs::File::create("/work/t-vec-data/real.f32").unwrap());
    let start = std::time::Instant::now();
    for (i, group) in lines.chunks(256).enumerate() {
        for v in model.embed(group).await.unwrap() {
            for x in v { out.write_all(&x.to_le_bytes()).unwrap(); }
        }
        out.flush().unwrap();
        if i % 20 == 0 { eprintln!("{} {:?}", (i + 1) * 256, start.elapsed()); }
    }
}

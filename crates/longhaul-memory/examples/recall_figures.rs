//! Measures recall over 10,000 memories in a new store and prints one JSON object: microseconds beside the embedding.

use longhaul_memory::measure::{RecallSettings, recall};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::temp_dir().join(format!("longhaul-recall-{}", std::process::id()));
    let measured = tokio::runtime::Runtime::new()?.block_on(recall(&folder, RecallSettings::default()));
    std::fs::remove_dir_all(&folder)?;
    let m = measured?;
    println!(
        "{}",
        serde_json::json!({"first_us": m.first_us, "p50_us": m.p50_us, "p99_us": m.p99_us, "insert_us": m.insert_us})
    );
    Ok(())
}

//! Measures how well memories are found, on data that is given by its path and belongs to nobody here. Each subcommand
//! ends with one JSON line.
//!
//! - `locomo FILE MODEL VECTORS`: conversations in the format of LoCoMo, each a namespace of its own, by words and by the
//!   model in the folder MODEL. Vectors are kept in the folder VECTORS, so a second run does not embed again.
//! - `squad FILE`: paragraphs and questions in the format of SQuAD, by words alone.
//! - `squad FILE MODEL VECTORS`: the same by words and by meaning.

mod kept;
mod locomo;
mod squad;

use std::{error::Error, path::Path, sync::Arc};

use longhaul_core::{Ambient, Scope};
use longhaul_memory::{Embedder, LocalModel, MIGRATIONS, Memory};
use longhaul_store::{Store, StoreSettings};
use serde_json::Value;

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let work = async {
        match arguments[..] {
            ["locomo", file, model, vectors] => locomo::measure(file, Some((model, vectors))).await,
            ["squad", file] => squad::measure(file, None).await,
            ["squad", file, model, vectors] => squad::measure(file, Some((model, vectors))).await,
            _ => Err("use: memory_quality locomo FILE MODEL VECTORS | squad FILE [MODEL VECTORS]".into()),
        }
    };
    println!("{}", tokio::runtime::Runtime::new()?.block_on(work)?);
    Ok(())
}

/// Memory over a new store, which goes away with the folder.
struct Place {
    memory: Memory,
    scope: Scope,
    _folder: tempfile::TempDir,
}

impl Place {
    /// `model` is the folder of the model and that of kept vectors.
    async fn new(model: Option<(&str, &str)>) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let store = Store::open(StoreSettings::new(folder.path()), Ambient::system(), &[MIGRATIONS]).await?;
        let embedder: Option<Arc<dyn Embedder>> = match model {
            Some((model, vectors)) => {
                Some(Arc::new(kept::Kept::new(LocalModel::open(Path::new(model))?, Path::new(vectors))?))
            }
            None => None,
        };
        Ok(Self { memory: Memory::new(store, embedder), scope: Scope::single_user(), _folder: folder })
    }
}

fn read(file: &str) -> Result<Value> {
    let bytes = std::fs::read(file).map_err(|error| format!("{file}: {error}"))?;
    Ok(serde_json::from_slice(&bytes).map_err(|error| format!("{file}: {error}"))?)
}

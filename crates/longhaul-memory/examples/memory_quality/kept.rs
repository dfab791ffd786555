//! Vectors of texts that were embedded in an earlier run, in a file by digest. For measuring ranking, not embedding.

use std::{
    collections::HashMap,
    fs::{File, OpenOptions},
    io::Write,
    path::Path,
    sync::Mutex,
};

use async_trait::async_trait;
use longhaul_memory::{EmbedError, Embedder, LocalModel};
use sha2::{Digest as _, Sha256};

type Key = [u8; 32];

pub(crate) struct Kept {
    model: LocalModel,
    known: Mutex<(HashMap<Key, Vec<f32>>, File)>,
}

impl Kept {
    pub(crate) fn new(model: LocalModel, folder: &Path) -> crate::Result<Self> {
        std::fs::create_dir_all(folder)?;
        let name: String = model.id().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        let path = folder.join(format!("vectors-{name}.bin"));
        let mut known = HashMap::new();
        let entry = 32 + 4 * model.dimensions();
        for entry in std::fs::read(&path).unwrap_or_default().chunks_exact(entry) {
            let (key, values) = entry.split_at(32);
            let values =
                values.chunks_exact(4).map(|value| f32::from_le_bytes([value[0], value[1], value[2], value[3]]));
            known.insert(Key::try_from(key)?, values.collect());
        }
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Self { model, known: Mutex::new((known, file)) })
    }

    fn get(&self, key: &Key) -> Option<Vec<f32>> {
        self.known.lock().ok()?.0.get(key).cloned()
    }

    fn keep(&self, key: Key, vector: &[f32]) {
        let Ok(mut known) = self.known.lock() else { return };
        let mut bytes = key.to_vec();
        bytes.extend(vector.iter().flat_map(|value| value.to_le_bytes()));
        // What cannot be kept is embedded again in the next run.
        let _ = known.1.write_all(&bytes);
        known.0.insert(key, vector.to_vec());
    }
}

#[async_trait]
impl Embedder for Kept {
    fn id(&self) -> &str {
        self.model.id()
    }

    fn dimensions(&self) -> usize {
        self.model.dimensions()
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let keys: Vec<Key> = texts.iter().map(|text| Sha256::digest(text.as_bytes()).into()).collect();
        let unknown: Vec<usize> = (0..texts.len()).filter(|at| self.get(&keys[*at]).is_none()).collect();
        if !unknown.is_empty() {
            let fresh = self.model.embed(&unknown.iter().map(|at| texts[*at].clone()).collect::<Vec<_>>()).await?;
            unknown.iter().zip(fresh).for_each(|(at, vector)| self.keep(keys[*at], &vector));
        }
        Ok(keys.iter().map(|key| self.get(key).unwrap_or_default()).collect())
    }

    fn reads(&self, text: &str) -> bool {
        self.model.reads(text)
    }
}

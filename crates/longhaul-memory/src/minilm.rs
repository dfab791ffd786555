//! all-MiniLM-L6-v2 on the CPU: 384 dimensions, mean pooling, windows of 256 tokens.
//!
//! It owns when the model is loaded and how texts are grouped into passes. Where the files come from is
//! [`locate`]'s and [`install`]'s business, the arithmetic is `bert`'s.
//! Invariant: nothing heavy happens before the first text is embedded, and never on an async worker thread;
//! a pass is bounded, so a query waits for at most one pass of background indexing.

mod bert;
mod files;
mod install;

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use tokio::sync::Semaphore;

pub use files::locate;
pub use install::{Progress, install};

use crate::{EmbedError, Embedder};
use bert::Bert;

/// Tokens of one text that the model reads; what follows is cut.
pub const TOKENS_MAX: usize = 256;
/// Characters of one text that are tokenised at all: more than 256 tokens of any prose.
const CHARS_MAX: usize = 4096;
/// Padded tokens of one pass. Bounds a pass to some tens of milliseconds, and its attention to 6 MB.
const PASS_TOKENS_MAX: usize = 512;

/// The local embedding model. Cheap to clone; clones share the loaded weights.
#[derive(Clone)]
pub struct MiniLm {
    shared: Arc<Shared>,
}

struct Shared {
    dir: PathBuf,
    id: String,
    dimensions: usize,
    loaded: Mutex<Option<Arc<Bert>>>,
    /// One pass at a time: the machine's cores serve one pass well, and two badly.
    turn: Semaphore,
}

impl MiniLm {
    /// Prepares the model in this folder (`model.safetensors`, `tokenizer.json`, `config.json`). Reads a few hundred
    /// kilobytes to identify it; the weights are read when the first text is embedded.
    ///
    /// # Errors
    /// When a file is missing or the configuration is not that of a BERT model.
    pub fn open(dir: &Path) -> Result<Self, EmbedError> {
        let dimensions = files::dimensions(dir)?;
        let id = files::identity(dir)?;
        let shared = Shared { dir: dir.to_owned(), id, dimensions, loaded: Mutex::new(None), turn: Semaphore::new(1) };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Prepares and loads the model at once. Blocks for the time that takes.
    ///
    /// # Errors
    /// As [`MiniLm::open`], and when the weights cannot be read.
    pub fn load(dir: &Path) -> Result<Self, EmbedError> {
        let model = Self::open(dir)?;
        model.shared.bert()?;
        Ok(model)
    }

    async fn pass<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Bert) -> Result<T, String> + Send + 'static,
    ) -> Result<T, EmbedError> {
        let failed = |problem: String| EmbedError::Failed { id: self.shared.id.clone(), problem };
        let turn = self.shared.turn.acquire().await.map_err(|error| failed(error.to_string()))?;
        let shared = self.shared.clone();
        let result = tokio::task::spawn_blocking(move || {
            let bert = shared.bert()?;
            work(&bert).map_err(|problem| EmbedError::Failed { id: shared.id.clone(), problem })
        });
        let result = result.await.map_err(|error| failed(error.to_string()))?;
        drop(turn);
        result
    }
}

impl Shared {
    fn bert(&self) -> Result<Arc<Bert>, EmbedError> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bert) = loaded.as_ref() {
            return Ok(bert.clone());
        }
        let bert = Arc::new(Bert::load(&self.dir)?);
        *loaded = Some(bert.clone());
        Ok(bert)
    }
}

#[async_trait]
impl Embedder for MiniLm {
    fn id(&self) -> &str {
        &self.shared.id
    }

    fn dimensions(&self) -> usize {
        self.shared.dimensions
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        if texts.is_empty() {
            return Ok(Vec::new());
        }
        let texts: Vec<String> = texts.iter().map(|text| text.chars().take(CHARS_MAX).collect()).collect();
        let tokens = self.pass(move |bert| bert.tokenise(&texts)).await?;
        let mut vectors = vec![Vec::new(); tokens.len()];
        for group in passes(&tokens) {
            let inputs: Vec<Vec<u32>> = group.iter().map(|index| tokens[*index].clone()).collect();
            let outputs = self.pass(move |bert| bert.forward(&inputs)).await?;
            for (index, vector) in group.into_iter().zip(outputs) {
                vectors[index] = vector;
            }
        }
        Ok(vectors)
    }
}

/// Groups texts of similar length, so that little is padded, each group within [`PASS_TOKENS_MAX`].
fn passes(tokens: &[Vec<u32>]) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..tokens.len()).collect();
    order.sort_by_key(|index| tokens[*index].len());
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for index in order {
        // Sorted by length, so the newcomer is the longest and states the padded width.
        match groups.last_mut() {
            Some(group) if (group.len() + 1) * tokens[index].len() <= PASS_TOKENS_MAX => group.push(index),
            Some(_) | None => groups.push(vec![index]),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::{PASS_TOKENS_MAX, passes};

    #[test]
    fn passes_hold_every_text_once_and_stay_bounded() {
        let tokens: Vec<Vec<u32>> = (0..100).map(|n| vec![0; 2 + (n * 37) % 255]).collect();
        let groups = passes(&tokens);
        let mut seen: Vec<usize> = groups.concat();
        seen.sort_unstable();
        assert_eq!(seen, (0..100).collect::<Vec<_>>());
        for group in &groups {
            let widest = group.iter().map(|index| tokens[*index].len()).max().unwrap();
            assert!(widest * group.len() <= PASS_TOKENS_MAX);
        }
        assert!(groups.len() < 50, "{} passes for 100 texts", groups.len());
    }
}

//! The embedding model that the settings name: one in a folder, or one behind a service; and the one before it.
//!
//! Which folders were used is noted in the home, so that after a change the old model can go on answering for the vectors
//! it made. Invariant: the note is only ever a hint; without it, memory works by words and by what is embedded anew.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;
use longhaul_core::Ambient;
use longhaul_memory::{
    EmbedError, Embedder, LocalModel, Memory,
    embedding::{self, Cached, Prompts},
};
use longhaul_model::{CallLimits, EmbeddingClient, EmbeddingSettings as ServiceSettings, Secret};
use longhaul_store::Store;
use serde::{Deserialize, Serialize};

use crate::settings::{EmbeddingSettings, Settings};

/// Vectors kept in RAM: some five thousand of 384 values.
const CACHE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Folders that are remembered.
const FOLDERS_MAX: usize = 8;
/// The note in the home folder.
const NOTE: &str = "embedders.json";

/// The embedding model that the settings name.
pub(crate) fn embedder(settings: &Settings, ambient: &Ambient) -> Result<Arc<dyn Embedder>, EmbedError> {
    let given = &settings.embedding;
    let inner: Arc<dyn Embedder> = match &given.url {
        Some(url) => Arc::new(Service::new(given, url, ambient)?),
        None => {
            let dir = embedding::locate(given.path.as_deref(), &settings.models_dir())?;
            let model = LocalModel::open_with(&dir, prompts(given))?;
            note(&settings.home, model.id(), &dir);
            Arc::new(model)
        }
    };
    Ok(Arc::new(Cached::new(inner, CACHE_BYTES_MAX)))
}

/// Memory with this embedder and, if the model was changed, the one before it.
pub(crate) fn memory(store: Store, embedder: Option<Arc<dyn Embedder>>, settings: &Settings) -> Memory {
    let previous = embedder.as_ref().and_then(|embedder| previous(settings, embedder.id()));
    Memory::with_previous(store, embedder, previous)
}

/// The prompts that the settings give, if they give any.
fn prompts(given: &EmbeddingSettings) -> Option<Prompts> {
    let (query, document) = (given.query_prompt.clone(), given.document_prompt.clone());
    (query.is_some() || document.is_some())
        .then(|| Prompts { query: query.unwrap_or_default(), document: document.unwrap_or_default() })
}

#[derive(Serialize, Deserialize, PartialEq, Clone)]
struct Used {
    id: String,
    folder: PathBuf,
}

fn used(home: &Path) -> Vec<Used> {
    fs::read(home.join(NOTE)).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
}

/// Notes a folder as the one used last.
fn note(home: &Path, id: &str, folder: &Path) {
    let before = used(home);
    let this = Used { id: id.to_owned(), folder: folder.to_owned() };
    if before.first() == Some(&this) || !home.is_dir() {
        return;
    }
    let others = before.into_iter().filter(|other| other.id != this.id);
    let all: Vec<Used> = std::iter::once(this.clone()).chain(others).take(FOLDERS_MAX).collect();
    let staged = home.join(format!(".{NOTE}.{}", std::process::id()));
    let written = serde_json::to_vec(&all)
        .map_err(std::io::Error::from)
        .and_then(|bytes| fs::write(&staged, bytes))
        .and_then(|()| fs::rename(&staged, home.join(NOTE)));
    if let Err(error) = written {
        tracing::debug!(%error, "the folder of the embedding model could not be noted");
    }
}

/// The model in a folder that was used before, the latest that is still there.
fn previous(settings: &Settings, current: &str) -> Option<Arc<dyn Embedder>> {
    let others = used(&settings.home).into_iter().filter(|used| used.id != current);
    others.into_iter().find_map(|used| {
        let model = LocalModel::open(&used.folder).ok()?;
        let inner: Arc<dyn Embedder> = Arc::new(model);
        (inner.id() == used.id).then(|| Arc::new(Cached::new(inner, CACHE_BYTES_MAX)) as Arc<dyn Embedder>)
    })
}

/// A model behind an OpenAI-compatible service.
struct Service {
    documents: EmbeddingClient,
    /// Gives up early: whoever searches is better served by words now than by meaning in a minute.
    queries: EmbeddingClient,
    id: String,
    dimensions: usize,
    prompts: Prompts,
}

impl Service {
    fn new(given: &EmbeddingSettings, url: &str, ambient: &Ambient) -> Result<Self, EmbedError> {
        let dimensions = given.dimension as usize;
        let settings = ServiceSettings {
            base_url: url.to_owned(),
            api_key: given.api_key.as_ref().map(|key| Secret::new(key.expose())),
            api_key_source: "LONGHAUL_EMBEDDING_API_KEY".to_owned(),
            dimensions: Some(dimensions),
            ..ServiceSettings::new(&given.model)
        };
        let prompts = prompts(given).unwrap_or_default();
        let failed = |error: longhaul_model::ModelError| EmbedError::Failed {
            id: given.model.clone(),
            problem: error.to_string(),
        };
        let patient = settings.limits;
        let hasty = CallLimits {
            connect_ms_max: 2_000,
            attempts_max: 2,
            backoff_first_ms: 200,
            call_ms_max: 10_000,
            ..patient
        };
        let queries = ServiceSettings { limits: hasty, ..settings.clone() };
        let queries = EmbeddingClient::new(queries, ambient).map_err(failed)?;
        let documents = EmbeddingClient::new(settings, ambient).map_err(failed)?;
        // Two services may call different models the same, and a prompt decides a vector too.
        let id = format!("{}#{dimensions} at {}", given.model, documents.base_url());
        let id = if prompts.document.is_empty() { id } else { format!("{id} after {:?}", prompts.document) };
        Ok(Self { documents, queries, id, dimensions, prompts })
    }

    async fn ask(&self, client: &EmbeddingClient, prompt: &str, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let texts: Vec<String> = texts.iter().map(|text| format!("{prompt}{text}")).collect();
        let failed =
            |error: longhaul_model::ModelError| EmbedError::Failed { id: self.id.clone(), problem: error.to_string() };
        Ok(client.embed(&texts).await.map_err(failed)?.vectors)
    }
}

#[async_trait]
impl Embedder for Service {
    fn id(&self) -> &str {
        &self.id
    }

    fn dimensions(&self) -> usize {
        self.dimensions
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        self.ask(&self.documents, &self.prompts.document, texts).await
    }

    async fn embed_queries(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        self.ask(&self.queries, &self.prompts.query, texts).await
    }
}

#[cfg(test)]
mod tests;

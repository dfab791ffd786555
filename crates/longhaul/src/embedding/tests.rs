//! Memory with a service that embeds, and with one model after another, on a real store and over the real protocol.

use std::path::PathBuf;

use axum::{Json, Router, routing::post};
use longhaul_core::{Ambient, Scope};
use longhaul_memory::{Kind, Memory, Mode, NewMemory, Query, Recall, Source};
use longhaul_store::{Store, StoreSettings};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinHandle;

use super::{embedder, memory};
use crate::settings::{Settings, Sources};

/// A service that gives a text of `n` characters a direction of its own; queries and documents must say what they are.
async fn service() -> (String, JoinHandle<()>) {
    async fn answer(Json(body): Json<Value>) -> Json<Value> {
        let vector = |text: &Value| {
            let text = text.as_str().unwrap_or_default();
            let said = text.strip_prefix("q: ").or(text.strip_prefix("d: ")).expect("a prompt stands before it");
            let mut vector = [0.0; 8];
            vector[said.chars().count() % 8] = 2.0;
            vector
        };
        let texts = body["input"].as_array().expect("a list of texts");
        let data = texts.iter().enumerate().map(|(index, text)| json!({"index": index, "embedding": vector(text)}));
        Json(json!({"data": data.collect::<Vec<_>>(), "usage": {"prompt_tokens": 1}}))
    }
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let router = Router::new().route("/v1/embeddings", post(answer));
    (url, tokio::spawn(async move { axum::serve(listener, router).await.unwrap() }))
}

struct Place {
    folder: TempDir,
    store: Store,
}

impl Place {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let migrations = [longhaul_memory::MIGRATIONS];
        let store = Store::open(StoreSettings::new(folder.path()), Ambient::system(), &migrations).await.unwrap();
        Self { folder, store }
    }

    fn settings(&self, flags: &[(&str, &str)]) -> Settings {
        let home = self.folder.path().display().to_string();
        let mut sources = Sources { user_home: Some(self.folder.path().to_owned()), ..Sources::default() };
        sources.working_dir = self.folder.path().to_owned();
        for (key, value) in [("home", home.as_str())].iter().chain(flags) {
            sources = sources.with_flag(key, value, "--set");
        }
        Settings::load(&sources).unwrap()
    }

    fn memory(&self, flags: &[(&str, &str)]) -> Memory {
        let settings = self.settings(flags);
        let embedder = embedder(&settings, &Ambient::system()).unwrap();
        memory(self.store.clone(), Some(embedder), &settings)
    }
}

fn model() -> String {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../longhaul-memory/tests/models/bert");
    folder.canonicalize().unwrap().display().to_string()
}

async fn search(memory: &Memory, text: &str) -> Recall {
    memory.search(&Scope::single_user(), &Query::new(text, 3)).await.unwrap()
}

#[tokio::test]
async fn memory_is_embedded_by_a_service_and_goes_by_words_when_that_is_gone() {
    let place = Place::new().await;
    let (url, service) = service().await;
    let flags = [
        ("embedding.url", url.as_str()),
        ("embedding.model", "m"),
        ("embedding.dimension", "8"),
        ("embedding.query_prompt", "q: "),
        ("embedding.document_prompt", "d: "),
    ];
    let memory = place.memory(&flags);
    for text in ["one", "three", "sevens"] {
        let new = NewMemory::new("notes", Kind::Note, Source::User, text);
        memory.add(&Scope::single_user(), new).await.unwrap();
    }
    assert_eq!(memory.index_pending().await.unwrap().embedded, 3);
    let recall = search(&memory, "about").await;
    assert!(matches!(recall.mode, Mode::Hybrid), "{:?}", recall.mode);
    assert_eq!(recall.hits[0].item.content, "three", "five characters, as the query");

    service.abort();
    let _ = service.await;
    let recall = search(&memory, "one").await;
    let Mode::Keyword { reason } = recall.mode else { panic!("a service that is gone embedded a query") };
    assert!(reason.contains("cannot reach the model service at http://127.0.0.1"), "{reason}");
    assert_eq!(recall.hits[0].item.content, "one");
}

#[tokio::test]
async fn after_a_change_of_model_the_old_one_is_found_again_by_itself() {
    let place = Place::new().await;
    let memory = place.memory(&[("embedding.path", &model())]);
    let new = NewMemory::new("notes", Kind::Note, Source::User, "the login page keeps the session");
    memory.add(&Scope::single_user(), new).await.unwrap();
    memory.index_pending().await.unwrap();

    let changed = model().replace("bert", "xlm-roberta");
    let memory = place.memory(&[("embedding.path", &changed)]);
    assert_eq!(memory.backlog(&Scope::single_user()).await.unwrap(), 1);
    let recall = search(&memory, "session").await;
    assert_eq!((recall.hits.len(), recall.unembedded), (1, 0), "the old vectors serve");
    let indexed = memory.index_pending().await.unwrap();
    assert_eq!((indexed.embedded, indexed.replaced), (1, 1));
    assert_eq!(search(&memory, "session").await.unembedded, 0);
}

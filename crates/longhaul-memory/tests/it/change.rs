//! Changing the embedding model: searches go on, what was done stays done, and old vectors go when they are replaced.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
};

use async_trait::async_trait;
use longhaul_memory::{EmbedError, Embedder, Memory, Mode, NewMemory, Query};
use tokio::sync::Semaphore;

use crate::place::{Place, contents, note};

/// An embedder that knows three meanings by their first letters; texts share no word with what asks for them.
struct Meanings {
    id: &'static str,
    dimensions: usize,
    /// Passes that may go on.
    turns: Semaphore,
    broken: AtomicBool,
    embedded: Mutex<Vec<String>>,
}

impl Meanings {
    fn new(id: &'static str, dimensions: usize, turns: usize) -> Arc<Self> {
        let (broken, embedded) = (AtomicBool::new(false), Mutex::default());
        Arc::new(Self { id, dimensions, turns: Semaphore::new(turns), broken, embedded })
    }

    fn vectors(&self, texts: &[String]) -> Vec<Vec<f32>> {
        let vector = |text: &String| {
            let mut vector = vec![0.1; self.dimensions];
            vector[text.bytes().next().unwrap_or(0) as usize % 3] = 1.0;
            vector
        };
        texts.iter().map(vector).collect()
    }
}

#[async_trait]
impl Embedder for Meanings {
    fn id(&self) -> &str {
        self.id
    }

    fn dimensions(&self) -> usize {
        self.dimensions
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        self.turns.acquire().await.unwrap().forget();
        self.embedded.lock().unwrap().extend_from_slice(texts);
        Ok(self.vectors(texts))
    }

    async fn embed_queries(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        if self.broken.load(Ordering::Relaxed) {
            return Err(EmbedError::Failed { id: self.id.to_owned(), problem: "as told".to_owned() });
        }
        Ok(self.vectors(texts))
    }
}

const MANY: usize = Semaphore::MAX_PERMITS;

/// A place whose hundred notes were embedded by the old model.
async fn place(old: &Arc<Meanings>) -> Place {
    let place = Place::new(Some(old.clone())).await;
    let notes: Vec<NewMemory> = (0..100).map(|n| note(&format!("a{n}"))).collect();
    place.memory.insert_many(&place.scope, notes).await.unwrap();
    place.memory.index_pending().await.unwrap();
    place
}

async fn vectors_of(place: &Place, embedder: &'static str) -> i64 {
    let count = move |read: &longhaul_store::ReadTx<'_>| {
        let sql = "SELECT count(*) FROM memory_vectors WHERE embedder = ?1";
        read.query_one(sql, &longhaul_store::values![embedder], |row| row.get(0))
    };
    place.store.read(count).await.unwrap_or_else(|error: longhaul_store::StoreError| panic!("{error}"))
}

/// Lets one pass of the new model happen and waits until its vectors are there.
async fn one_pass(place: &Place, new: &Meanings, expected: i64) {
    new.turns.add_permits(1);
    while vectors_of(place, "new").await < expected {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn the_old_vectors_serve_until_the_new_are_complete_and_then_go() {
    let old = Meanings::new("old", 3, MANY);
    let place = place(&old).await;
    let new = Meanings::new("new", 5, 0);
    let memory = Memory::with_previous(place.store.clone(), Some(new.clone()), Some(old.clone()));
    let ask = async || memory.search(&place.scope, &Query::new("d means what a means", 5)).await.unwrap();
    assert_eq!(memory.backlog(&place.scope).await.unwrap(), 100);
    let recall = ask().await;
    assert!(matches!(recall.mode, Mode::Hybrid) && recall.hits.len() == 5 && recall.unembedded == 0, "{recall:?}");

    let indexing = tokio::spawn({
        let memory = memory.clone();
        async move { memory.index_pending().await }
    });
    one_pass(&place, &new, 32).await;
    assert_eq!(memory.backlog(&place.scope).await.unwrap(), 68);
    assert_eq!((ask().await.unembedded, ask().await.hits.len()), (0, 5), "the old model knows more");

    // What is written in the middle joins the vectors that serve, and is found by its meaning before its turn comes.
    let fresh = memory.add(&place.scope, NewMemory { importance: 1.0, ..note("g fresh") }).await.unwrap();
    one_pass(&place, &new, 64).await;
    one_pass(&place, &new, 96).await;
    new.turns.add_permits(MANY / 2);
    let indexed = indexing.await.unwrap().unwrap();
    assert_eq!((indexed.replaced, vectors_of(&place, "old").await, vectors_of(&place, "new").await), (101, 0, 101));
    assert!(old.embedded.lock().unwrap().contains(&"g fresh".to_owned()));
    let recall = memory.search(&place.scope, &Query::new("j means what g means", 101)).await.unwrap();
    assert!(recall.hits.iter().any(|hit| hit.item.id == fresh) && recall.unembedded == 0);
    assert_eq!(memory.backlog(&place.scope).await.unwrap(), 0);
}

#[tokio::test]
async fn without_the_old_model_words_and_the_part_already_embedded_are_searched() {
    let old = Meanings::new("old", 3, MANY);
    let place = place(&old).await;
    let new = Meanings::new("new", 5, 0);
    old.broken.store(true, Ordering::Relaxed);
    for previous in [None, Some(old.clone() as Arc<dyn Embedder>)] {
        let memory = Memory::with_previous(place.store.clone(), Some(new.clone()), previous);
        let recall = memory.search(&place.scope, &Query::new("a7", 5)).await.unwrap();
        assert_eq!((contents(&recall)[0].as_str(), recall.unembedded), ("a7", 100));
    }
    let memory = Memory::new(place.store.clone(), Some(new.clone()));
    let indexing = tokio::spawn({
        let memory = memory.clone();
        async move { memory.index_pending().await }
    });
    one_pass(&place, &new, 32).await;
    let recall = memory.search(&place.scope, &Query::new("d means what a means", 5)).await.unwrap();
    assert_eq!((recall.hits.len(), recall.unembedded), (5, 68));

    // Whoever is killed in the middle leaves what was done, and the next one does the rest only.
    indexing.abort();
    assert!(indexing.await.unwrap_err().is_cancelled());
    new.embedded.lock().unwrap().clear();
    new.turns.add_permits(MANY / 2);
    let memory = Memory::new(place.store.clone(), Some(new.clone()));
    let indexed = memory.index_pending().await.unwrap();
    assert_eq!((indexed.embedded, indexed.replaced, new.embedded.lock().unwrap().len()), (68, 100, 68));
}

#[tokio::test]
async fn two_processes_with_different_models_do_not_undo_each_other_for_ever() {
    let (old, new) = (Meanings::new("old", 3, MANY), Meanings::new("new", 5, MANY));
    let place = place(&old).await;
    let other = Memory::new(place.store.clone(), Some(new.clone()));
    for _ in 0..5 {
        place.memory.index_pending().await.unwrap();
        other.index_pending().await.unwrap();
    }
    let embedded = old.embedded.lock().unwrap().len() + new.embedded.lock().unwrap().len();
    assert!(embedded <= 300, "{embedded} texts were embedded for 100 memories and two models");
    assert_eq!((vectors_of(&place, "old").await, vectors_of(&place, "new").await), (100, 100));
}

#[tokio::test]
async fn vectors_of_another_length_are_refused() {
    let place = place(&Meanings::new("old", 3, MANY)).await;
    let mut query = Query::new("", 5);
    query.vector = Some(vec![1.0; 4]);
    let error = place.memory.search(&place.scope, &query).await.unwrap_err();
    assert!(error.to_string().contains("4 dimensions instead of 3"), "{error}");
    let given = NewMemory { vector: Some(vec![1.0; 4]), ..note("with a vector") };
    let error = place.memory.add(&place.scope, given).await.unwrap_err();
    assert!(error.to_string().contains("4 dimensions instead of 3"), "{error}");
}

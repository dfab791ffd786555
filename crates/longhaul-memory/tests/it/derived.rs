//! Indexes are derived: deleted ones come back, other processes' writes are seen, failures cost only meaning.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use longhaul_memory::{EmbedError, Embedder, Indexed, Memory, Mode, Query};
use longhaul_store::StoreError;

use crate::place::{Place, contents, model, note};

const TEXTS: [&str; 2] = ["login session handling", "files are uploaded in chunks"];

/// An embedder of another kind, which can be switched off or made to answer rubbish.
struct Letters {
    id: &'static str,
    is_down: AtomicBool,
}

impl Letters {
    fn named(id: &'static str) -> Arc<Self> {
        Arc::new(Self { id, is_down: AtomicBool::new(false) })
    }
}

#[async_trait]
impl Embedder for Letters {
    fn id(&self) -> &str {
        self.id
    }

    fn dimensions(&self) -> usize {
        26
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        if self.is_down.load(Ordering::Relaxed) {
            return Err(EmbedError::Failed { id: self.id.to_owned(), problem: "connection refused".to_owned() });
        }
        let letters = |text: &String| {
            let count = |letter: u8| text.bytes().filter(|byte| byte.to_ascii_lowercase() == letter).count() as f32;
            let mut vector: Vec<f32> = (b'a'..=b'z').map(count).collect();
            if text.contains("poison") {
                vector[0] = f32::NAN;
            }
            vector
        };
        Ok(texts.iter().map(letters).collect())
    }
}

#[tokio::test]
async fn deleted_vectors_are_derived_again() {
    let place = Place::with_model().await;
    place.remember(&TEXTS).await;
    for damage in [
        "DELETE FROM memory_vectors",
        "UPDATE memory_vectors SET vector = CAST('0' AS BLOB)",
        "UPDATE memory_vectors SET embedder = 'another model'",
    ] {
        assert_eq!(place.sql(damage).await, 2);
        // A process that starts now has no vectors to compare with, says so, and still finds by words.
        let fresh = Memory::new(place.store.clone(), Some(Arc::new(model())));
        let recall = fresh.search(&place.scope, &Query::new("session", 5)).await.unwrap();
        assert_eq!((recall.unembedded, recall.hits.len(), recall.mode), (2, 1, Mode::Hybrid), "{damage}");
        assert_eq!(fresh.backlog(&place.scope).await.unwrap(), 2, "{damage}");
        assert_eq!(fresh.index_pending().await.unwrap().embedded, 2, "{damage}");
        let recall = fresh.search(&place.scope, &Query::new("authentication of users", 1)).await.unwrap();
        assert_eq!((contents(&recall), recall.unembedded), (vec![TEXTS[0].to_owned()], 0), "{damage}");
    }
}

#[tokio::test]
async fn a_deleted_keyword_index_is_built_again() {
    let place = Place::by_words().await;
    place.remember(&TEXTS).await;
    let before = place.search("uploading sessions", 5).await.hits;
    for damage in [
        "DELETE FROM memory_postings",
        "UPDATE memory_partitions SET documents = 7",
        "UPDATE memory_partitions SET analyser = 0",
    ] {
        place.sql(damage).await;
        assert_eq!(place.memory.index_pending().await.unwrap().rebuilt, 2, "{damage}");
        assert_eq!(place.search("uploading sessions", 5).await.hits, before, "{damage}");
        assert_eq!(place.memory.index_pending().await.unwrap(), Indexed::default());
    }
    // Bytes that go on for ever, in no number.
    place.sql("UPDATE memory_postings SET postings = CAST('éééé' AS BLOB)").await;
    assert!(place.found("uploading sessions", 5).await.is_empty());
}

#[tokio::test]
async fn vectors_of_another_model_are_not_compared() {
    let place = Place::new(Some(Letters::named("letters-1"))).await;
    place.remember(&TEXTS).await;
    assert_eq!(place.search("abc", 5).await.unembedded, 0);

    let second = Memory::new(place.store.clone(), Some(Letters::named("letters-2")));
    let recall = second.search(&place.scope, &Query::new("zzz login", 5)).await.unwrap();
    assert_eq!((recall.unembedded, recall.hits.len()), (2, 1));
    assert!(recall.hits[0].explain.meaning.raw.is_none());
    assert_eq!(second.backlog(&place.scope).await.unwrap(), 2);
    assert_eq!(second.index_pending().await.unwrap().embedded, 2);
    let recall = second.search(&place.scope, &Query::new("zzz login", 5)).await.unwrap();
    assert!(recall.unembedded == 0 && recall.hits[0].explain.meaning.raw.is_some());
}

#[tokio::test]
async fn a_query_that_cannot_be_embedded_is_searched_by_words_and_says_so() {
    let embedder = Letters::named("letters");
    let place = Place::new(Some(embedder.clone())).await;
    place.remember(&TEXTS).await;
    embedder.is_down.store(true, Ordering::Relaxed);
    let recall = place.search("login", 5).await;
    assert_eq!(contents(&recall), [TEXTS[0]]);
    let Mode::Keyword { reason } = &recall.mode else { panic!("{:?}", recall.mode) };
    assert!(reason.contains("connection refused"), "{reason}");
    // Words alone make up the whole score then.
    assert!((recall.hits[0].explain.relevance - 1.0).abs() < 1e-3, "{:?}", recall.hits[0]);

    place.memory.add(&place.scope, note("written while it was down")).await.unwrap();
    assert!(place.memory.index_pending().await.is_err());
    embedder.is_down.store(false, Ordering::Relaxed);
    assert_eq!(place.memory.index_pending().await.unwrap().embedded, 1);
}

#[tokio::test]
async fn one_text_without_a_usable_vector_does_not_hold_up_the_others() {
    let place = Place::new(Some(Letters::named("letters"))).await;
    for text in ["first", "poison one", "second", "1234", "poison two", "third"] {
        place.memory.add(&place.scope, note(text)).await.unwrap();
    }
    let indexed = place.memory.index_pending().await.unwrap();
    assert_eq!((indexed.embedded, indexed.failed), (3, 3)); // "1234" has no letters: length zero
    assert_eq!(place.memory.backlog(&place.scope).await.unwrap(), 3);
    let recall = place.search("poison", 9).await;
    assert!(recall.hits.iter().all(|hit| hit.score.is_finite()));
    assert_eq!(
        recall.mode,
        Mode::Keyword {
            reason: "the embedder letters gave no usable vector for text 0: a value is not a finite number".into()
        }
    );
}

#[tokio::test]
async fn two_processes_see_each_others_writes_at_once() {
    let place = Place::new(Some(Letters::named("letters"))).await;
    let other = place.another(Some(Letters::named("letters"))).await;
    place.remember(&TEXTS).await;
    for round in 0..3 {
        let text = format!("quick brown fox number {round}");
        other.add(&place.scope, note(&text)).await.unwrap();
        other.index_pending().await.unwrap();
        let recall = place.search(&format!("fox {round}"), 5).await;
        assert_eq!(recall.hits[0].item.content, text);
        assert_eq!((recall.unembedded, recall.hits[0].explain.meaning.raw.is_some()), (0, true));
    }
}

#[tokio::test]
async fn a_row_that_is_rolled_back_leaves_nothing_behind() {
    let place = Place::by_words().await;
    let (handle, scope) = (place.memory.clone(), place.scope.clone());
    let failed: Result<(), longhaul_memory::MemoryError> = place
        .store
        .write(move |tx| {
            handle.insert(tx, &scope, &note("login"))?;
            Err(StoreError::NoRow { sql: "the step failed".to_owned() }.into())
        })
        .await;
    assert!(failed.is_err());
    assert!(place.found("login", 5).await.is_empty());
    assert_eq!(place.memory.index_pending().await.unwrap(), Indexed::default());
}

#[tokio::test]
async fn the_background_task_embeds_what_is_inserted_and_stops_when_told() {
    let place = Place::new(Some(Letters::named("letters"))).await;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let task = tokio::spawn(place.memory.indexer().run(async {
        let _ = stopped.await;
    }));
    for text in TEXTS {
        place.memory.add(&place.scope, note(text)).await.unwrap();
    }
    let drained = async {
        while place.memory.backlog(&place.scope).await.unwrap() > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), drained).await.expect("the backlog is worked off");
    stop.send(()).unwrap();
    tokio::time::timeout(Duration::from_secs(60), task).await.expect("it stops").unwrap();
}

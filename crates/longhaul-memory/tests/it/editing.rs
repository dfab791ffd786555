//! Changes of a memory are seen by the next query, by words at once and by meaning once it is embedded again.

use std::sync::Arc;

use longhaul_core::TimeMs;
use longhaul_memory::{Condition, Edit, MemoryError, NewMemory, Op, Query};
use serde_json::json;

use crate::place::{Letters, Place, letters, note};

#[tokio::test]
async fn an_edit_is_found_as_it_is_now_and_not_as_it_was() {
    let place = Place::new(Some(Arc::new(Letters))).await;
    let ids = place.remember(&["login uses a password", "files are uploaded"]).await;
    let other = place.another(Some(Arc::new(Letters))).await;
    assert_eq!(other.search(&place.scope, &Query::new("password", 5)).await.unwrap().hits[0].item.id, ids[0]);

    let edit = Edit {
        content: Some("login uses a passkey".into()),
        meta: json!({"reviewed": true}).as_object().cloned(),
        tags: Some(vec!["security".into(), "login".into(), "security".into()]),
        importance: Some(0.9),
        pinned: Some(true),
        expires_at: Some(Some(TimeMs(1_900_000_000_000))),
    };
    assert!(place.memory.change(&place.scope, &ids[0], edit).await.unwrap());
    let item = place.memory.get(&place.scope, &ids[0]).await.unwrap().unwrap();
    assert_eq!((item.content.as_str(), item.importance, item.pinned), ("login uses a passkey", 0.9, true));
    assert_eq!(
        (item.tags, item.expires_at),
        (vec!["login".into(), "security".into()], Some(TimeMs(1_900_000_000_000)))
    );
    for memory in [&place.memory, &other] {
        let words = memory.search(&place.scope, &Query::new("passkey", 5)).await.unwrap();
        assert_eq!((words.hits[0].item.id.clone(), words.unembedded), (ids[0].clone(), 1));
        let tagged = Query { tags: vec!["security".into()], ..Query::new("login", 5) };
        assert_eq!(memory.search(&place.scope, &tagged).await.unwrap().considered, 1);
        let reviewed = Query { filter: vec![Condition::new("reviewed", Op::Eq, true)], ..Query::new("login", 5) };
        assert_eq!(memory.search(&place.scope, &reviewed).await.unwrap().considered, 1);
        let old = memory.search(&place.scope, &Query::new("password", 5)).await.unwrap();
        assert!(old.hits.iter().all(|hit| hit.explain.words.share == 0.0), "{old:?}");
    }
    assert_eq!(place.memory.index_pending().await.unwrap().embedded, 1);
    let by_meaning = Query { vector: Some(letters("login uses a passkey")), ..Query::default() };
    let hit = &other.search(&place.scope, &by_meaning).await.unwrap().hits[0];
    assert!(hit.item.id == ids[0] && hit.explain.meaning.raw.unwrap() > 0.999, "{hit:?}");
    assert!(place.memory.drift().await.unwrap().is_empty());
    // Only what an edit names is changed, and an edit without a change of the text costs no vector.
    assert!(place.memory.change(&place.scope, &ids[0], Edit { pinned: Some(false), ..Edit::default() }).await.unwrap());
    assert_eq!(place.memory.backlog(&place.scope).await.unwrap(), 0);
    let item = place.memory.get(&place.scope, &ids[0]).await.unwrap().unwrap();
    assert_eq!((item.content.as_str(), item.importance, item.pinned), ("login uses a passkey", 0.9, false));
}

#[tokio::test]
async fn an_edit_that_may_not_be_changes_nothing() {
    let place = Place::by_words().await;
    let id = place.memory.add(&place.scope, note("a note")).await.unwrap();
    for bad in [
        Edit { content: Some(" ".into()), ..Edit::default() },
        Edit { content: Some("x".repeat(10 << 20)), ..Edit::default() },
        Edit { importance: Some(f32::NAN), pinned: Some(true), ..Edit::default() },
        Edit { tags: Some(vec![String::new()]), ..Edit::default() },
        Edit { meta: json!({"": 1}).as_object().cloned(), ..Edit::default() },
    ] {
        assert!(place.memory.change(&place.scope, &id, bad.clone()).await.is_err(), "{bad:?}");
    }
    assert!(!place.memory.get(&place.scope, &id).await.unwrap().unwrap().pinned);
    let nobody = "mem_nobody".parse().unwrap();
    assert!(!place.memory.change(&place.scope, &nobody, Edit { pinned: Some(true), ..Edit::default() }).await.unwrap());
}

#[tokio::test]
async fn a_vector_given_is_checked_and_found_at_commit() {
    let place = Place::new(Some(Arc::new(Letters))).await;
    let with = |vector: Vec<f32>| NewMemory { vector: Some(vector), ..note("zebra crossing") };
    for bad in [vec![], vec![1.0; 25], vec![f32::NAN; 26], vec![0.0; 26], vec![f32::INFINITY; 26]] {
        let refused = place.memory.add(&place.scope, with(bad.clone())).await;
        assert!(matches!(refused, Err(MemoryError::BadVector { .. })), "{bad:?}");
        let asked = place.memory.search(&place.scope, &Query { vector: Some(bad.clone()), ..Query::default() }).await;
        assert!(matches!(asked, Err(MemoryError::BadVector { .. })), "{bad:?}");
        let many = place.memory.insert_many(&place.scope, vec![note("first"), with(bad)]).await;
        assert!(many.is_err());
    }
    assert_eq!(place.memory.list(&place.scope, &Query::default(), None).await.unwrap().items.len(), 0);
    place.memory.add(&place.scope, with(letters("zebra"))).await.unwrap();
    let by_meaning = Query { vector: Some(letters("zebra")), ..Query::default() };
    let recall = place.memory.search(&place.scope, &by_meaning).await.unwrap();
    assert_eq!((recall.hits.len(), recall.unembedded), (1, 0));
    let unembedded = Place::by_words().await;
    assert!(unembedded.memory.add(&unembedded.scope, with(letters("zebra"))).await.is_err());
}

//! Pages of what is there, figures of it, and many written at once.

use std::sync::Arc;

use longhaul_memory::{Index, Kind, Namespace, NewMemory, Query, Source};

use crate::place::{Letters, Place, letters, note};

#[tokio::test]
async fn pages_give_everything_once_in_order() {
    let place = Place::by_words().await;
    let other = |text: String| NewMemory { namespace: "other".parse().unwrap(), ..note(&text) };
    let texts: Vec<String> = (0..25).map(|n| format!("memory {n}")).collect();
    let mut all: Vec<NewMemory> = texts.iter().map(|text| note(text)).collect();
    all.extend((25..30).map(|n| other(format!("memory {n}"))));
    let ids = place.memory.insert_many(&place.scope, all).await.unwrap();
    let namespaces: Vec<Namespace> = vec!["main".parse().unwrap(), "other".parse().unwrap()];
    let query = Query { k: 7, namespaces, ..Query::default() };
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page = place.memory.list(&place.scope, &query, after.as_deref()).await.unwrap();
        assert!(page.items.len() <= 7);
        seen.extend(page.items.into_iter().map(|item| item.id));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(seen, ids);
    let filtered = Query { kinds: vec![Kind::Fact], ..query };
    assert!(place.memory.list(&place.scope, &filtered, None).await.unwrap().items.is_empty());
    for wrong in ["", "main", "main/x", "Main/3", "/"] {
        assert!(place.memory.list(&place.scope, &Query::default(), Some(wrong)).await.is_err(), "{wrong}");
    }
}

#[tokio::test]
async fn figures_count_what_is_there() {
    let place = Place::new(Some(Arc::new(Letters))).await;
    let fact = NewMemory::new("user", Kind::Fact, Source::User, "四 words of it");
    place.memory.insert_many(&place.scope, vec![note("one two"), note("three"), fact]).await.unwrap();
    let stats = place.memory.stats(&place.scope, &Namespace::default()).await.unwrap().unwrap();
    assert_eq!((stats.memories, stats.unembedded, stats.content_bytes), (3, 3, 7 + 5 + 15));
    assert_eq!((stats.kinds["note"], stats.kinds["fact"], stats.collections["project"]), (2, 1, 2));
    assert!(place.memory.stats(&place.scope, &"none".parse().unwrap()).await.unwrap().is_none());
}

#[tokio::test]
async fn a_memory_is_only_in_the_indexes_it_asks_for() {
    let place = Place::new(Some(Arc::new(Letters))).await;
    let with = |index, text: &str| NewMemory { index, ..note(text) };
    let all = vec![
        with(Index::Both, "zebra both"),
        with(Index::Words, "zebra words"),
        with(Index::Meaning, "zebra meaning"),
        with(Index::Nothing, "zebra nothing"),
    ];
    place.memory.insert_many(&place.scope, all).await.unwrap();
    assert_eq!(place.memory.backlog(&place.scope).await.unwrap(), 2);
    assert_eq!(place.memory.index_pending().await.unwrap().embedded, 2);
    let found = |query: Query| {
        let (memory, scope) = (place.memory.clone(), place.scope.clone());
        async move {
            let hits = memory.search(&scope, &query).await.unwrap().hits;
            let mut legs: Vec<(String, bool, bool)> = hits
                .into_iter()
                .map(|hit| (hit.item.content, hit.explain.words.share > 0.0, hit.explain.meaning.raw.is_some()))
                .collect();
            legs.sort();
            legs
        }
    };
    let expected = [
        ("zebra both".to_owned(), true, true),
        ("zebra meaning".to_owned(), false, true),
        ("zebra words".to_owned(), true, false),
    ];
    assert_eq!(found(Query::new("zebra", 10)).await, expected);
    let by_meaning = Query { vector: Some(letters("zebra")), ..Query::default() };
    assert_eq!(found(by_meaning).await.len(), 2);
    assert_eq!(place.memory.list(&place.scope, &Query::default(), None).await.unwrap().items.len(), 4);
    assert!(place.memory.drift().await.unwrap().is_empty());
    assert_eq!(place.memory.index_pending().await.unwrap(), longhaul_memory::Indexed::default());
}

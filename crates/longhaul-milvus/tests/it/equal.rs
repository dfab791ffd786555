//! The contract: the same searches on the embedded engine and on a server give the same.

use longhaul_core::{Scope, TenantId, TimeMs, UserId};
use longhaul_memory::{Condition, Kind, NewMemory, Op, Query, Source};
use serde_json::json;

use crate::{
    places::{Place, direction, note},
    servers::shared,
};

const WORDS: [&str; 16] = [
    "token", "session", "upload", "sidebar", "stream", "table", "theme", "delete", "build", "cache", "login", "chunk",
    "progress", "width", "event", "question",
];

/// Texts of four words that follow from their number.
fn text(number: usize) -> String {
    let word = |salt: usize| WORDS[(number * 7 + number / 5 * salt + salt * salt) % WORDS.len()];
    format!("{} {} {} {} n{number}", word(1), word(3), word(5), word(7))
}

fn memory(number: usize) -> NewMemory {
    let mut memory = note(text(number));
    memory.vector = Some(direction(&memory.content));
    memory.collection = format!("c{}", number % 7);
    memory.kind = [Kind::Note, Kind::Decision, Kind::Preference][number % 3];
    memory.source = Source::Agent;
    memory.happened_at = Some(TimeMs(1_700_000_000_000 + 1_000 * number as i64));
    memory.tags = if number.is_multiple_of(10) { vec!["tenth".to_owned()] } else { Vec::new() };
    memory.meta.insert("n".to_owned(), json!(number));
    memory
}

fn queries() -> Vec<Query> {
    let plain = |text: &str| Query::new(text, 10);
    let at = |number: i64| Some(TimeMs(1_700_000_000_000 + 1_000 * number));
    let above = |n: i64| Condition { field: "n".to_owned(), op: Op::Ge, value: json!(n) };
    vec![
        plain("upload progress chunk"),
        plain("sidebar width"),
        Query { vector: Some(direction("token session login")), ..Query::new("", 10) },
        Query { k: 100, ..plain("delete table") },
        Query { collections: vec!["c1".into(), "c4".into()], ..plain("cache build") },
        Query { kinds: vec![Kind::Decision], ..plain("theme event") },
        Query { since: at(500), until: at(1_500), ..plain("stream question") },
        Query { tags: vec!["tenth".into()], ..plain("upload") },
        Query { filter: vec![above(1_990)], ..plain("token") },
        Query { filter: vec![above(700)], k: 50, ..plain("build cache login") },
        Query { collections: vec!["no-such".into()], ..plain("token") },
    ]
}

#[tokio::test]
async fn a_server_finds_what_the_embedded_engine_finds() {
    let embedded = Place::embedded("equal").await;
    let remote = Place::on(&shared(), "equal").await;
    for place in [&embedded, &remote] {
        let all: Vec<NewMemory> = (0..2_000).map(memory).collect();
        let ids = place.memory.insert_many(&place.scope, all).await.unwrap();
        place.memory.index_pending().await.unwrap();
        place.memory.replicate_pending().await.unwrap();
        for id in &ids[40..60] {
            let id = id.clone();
            let (memory, scope) = (place.memory.clone(), place.scope.clone());
            let store = place.store.clone();
            assert!(store.write(move |tx| memory.forget(tx, &scope, &id)).await.unwrap());
        }
    }
    // Deletions are not sent yet: the rows decide. Then they are.
    for round in 0..2 {
        for query in queries() {
            let (a, b) = (embedded.search(&query).await, remote.search(&query).await);
            assert!(b.notes.is_empty(), "{:?}", b.notes);
            assert_eq!((a.considered, a.unembedded), (b.considered, b.unembedded), "{query:?}");
            let shown = |recall: &longhaul_memory::Recall| -> Vec<(String, i64)> {
                recall.hits.iter().map(|hit| (hit.item.content.clone(), (hit.score * 1e4) as i64)).collect()
            };
            let (a, b) = (shown(&a), shown(&b));
            let same = a.iter().filter(|hit| b.contains(hit)).count();
            // An approximate index may miss one at the end of a long list.
            assert!(same + query.k / 50 >= a.len() && a.len() == b.len(), "round {round}, {query:?}\n{a:?}\n{b:?}");
        }
        let sent = remote.memory.replicate_pending().await.unwrap();
        assert_eq!((sent.deleted, sent.refilled), (if round == 0 { 20 } else { 0 }, 0));
    }
}

#[tokio::test]
async fn tenants_and_namespaces_stay_apart_on_one_server() {
    let place = Place::on(&shared(), "apart").await;
    let other = Scope { tenant: TenantId::from_body("other"), user: UserId::from_body("default") };
    place.remember((0..50).map(text)).await;
    let theirs: Vec<NewMemory> = (0..50).map(|number| note(format!("{} theirs", text(number)))).collect();
    place.memory.insert_many(&other, theirs).await.unwrap();
    place.memory.index_pending().await.unwrap();
    place.memory.replicate_pending().await.unwrap();
    for number in 0..50 {
        let query = Query { vector: Some(direction(&format!("{} theirs", text(number)))), ..Query::new("", 5) };
        let ours = place.search(&query).await;
        assert!(ours.hits.iter().all(|hit| !hit.item.content.contains("theirs")) && ours.hits.len() == 5);
        let found = place.memory.search(&other, &query).await.unwrap();
        assert!(found.hits.iter().all(|hit| hit.item.content.contains("theirs")) && found.hits.len() == 5);
    }
}

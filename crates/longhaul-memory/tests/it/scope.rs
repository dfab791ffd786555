//! Nothing crosses from one tenant to another, by any call.

use longhaul_core::{Scope, TenantId, UserId};
use longhaul_memory::Query;

use crate::place::{Place, note};

fn tenant(name: &str) -> Scope {
    Scope { tenant: TenantId::from_body(name), user: UserId::from_body("u1") }
}

#[tokio::test]
async fn a_tenant_finds_its_own_and_nothing_else() {
    let place = Place::with_model().await;
    let (a, b) = (tenant("a"), tenant("b"));
    let secret = place.memory.add(&a, note("the launch code is 4711")).await.unwrap();
    let own = place.memory.add(&b, note("the launch party is on Friday")).await.unwrap();
    place.memory.index_pending().await.unwrap();

    for text in ["the launch code is 4711", "4711", "launch", "secret number"] {
        let recall = place.memory.search(&b, &Query::new(text, 10)).await.unwrap();
        assert!(recall.considered == 1 && recall.hits.iter().all(|hit| hit.item.id == own), "{recall:?}");
    }
    assert!(place.memory.get(&b, &secret).await.unwrap().is_none());
    assert!(place.memory.get(&a, &secret).await.unwrap().is_some());
    let (handle, other, id) = (place.memory.clone(), b.clone(), secret.clone());
    assert!(!place.store.write(move |tx| handle.forget(tx, &other, &id)).await.unwrap());
    assert!(place.memory.get(&a, &secret).await.unwrap().is_some());
    let nobody = place.memory.search(&tenant("c"), &Query::new("launch", 10)).await.unwrap();
    assert_eq!((nobody.hits.len(), nobody.considered), (0, 0));
}

#[tokio::test]
async fn the_words_of_one_tenant_do_not_weigh_on_anothers_scores() {
    let place = Place::by_words().await;
    let (a, b) = (tenant("a"), tenant("b"));
    for text in ["login page", "logout page"] {
        place.memory.add(&a, note(text)).await.unwrap();
    }
    let scores = || async {
        let recall = place.memory.search(&a, &Query::new("login page", 10)).await.unwrap();
        recall.hits.iter().map(|hit| (hit.explain.words.raw, hit.score)).collect::<Vec<_>>()
    };
    let before = scores().await;
    for n in 0..50 {
        place.memory.add(&b, note(&format!("login number {n}"))).await.unwrap();
    }
    assert_eq!(scores().await, before);
}

#[tokio::test]
async fn what_is_forgotten_is_gone_from_rows_words_and_vectors() {
    let place = Place::with_model().await;
    let ids = place.remember(&["the launch code is 4711", "the launch party is on Friday"]).await;
    assert_eq!(place.found("launch code", 5).await.len(), 2);
    let (handle, scope, id) = (place.memory.clone(), place.scope.clone(), ids[0].clone());
    assert!(place.store.write(move |tx| handle.forget(tx, &scope, &id)).await.unwrap());

    assert_eq!(place.found("launch code 4711", 5).await, ["the launch party is on Friday"]);
    let left = place.store.read(|read| {
        let count = |sql| read.query_one(sql, &[], |row| row.get::<i64>(0));
        Ok::<_, longhaul_store::StoreError>((
            count("SELECT count(*) FROM memories")?,
            count("SELECT count(*) FROM memory_vectors")?,
            count("SELECT count(*) FROM memory_postings WHERE term IN ('4711', 'code')")?,
            count("SELECT documents FROM memory_partitions")?,
        ))
    });
    assert_eq!(left.await.unwrap(), (1, 1, 0, 1));
}

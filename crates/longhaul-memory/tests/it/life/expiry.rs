//! Expired memories are never found and leave by themselves.

use std::time::Duration;

use longhaul_core::{Ambient, Scope, TimeMs};
use longhaul_memory::{MIGRATIONS, Memory, NewMemory, Query};
use longhaul_store::{Store, StoreSettings};

use super::world::World;
use crate::place::note;

fn until(text: &str, at: TimeMs) -> NewMemory {
    NewMemory { expires_at: Some(at), ..note(text) }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_expired_is_not_found_even_before_it_is_swept_and_then_it_is_gone() {
    let world = World::new().await;
    let soon = TimeMs(world.now().0 + 1_000);
    let hot = world.add(until("the meeting is in room seven", soon)).await;
    let cold = world.add(until("the meeting begins at noon", soon)).await;
    world.cool().await;
    let hot_again = world.memory.note_used(&world.scope, std::slice::from_ref(&hot)).await;
    hot_again.expect("the use is noted");
    assert_eq!(world.memory.warm_wanted().await.expect("it comes back"), 1);
    world.remember(&["the meeting is about plans"]).await;
    assert_eq!(world.found("meeting").await.len(), 3);

    world.clock.advance_ms(999);
    assert_eq!(world.found("meeting").await.len(), 3, "not a moment too early");
    world.clock.advance_ms(1);
    assert_eq!(world.found("meeting").await, ["the meeting is about plans"]);
    assert_eq!((world.get(&hot).await, world.get(&cold).await), (None, None));

    assert_eq!(world.memory.sweep_expired().await.expect("the sweep runs"), 2);
    assert_eq!((world.count("memories").await, world.count("memory_cold").await), (1, 0));
    world.memory.tend_cold().await.expect("segments are looked after");
    assert_eq!(world.objects(), Vec::<std::path::PathBuf>::new(), "its segment had nothing else");
    assert_eq!(world.memory.sweep_expired().await.expect("the sweep runs"), 0);
    assert_eq!(world.found("meeting").await, ["the meeting is about plans"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn in_the_background_an_expired_row_is_gone_within_a_second() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let store = Store::open(StoreSettings::new(home.path()), Ambient::system(), &[MIGRATIONS]).await.expect("it opens");
    let memory = Memory::new(store.clone(), None);
    let keeper = tokio::spawn({
        let memory = memory.clone();
        async move { memory.keep().await }
    });
    let expires = TimeMs(store.ambient().clock.now().0 + 300);
    let scope = Scope::single_user();
    memory.add(&scope, until("gone in a moment", expires)).await.expect("it is written");
    let mut found_late = 0;
    let mut looks = tokio::time::interval(Duration::from_millis(20));
    let gone = async {
        loop {
            looks.tick().await;
            let asked = store.ambient().clock.now();
            let hits = memory.search(&scope, &Query::new("gone in a moment", 5)).await.expect("it runs").hits;
            found_late += usize::from(!hits.is_empty() && asked >= expires);
            let rows: i64 = store
                .read(|read| read.query_one("SELECT count(*) FROM memories", &[], |row| row.get(0)))
                .await
                .expect("it counts");
            if rows == 0 {
                return store.ambient().clock.now();
            }
        }
    };
    let gone = tokio::time::timeout(Duration::from_secs(20), gone).await.expect("it goes by itself");
    keeper.abort();
    assert_eq!(found_late, 0);
    assert!(gone >= expires && gone.0 - expires.0 <= 1_500, "{} ms late", gone.0 - expires.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn more_time_given_before_the_sweep_counts() {
    let world = World::new().await;
    let id = world.add(until("given more time", TimeMs(world.now().0 + 10))).await;
    world.clock.advance_ms(20);
    let more = longhaul_memory::Edit { expires_at: Some(None), ..Default::default() };
    assert!(world.memory.change(&world.scope, &id, more).await.expect("it changes"));
    assert_eq!(world.memory.sweep_expired().await.expect("the sweep runs"), 0);
    assert_eq!(world.found("time").await, ["given more time"]);
}

//! Facts: when they were true, and when we believed them.

use longhaul_core::TimeMs;
use longhaul_memory::{Fact, Kind, MemoryError, NewMemory, Query, Source};

use super::world::{DAY_MS, World, sorted};

fn home(place: &str, from: Option<TimeMs>) -> NewMemory {
    let fact = Fact { subject: "user".to_owned(), attribute: "home".to_owned(), valid_from: from, valid_to: None };
    NewMemory {
        fact: Some(fact),
        ..NewMemory::new("user", Kind::Fact, Source::User, format!("the user lives in {place}"))
    }
}

async fn at(world: &World, query: Query) -> Vec<String> {
    sorted(&world.search(&Query { text: "where the user lives".to_owned(), ..query }).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_newer_fact_holds_and_the_older_one_is_kept_with_its_time() {
    let world = World::new().await;
    let first = world.now();
    world.add(home("Berlin", None)).await;
    world.clock.advance_days(10);
    let moved = world.now();
    let lisbon = world.add(home("Lisbon", None)).await;
    world.clock.advance_days(1);

    assert_eq!(at(&world, Query::default()).await, ["the user lives in Lisbon"]);
    let before = Query { as_of: Some(TimeMs(moved.0 - 1)), ..Query::default() };
    assert_eq!(at(&world, before).await, ["the user lives in Berlin"], "as it was");
    let known = TimeMs(first.0 + DAY_MS);
    let believed = Query { known_at: Some(known), as_of: Some(known), ..Query::default() };
    assert_eq!(at(&world, believed).await, ["the user lives in Berlin"], "as it was believed");
    let both = Query { include_superseded: true, ..Query::default() };
    assert_eq!(at(&world, both).await.len(), 2);

    let history = world.memory.history(&world.scope, &"main".parse().expect("a name"), "user", "home").await;
    let history = history.expect("there is a history");
    let told: Vec<(&str, bool, bool)> =
        history.iter().map(|past| (past.item.content.as_str(), past.is_believed, past.holds_now)).collect();
    assert_eq!(told, [("the user lives in Berlin", true, false), ("the user lives in Lisbon", true, true)]);
    assert_eq!(history[0].item.superseded_by, Some(lisbon));
    assert_eq!(history[0].item.superseded_at, Some(moved));
    assert_eq!(history[0].item.fact.as_ref().and_then(|fact| fact.valid_to), Some(moved));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_learned_late_about_earlier_does_not_replace_what_came_after() {
    let world = World::new().await;
    let year = 365 * DAY_MS;
    let (paris, berlin) = (TimeMs(world.now().0 - 5 * year), TimeMs(world.now().0 - 2 * year));
    world.add(home("Berlin", Some(berlin))).await;
    world.clock.advance_days(1);
    world.add(home("Paris", Some(paris))).await;
    assert_eq!(at(&world, Query::default()).await, ["the user lives in Berlin"]);
    let then = Query { as_of: Some(TimeMs(paris.0 + DAY_MS)), ..Query::default() };
    assert_eq!(at(&world, then).await, ["the user lives in Paris"]);
    let long_ago = Query { as_of: Some(TimeMs(paris.0 - DAY_MS)), ..Query::default() };
    assert_eq!(at(&world, long_ago).await, Vec::<String>::new(), "nobody said where before");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_correction_withdraws_the_error_and_remembers_that_it_was_believed() {
    let world = World::new().await;
    let since = TimeMs(world.now().0 - 100 * DAY_MS);
    world.add(home("Rome", Some(since))).await;
    let believed_at = world.now();
    world.clock.advance_days(1);
    world.add(home("Milan", Some(since))).await;
    world.clock.advance_days(1);
    assert_eq!(at(&world, Query::default()).await, ["the user lives in Milan"]);
    let then = Query { as_of: Some(TimeMs(since.0 + DAY_MS)), ..Query::default() };
    assert_eq!(at(&world, then.clone()).await, ["the user lives in Milan"], "it never was Rome");
    let believed = Query { known_at: Some(believed_at), ..then };
    assert_eq!(at(&world, believed).await, ["the user lives in Rome"], "but we thought so");
    let history = world.memory.history(&world.scope, &"main".parse().expect("a name"), "user", "home").await;
    let believed: Vec<bool> = history.expect("there is one").iter().map(|past| past.is_believed).collect();
    assert_eq!(believed, [false, true]);
}

#[tokio::test(flavor = "multi_thread")]
async fn other_subjects_attributes_and_namespaces_do_not_contradict() {
    let world = World::new().await;
    world.add(home("Oslo", None)).await;
    let mut other = home("Kyoto", None);
    other.namespace = "team".parse().expect("a name");
    world.add(other).await;
    let mut subject = home("Quito", None);
    subject.fact.as_mut().expect("it is a fact").subject = "a friend".to_owned();
    world.add(subject).await;
    assert_eq!(at(&world, Query::default()).await, ["the user lives in Oslo", "the user lives in Quito"]);
    let about = Query { subject: Some("a friend".to_owned()), ..Query::default() };
    assert_eq!(at(&world, about).await, ["the user lives in Quito"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn superseded_facts_may_become_cold_and_the_history_is_whole() {
    let world = World::new().await;
    world.add(home("Berlin", None)).await;
    world.clock.advance_days(10);
    let moved = world.now();
    world.add(home("Lisbon", None)).await;
    world.clock.advance_days(10);
    assert_eq!(world.cool().await, 1, "what is believed stays hot");
    let history = world.memory.history(&world.scope, &"main".parse().expect("a name"), "user", "home").await;
    let history: Vec<String> = history.expect("there is one").into_iter().map(|past| past.item.content).collect();
    assert_eq!(history, ["the user lives in Berlin", "the user lives in Lisbon"]);
    let before = Query { as_of: Some(TimeMs(moved.0 - 1)), ..Query::default() };
    assert_eq!(at(&world, before).await, ["the user lives in Berlin"]);
    assert_eq!(at(&world, Query::default()).await, ["the user lives in Lisbon"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_subject_is_refused() {
    let world = World::new().await;
    let refused = world.memory.history(&world.scope, &Default::default(), "", "home").await.expect_err("no subject");
    assert!(matches!(refused, MemoryError::Field { field: "subject", .. }), "{refused}");
}

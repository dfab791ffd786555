//! Expired memories are never found and leave by themselves.

use std::time::Duration;

use longhaul_core::TimeMs;
use longhaul_memory::NewMemory;

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
async fn in_the_background_expired_rows_of_both_tiers_go_within_about_a_second_and_none_is_given_out() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let measuring = longhaul_memory::measure::expiry(home.path(), 60, 1_000);
    let measured = tokio::time::timeout(Duration::from_secs(60), measuring).await.expect("they go by themselves");
    let measured = measured.expect("it is measured");
    println!("{measured:?}");
    assert_eq!((measured.memories, measured.returned), (60, 0));
    // The bar is a second; a machine that is busy with other things may take a little longer to look.
    assert!(measured.searches > 10 && measured.late_ms_max <= 2_500, "{measured:?}");
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

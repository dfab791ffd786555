//! Cold memory in a bucket: a real server, killed in the middle, with wrong keys, without its bucket, and silent.

use std::time::{Duration, Instant};

use longhaul_memory::{ColdError, ColdPlace, Credential, Forget, MemoryError, Query, S3Place, Tier, TierRules};
use tokio::net::TcpListener;

use super::{
    s3_server::{BUCKET, cold, limits, place, start},
    world::{World, files_below, files_with, sorted},
};

async fn world_in(place: S3Place) -> World {
    let world = World::without_cold().await;
    world.memory.use_cold(cold(place), limits()).expect("the settings are right");
    world
}

/// What a search says of its cold tier, and how long it took.
async fn noted(world: &World) -> (Vec<String>, Vec<String>, Duration) {
    let begun = Instant::now();
    let memory = world.another_handle();
    let found = memory.search(&world.scope, &Query::new("harbour", 10)).await.expect("a search never fails with it");
    (sorted(&found), found.notes, begun.elapsed())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_keeps_what_is_cold_and_gives_it_back() {
    let server = start();
    let world = world_in(place(server.address())).await;
    world.memory.check_cold().await.expect("the bucket can be used");
    let ids = world.remember(&["the harbour opens at six", "the harbour has a crane"]).await;
    assert_eq!(world.cool().await, 2);
    let objects = files_with(server.dir(), b"harbour has a crane");
    assert_eq!(objects.len(), 1);
    assert!(objects[0].starts_with(server.dir().join(BUCKET).join("team/one")), "below the prefix: {objects:?}");
    assert_eq!(world.count("memories").await, 0);

    let (found, notes, _) = noted(&world).await;
    assert_eq!(found, ["the harbour has a crane", "the harbour opens at six"]);
    assert_eq!(notes, Vec::<String>::new());
    assert_eq!(world.get(&ids[1]).await.map(|item| item.tier), Some(Tier::Cold));
    assert_eq!(world.memory.warm_wanted().await.expect("it comes back"), 1);
    let receipt = world.memory.erase(&world.scope, &Forget::Ids(ids), false).await.expect("they are erased");
    assert_eq!((receipt.erased.rows, receipt.erased.cold_rows, receipt.pending.len()), (1, 1, 0));
    assert_eq!(files_with(server.dir(), b"harbour").len(), 0, "{:?}", files_below(server.dir()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_goes_away_costs_nothing_but_the_cold_hits() {
    let mut server = start();
    let world = world_in(place(server.address())).await;
    world.remember(&["the harbour is cold"]).await;
    world.cool().await;
    let kept = world.remember(&["the harbour is warm"]).await;
    server.kill();

    let (found, notes, took) = noted(&world).await;
    assert_eq!(found, ["the harbour is warm"]);
    assert_eq!(notes.len(), 1);
    assert!(notes[0].contains("1 cold segments could not be read: s3://memories/team/one"), "{notes:?}");
    assert!(took < Duration::from_secs(5), "{took:?}");

    let moved = world.memory.move_cold(&TierRules::everything(), world.now()).await.expect("that is no error");
    assert_eq!(moved.memories, 0);
    assert!(moved.stopped.expect("it says why").contains("cannot be reached"));
    assert_eq!(world.found("warm").await, ["the harbour is warm"], "nothing left the hot tier");

    let cold = Forget::Matching(Box::new(Query { tiers: longhaul_memory::Tiers::Cold, ..Query::default() }));
    let counted = world.memory.erase(&world.scope, &cold, true).await.expect("it counts what it can see");
    assert_eq!(counted.pending.len(), 1, "{counted:?}");
    server.start_again();
    let tended = world.memory.tend_cold().await.expect("leftovers are looked after");
    assert_eq!((tended.stopped, tended.pending), (None, 0));
    assert_eq!(world.cool().await, 1, "tried again it moves");
    let (found, notes, _) = noted(&world).await;
    assert_eq!((found.len(), notes.len()), (2, 0), "{notes:?}");
    assert!(world.get(&kept[0]).await.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_forgotten_while_the_server_is_away_is_found_by_nobody_and_goes_when_it_is_back() {
    let mut server = start();
    let world = world_in(place(server.address())).await;
    let ids = world.remember(&["the harbour secret", "the harbour news"]).await;
    world.cool().await;
    server.kill();
    let receipt = world.memory.erase(&world.scope, &Forget::Ids(vec![ids[0].clone()]), false).await.expect("erased");
    assert_eq!(receipt.erased.cold_rows, 1);
    assert!(receipt.pending[0].contains("still hold erased rows"), "{:?}", receipt.pending);
    assert!(matches!(world.memory.get(&world.scope, &ids[0]).await, Ok(None)));
    server.start_again();
    assert_eq!(noted(&world).await.0, ["the harbour news"], "before it is rewritten");
    let tended = world.memory.tend_cold().await.expect("segments are looked after");
    assert_eq!((tended.rewritten, tended.deleted, tended.pending), (1, 1, 0));
    assert_eq!(files_with(server.dir(), b"harbour secret").len(), 0);
    assert_eq!(noted(&world).await.0, ["the harbour news"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_keys_and_a_missing_bucket_are_told_apart_and_no_key_is_printed() {
    let server = start();
    let wrong = Credential::new("this-is-not-the-secret");
    let world = world_in(S3Place { secret_access_key: wrong, ..place(server.address()) }).await;
    let error = world.memory.check_cold().await.expect_err("refused");
    assert!(matches!(error, MemoryError::Cold(ColdError::Refused { .. })), "{error:?}");
    world.remember(&["the harbour stays hot"]).await;
    let moved = world.memory.move_cold(&TierRules::everything(), world.now()).await.expect("that is no error");
    let stopped = moved.stopped.expect("it says why");
    assert!(stopped.contains("refuses the credentials"), "{stopped}");
    let told = format!("{error:?} {stopped} {:?}", world.memory.cold_place());
    assert!(!told.contains("this-is-not-the-secret"), "{told}");

    world
        .memory
        .use_cold(cold(S3Place { bucket: "nowhere".to_owned(), ..place(server.address()) }), limits())
        .expect("it opens");
    let error = world.memory.check_cold().await.expect_err("no bucket");
    assert!(matches!(error, MemoryError::Cold(ColdError::NoPlace { .. })), "{error:?}");
    let moved = world.memory.move_cold(&TierRules::everything(), world.now()).await.expect("that is no error");
    assert!(moved.stopped.is_some() && moved.memories == 0, "{moved:?}");
    assert_eq!(world.found("harbour").await, ["the harbour stays hot"]);

    world.memory.use_cold(cold(place(server.address())), limits()).expect("it opens");
    assert_eq!(world.cool().await, 1, "with the right settings it moves");
    world.memory.tend_cold().await.expect("leftovers are looked after");
    assert_eq!(files_with(server.dir(), b"harbour stays hot").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_does_not_answer_is_not_waited_for() {
    let server = start();
    let world = world_in(place(server.address())).await;
    world.remember(&["the harbour is cold"]).await;
    world.cool().await;
    world.remember(&["the harbour is warm"]).await;
    // It takes connections and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("it listens");
    let silent_place = place(silent.local_addr().expect("an address"));
    world.memory.use_cold(cold(silent_place), limits()).expect("it opens");
    let begun = Instant::now();
    let found = world.search(&Query::new("harbour", 10)).await;
    assert_eq!(sorted(&found), ["the harbour is warm"]);
    assert!(found.notes[0].contains("could not be read"), "{:?}", found.notes);
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    let begun = Instant::now();
    assert_eq!(sorted(&world.search(&Query::new("harbour", 10)).await), ["the harbour is warm"]);
    assert!(begun.elapsed() < Duration::from_millis(1_800), "known to be away: {:?}", begun.elapsed());

    world.memory.use_cold(cold(place(server.address())), limits()).expect("it opens");
    assert_eq!(world.found("harbour").await.len(), 2);
}

#[tokio::test]
async fn settings_come_from_the_environment_and_are_checked() {
    let variable = |name: &str| match name {
        "AWS_ACCESS_KEY_ID" => Some("key".to_owned()),
        "AWS_SECRET_ACCESS_KEY" => Some("secret".to_owned()),
        "AWS_ENDPOINT_URL" => Some("http://192.0.2.1:9000".to_owned()),
        _ => None,
    };
    let place = ColdPlace::parse("s3://memories/here", variable).expect("it parses");
    let world = World::without_cold().await;
    let refused = world.memory.use_cold(place, limits()).expect_err("plain http to another machine");
    assert!(matches!(&refused, MemoryError::Cold(ColdError::Setting { .. })), "{refused:?}");
}

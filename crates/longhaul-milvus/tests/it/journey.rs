//! What a server goes through while memory is written and searched: nothing is stale, nothing is lost, nothing fails.

use std::time::{Duration, Instant};

use longhaul_core::TimeMs;
use longhaul_memory::{
    Edit, NewMemory, Query,
    remote::{Batch, RemoteVectors},
};
use longhaul_testbed::MilvusServer;

use crate::{
    places::{Place, by_meaning, contents, direction, note},
    servers::{connect, kind, shared},
};

fn is_long() -> bool {
    std::env::var_os("LONGHAUL_TEST_LONG").is_some()
}

fn text(number: usize) -> String {
    format!("a{} b{} c{} d{number}", number % 13, number % 17, number % 19)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_write_is_found_by_the_next_search() {
    let place = Place::on(&shared(), "fresh").await;
    // Enough for the server's candidates to count.
    place.remember((0..1_500).map(text)).await;
    place.memory.replicate_pending().await.unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let indexer = tokio::spawn(place.memory.indexer().run(async { drop(stopped.await) }));
    let count = if is_long() { 10_000 } else { 300 };
    let mut stale = 0;
    for number in 2_000..2_000 + count {
        place.remember([text(number)]).await;
        let recall = place.search(&by_meaning(&text(number), 1)).await;
        assert!(recall.notes.is_empty(), "{:?}", recall.notes);
        stale += usize::from(contents(&recall) != [text(number)]);
    }
    assert_eq!(stale, 0, "of {count}");
    stop.send(()).unwrap();
    indexer.await.unwrap();
}

#[tokio::test]
async fn what_was_edited_forgotten_or_has_expired_does_not_come_back() {
    let place = Place::on(&shared(), "gone").await;
    let ids = place.remember((0..1_200).map(text)).await;
    place.memory.replicate_pending().await.unwrap();
    assert_eq!(place.found(&text(7), 1).await, [text(7)]);

    let moved = Edit { content: Some("something else entirely".into()), ..Edit::default() };
    assert!(place.memory.change(&place.scope, &ids[7], moved).await.unwrap());
    let past = Edit { expires_at: Some(Some(TimeMs(1))), ..Edit::default() };
    assert!(place.memory.change(&place.scope, &ids[8], past).await.unwrap());
    let (memory, scope, id) = (place.memory.clone(), place.scope.clone(), ids[9].clone());
    place.store.write(move |tx| memory.forget(tx, &scope, &id)).await.unwrap();
    for round in 0..3 {
        for number in 7..10 {
            assert!(!place.found(&text(number), 100).await.contains(&text(number)), "round {round}, {number}");
        }
        match round {
            0 => assert_eq!(place.memory.index_pending().await.unwrap().embedded, 1),
            1 => {
                let sent = place.memory.replicate_pending().await.unwrap();
                assert_eq!((sent.upserted, sent.deleted, sent.refilled), (2, 1, 0));
            }
            _ => assert_eq!(place.found("something else entirely", 1).await, ["something else entirely"]),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_else_takes_out_of_the_server_is_missed_and_put_back() {
    let place = Place::on(&shared(), "taken").await;
    place.remember((0..1_500).map(text)).await;
    place.memory.replicate_pending().await.unwrap();
    place.settled().await;
    assert_eq!(place.found(&text(77), 1).await, [text(77)]);
    let state = place.memory.remote_state(&place.scope).await.unwrap().remove(0);
    let (milvus, space) = (connect(&shared()), place.space());
    let taken = Batch { deletes: vec![78], ..Batch::default() };
    milvus.open(&space).await.unwrap();
    milvus.apply(&space, &state.partition_key, &taken).await.unwrap();
    assert_eq!(milvus.count(&space, &state.partition_key).await.unwrap(), 1_499);
    // The server is really asked: what it lacks behind our back is not found. Moving again compares, and repairs.
    let started = Instant::now();
    while place.found(&text(77), 1).await == [text(77)] {
        assert!(started.elapsed() < Duration::from_secs(30), "the server is not asked");
        tokio::task::yield_now().await;
    }
    assert_eq!(place.memory.migrate_to_remote(&mut |_| {}).await.unwrap().vectors, 1_500);
    assert_eq!(place.found(&text(77), 1).await, [text(77)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_dies_in_the_middle_costs_nothing() {
    let mut server = MilvusServer::start(kind()).unwrap();
    let place = Place::on(&server.uri(), "dies").await;
    let ids = place.remember((0..1_500).map(text)).await;
    place.memory.replicate_pending().await.unwrap();
    assert_eq!(place.found(&text(3), 1).await, [text(3)]);

    // In the middle of a large write: some of it has arrived.
    let memory = place.memory.clone();
    place.remember((2_000..8_000).map(text)).await;
    let replicating = tokio::spawn(async move { memory.replicate_pending().await });
    let started = Instant::now();
    while place.memory.remote_state(&place.scope).await.unwrap()[0].vectors_sent < 2_500 {
        assert!(started.elapsed() < Duration::from_secs(60), "the server is given nothing");
        tokio::task::yield_now().await;
    }
    server.kill().unwrap();
    assert!(replicating.await.unwrap().is_err());

    // Gone: writes and deletions go on, and searches give what they always give, with a note.
    place.remember(["written while it was away".to_owned()]).await;
    let (memory, scope, id) = (place.memory.clone(), place.scope.clone(), ids[5].clone());
    assert!(place.store.write(move |tx| memory.forget(tx, &scope, &id)).await.unwrap());
    for wanted in ["written while it was away".to_owned(), text(3), text(7_999)] {
        let recall = place.search(&by_meaning(&wanted, 1)).await;
        assert_eq!((contents(&recall), recall.notes.len()), (vec![wanted], 1));
    }
    assert!(!contents(&place.search(&by_meaning(&text(5), 50)).await).contains(&text(5)));
    assert!(place.memory.replicate_pending().await.is_err());

    server.start_again().unwrap();
    place.level().await;
    assert_eq!(place.found("written while it was away", 1).await, ["written while it was away"]);
    assert!(!place.found(&text(5), 50).await.contains(&text(5)));
    let moved = place.memory.migrate_to_remote(&mut |_| {}).await.unwrap();
    assert_eq!(moved.vectors, 1_500 + 6_000 + 1 - 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_was_wiped_is_filled_again_and_another_process_knows_it() {
    let mut server = MilvusServer::start(kind()).unwrap();
    let place = Place::on(&server.uri(), "wiped").await;
    place.remember((0..1_500).map(text)).await;
    place.memory.replicate_pending().await.unwrap();
    let other = place.again(&server.uri()).await;
    assert_eq!(other.found(&text(3), 1).await, [text(3)]);
    server.wipe().unwrap();
    server.start_again().unwrap();
    let recall = other.search(&by_meaning(&text(3), 1)).await;
    assert_eq!((contents(&recall), recall.notes.len()), (vec![text(3)], 1));
    place.level().await;
    let moved = place.memory.migrate_to_remote(&mut |_| {}).await.unwrap();
    assert_eq!((moved.vectors, moved.sampled > 30), (1_500, true));
    let third = place.again(&server.uri()).await;
    assert_eq!(third.found(&text(1_000), 1).await, [text(1_000)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stands_still_delays_one_search_only() {
    let mut server = MilvusServer::start(kind()).unwrap();
    let place = Place::on(&server.uri(), "still").await;
    place.remember((0..1_500).map(text)).await;
    place.memory.replicate_pending().await.unwrap();
    server.pause().unwrap();
    let started = Instant::now();
    for number in [3, 4, 5] {
        let recall = place.search(&by_meaning(&text(number), 1)).await;
        assert_eq!((contents(&recall), recall.notes.len()), (vec![text(number)], 1));
    }
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    server.resume().unwrap();
    place.level().await;
    assert_eq!(place.found(&text(3), 1).await, [text(3)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn moving_there_and_back_keeps_everything() {
    let place = Place::embedded("moved").await;
    place.remember((0..2_500).map(text)).await;
    let mut waiting = note("waits for its vector");
    waiting.vector = None;
    place
        .memory
        .insert_many(&place.scope, vec![waiting, NewMemory { vector: Some(direction("x")), ..note("x") }])
        .await
        .unwrap();
    let embedded: Vec<_> = place.found(&text(77), 10).await;

    place.connect(&shared());
    // Stopped after the first batch, as a kill would: what was sent counts.
    let (started, stopped) = tokio::sync::oneshot::channel();
    let mut started = Some(started);
    let mut first = |_| {
        let _ = started.take().map(|started| started.send(()));
    };
    tokio::select! {
        _ = place.memory.migrate_to_remote(&mut first) => {}
        _ = stopped => {}
    }
    let other = place.again(&shared()).await;
    let sent = other.memory.remote_state(&place.scope).await.unwrap()[0].vectors_sent;
    assert!(sent > 0, "the first batch counts");
    let mut steps = Vec::new();
    let moved = place.memory.migrate_to_remote(&mut |step| steps.push(step)).await.unwrap();
    assert_eq!((moved.partitions, moved.vectors), (1, 2_501));
    assert!(moved.sampled > 30);
    assert!(steps.iter().all(|step| step.vectors.0 >= sent), "it goes on where it was: {steps:?}");
    assert_eq!(place.found(&text(77), 10).await, embedded);

    let back = place.memory.migrate_from_remote(true, &mut |_| {}).await.unwrap();
    assert_eq!((back.vectors, back.dropped), (2_501, 1));
    assert!(place.memory.remote_state(&place.scope).await.unwrap().is_empty());
    let embedded_again = place.search(&Query { k: 10, ..by_meaning(&text(77), 10) }).await;
    assert_eq!(contents(&embedded_again), embedded);
}

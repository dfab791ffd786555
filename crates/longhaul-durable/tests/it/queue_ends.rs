//! The orderly end of a worker.

use std::time::Duration;

use longhaul_durable::{
    DurableError, END, Effect, Enqueue, EntryStatus, Graph, GraphBuilder, RunOptions, START, Worker,
};
use tokio_util::sync::CancellationToken;

use crate::{
    ground::{Ground, on},
    queue::{AtWork, enqueue, named, noting, statuses, until},
    support::{Done, Words, completed, scope},
};

on! { memory, file, postgres:
    a_worker_ends_its_supersteps_and_gives_back_the_rest,
    what_takes_longer_than_the_grace_is_dropped_and_gone_on_with,
    draining_the_runtime_ends_its_workers,
}

/// Two nodes; each says when it begins, and then waits for a word.
fn slow(done: &Done, go: &CancellationToken) -> Graph<Words> {
    let node = |name: &'static str| {
        let (done, go) = (done.clone(), go.clone());
        move |ctx: longhaul_durable::NodeContext, _| {
            let (done, go) = (done.clone(), go.clone());
            async move {
                let noted = done.clone();
                ctx.step("begin", Effect::Pure, async move {
                    noted.add(format!("{name} begins"));
                    Ok(())
                })
                .await?;
                go.cancelled().await;
                done.add(format!("{name} ends"));
                Ok(vec![name.to_owned()])
            }
        }
    };
    GraphBuilder::<Words>::new("slow", 1)
        .node("one", node("one"))
        .node("two", node("two"))
        .edge(START, "one")
        .edge("one", "two")
        .edge("two", END)
        .build()
        .unwrap()
}

async fn seen(done: &Done, what: &str) {
    for _ in 0..3_000 {
        if done.all().iter().any(|seen| seen == what) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never seen: {what}");
}

async fn a_worker_ends_its_supersteps_and_gives_back_the_rest(ground: Ground) {
    let world = ground.world().await;
    let go = CancellationToken::new();
    enqueue(&world, &named(1), "slow", Enqueue::default()).await;
    let worker = AtWork::begin(Worker::new(world.runtime.clone()).serve(slow(&world.done, &go)));
    seen(&world.done, "one begins").await;
    worker.shutdown.cancel();
    // What comes now is for others.
    enqueue(&world, &named(2), "slow", Enqueue::default()).await;
    go.cancel();
    let worked = worker.working.await.unwrap().unwrap();
    assert_eq!((worked.claimed, worked.given_back), (1, 1));
    assert_eq!(world.done.take(), ["one begins", "one ends"]);
    assert_eq!(statuses(&world.runtime, &scope().scope).await, [EntryStatus::Queued; 2]);
    // The lease is given back: the thread is free at once.
    let worker = AtWork::begin(Worker::new(world.runtime.clone()).serve(slow(&world.done, &go)).concurrency(1));
    until(&world.runtime, &scope().scope, &[]).await;
    assert_eq!(worker.end().await.completed, 2);
    let done = world.done.take();
    assert_eq!(done.iter().filter(|what| *what == "one begins").count(), 1, "{done:?}");
    assert_eq!(done.iter().filter(|what| *what == "two ends").count(), 2, "{done:?}");
}

async fn what_takes_longer_than_the_grace_is_dropped_and_gone_on_with(ground: Ground) {
    let world = ground.world().await;
    let go = CancellationToken::new();
    enqueue(&world, &named(1), "slow", Enqueue::default()).await;
    let grace = Duration::from_millis(20);
    let worker = AtWork::begin(Worker::new(world.runtime.clone()).serve(slow(&world.done, &go)).grace(grace));
    seen(&world.done, "one begins").await;
    assert_eq!(worker.end().await.given_back, 1);
    assert_eq!(statuses(&world.runtime, &scope().scope).await, [EntryStatus::Queued]);
    go.cancel();
    let worker = AtWork::begin(Worker::new(world.runtime.clone()).serve(slow(&world.done, &go)));
    until(&world.runtime, &scope().scope, &[]).await;
    worker.end().await;
    // The step that was recorded did not run again, the node did.
    assert_eq!(world.done.take(), ["one begins", "one ends", "two begins", "two ends"]);
}

async fn draining_the_runtime_ends_its_workers(ground: Ground) {
    let world = ground.world().await;
    let go = CancellationToken::new();
    enqueue(&world, &named(1), "slow", Enqueue::default()).await;
    let worker = AtWork::begin(Worker::new(world.runtime.clone()).serve(slow(&world.done, &go)));
    seen(&world.done, "one begins").await;
    let draining = tokio::spawn({
        let runtime = world.runtime.clone();
        async move { runtime.drain().await }
    });
    go.cancel();
    draining.await.unwrap();
    worker.working.await.unwrap().unwrap();
    let (graph, free) = (noting(&world.done), named(9));
    let refused = world.runtime.run(&graph, &scope(), &free, Words::default(), RunOptions::default()).await;
    assert!(matches!(refused.unwrap_err(), DurableError::Draining));
    // Another runtime goes on, also without a worker; the entry is found to be at its end.
    let other = longhaul_durable::Runtime::new(world.store.clone(), world.store.ambient().clone());
    let graph = slow(&world.done, &go);
    let outcome = other.run(&graph, &scope(), &named(1), Words::default(), RunOptions::default()).await.unwrap();
    assert_eq!(completed(outcome), Words::of(&["one", "two"]));
    let worker = AtWork::begin(Worker::new(other.clone()).serve(graph));
    until(&other, &scope().scope, &[]).await;
    assert_eq!(worker.end().await.claimed, 0);
}

//! What is forgotten, and what is not.

use std::{sync::Arc, time::Duration};

use longhaul_core::{Ambient, Scope};
use longhaul_durable::{
    CHECKS, DurableError, END, Graph, GraphBuilder, MIGRATIONS, Outcome, Point, Pruned, Retention, RunOptions, Runtime,
    START, StopWhen,
};
use longhaul_store::{Store, StoreError, StoreSettings};

use crate::support::{Words, completed, scope, thread, world};

/// One superstep does nothing, the next replaces nothing: the state stays small, the history grows.
fn looping(to: u64) -> Graph<Words> {
    GraphBuilder::<Words>::new("looping", 1)
        .node("loop", |ctx, _: Arc<Words>| async move { Ok(vec![format!("w{}", ctx.superstep())]) })
        .edge(START, "loop")
        .branch("loop", &["loop", END], move |state| if state.count < to { "loop" } else { END })
        .build()
        .unwrap()
}

fn until(count: u64) -> RunOptions<Words> {
    let stop: StopWhen<Words> = Arc::new(move |state| state.count >= count);
    RunOptions { stop_when: Some(stop), ..RunOptions::default() }
}

fn single() -> Scope {
    Scope::single_user()
}

#[tokio::test]
async fn a_pruned_history_begins_with_a_whole_state_and_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let world = world(dir.path()).await;
    let (runtime, graph) = (&world.runtime, looping(400));
    assert!(matches!(world.run_with(&graph, until(300)).await, Outcome::Stopped(_)));
    let id = runtime.find(&single(), &thread()).await.unwrap().unwrap().id;
    let nothing = runtime.prune(&graph, &single(), &Retention::default()).await.unwrap();
    assert_eq!(nothing, Pruned::default());
    let keep = Retention { keep_last: Some(10), ..Retention::default() };
    let pruned = runtime.prune(&graph, &single(), &keep).await.unwrap();
    assert_eq!(pruned, Pruned { checkpoints: 291, ..Pruned::default() });
    assert_eq!(runtime.prune(&graph, &single(), &keep).await.unwrap().checkpoints, 0);
    let history = runtime.history(&single(), &thread(), 1000).await.unwrap();
    assert_eq!((history.len(), history[9].superstep), (10, 291));
    for superstep in [291, 295, 300] {
        let state: Words = runtime.state_at(&single(), &id, superstep).await.unwrap();
        assert_eq!(state.count, superstep);
    }
    let gone = runtime.state_at::<Words>(&single(), &id, 290).await;
    assert!(matches!(gone, Err(DurableError::NoCheckpoint { superstep: 290, .. })), "{gone:?}");
    let report = world.store.verify(CHECKS).await.unwrap();
    assert!(report.is_sound(), "{report}");
    // A fork of what is left, also at its very beginning, and the execution itself go on; whoever damages the new
    // beginning is noticed.
    let outcome = runtime.replay(&graph, &scope(), &Point::new(&id, 291), until(292)).await.unwrap();
    assert!(matches!(outcome, Outcome::Stopped(state) if state.count == 292));
    runtime.abandon(&single(), &thread()).await.unwrap();
    let again = world
        .store
        .write(|tx| tx.execute("UPDATE snapshots SET state = replace(state, 'w7', 'w8') WHERE superstep = 291", &[]));
    assert_eq!(again.await.map_err(|error: StoreError| error).unwrap(), 1);
    let damaged = runtime.state_at::<Words>(&single(), &id, 295).await;
    assert!(matches!(damaged, Err(DurableError::Damaged { superstep: 291, .. })), "{damaged:?}");
    assert!(!world.store.verify(CHECKS).await.unwrap().is_sound());
}

#[tokio::test]
async fn a_loop_with_pruning_stays_small_and_comes_to_the_same() {
    let store = Store::open(StoreSettings::in_memory(), Ambient::system(), &[MIGRATIONS]).await.unwrap();
    let runtime = Runtime::new(store.clone(), Ambient::system());
    let graph = looping(2_000);
    let keep = Retention { keep_last: Some(20), ..Retention::default() };
    for count in (100..2_000).step_by(100) {
        let options = until(count);
        let outcome = runtime.run(&graph, &scope(), &thread(), Words::default(), options).await.unwrap();
        assert!(matches!(outcome, Outcome::Stopped(_)), "{outcome:?}");
        runtime.prune(&graph, &single(), &keep).await.unwrap();
        let rows = store.read(|read| {
            let sql = "SELECT (SELECT count(*) FROM checkpoints) + (SELECT count(*) FROM snapshots)";
            read.query_one(sql, &[], |row| row.get::<u64>(0))
        });
        let rows = rows.await.map_err(|error: StoreError| error).unwrap();
        assert!(rows <= 22, "{rows}");
    }
    let options = RunOptions::default();
    let state = completed(runtime.run(&graph, &scope(), &thread(), Words::default(), options).await.unwrap());
    assert_eq!(state.words, (1..=2_000).map(|n| format!("w{n}")).collect::<Vec<_>>());
    assert!(store.verify(CHECKS).await.unwrap().is_sound());
}

#[tokio::test]
async fn finished_executions_go_by_age_thread_and_status_and_the_newest_stays() {
    let dir = tempfile::tempdir().unwrap();
    let world = world(dir.path()).await;
    let (runtime, graph) = (&world.runtime, looping(3));
    for _ in 0..3 {
        completed(world.run(&graph).await);
    }
    let ages = |ms| Retention { finished_max_age: Some(Duration::from_millis(ms)), ..Retention::default() };
    assert_eq!(runtime.prune(&graph, &single(), &ages(3_600_000)).await.unwrap(), Pruned::default());
    let ended = runtime.find(&single(), &thread()).await.unwrap().unwrap().closed_at.unwrap();
    while Ambient::system().clock.now().0 <= ended.0 + 1 {
        tokio::task::yield_now().await;
    }
    let elsewhere = Retention { threads: Some(vec!["thread_9".parse().unwrap()]), ..ages(1) };
    assert_eq!(runtime.prune(&graph, &single(), &elsewhere).await.unwrap(), Pruned::default());
    let others = Retention { statuses: Some(vec![longhaul_durable::Status::Failed]), ..ages(1) };
    assert_eq!(runtime.prune(&graph, &single(), &others).await.unwrap(), Pruned::default());
    assert_eq!(runtime.prune(&graph, &single(), &ages(1)).await.unwrap().executions, 2);
    let left = runtime.branches(&single(), &thread()).await.unwrap();
    assert_eq!(left.len(), 1);
    let aged = Retention { max_age: Some(Duration::from_millis(1)), ..Retention::default() };
    assert_eq!(runtime.prune(&graph, &single(), &aged).await.unwrap().checkpoints, 3);
    let state: Words = runtime.state(&single(), &thread()).await.unwrap().unwrap();
    assert_eq!(state.count, 3);
    assert!(world.store.verify(CHECKS).await.unwrap().is_sound());
}

//! Looking back, and going on from there.

use longhaul_core::Scope;
use longhaul_durable::{Checkpoint, DurableError, END, Graph, GraphBuilder, Outcome, RunOptions, START, Status};
use std::sync::Arc;

use crate::support::{Words, World, completed, scope, thread, world};

/// Adds "1", "2", "3" in three supersteps.
fn counting() -> Graph<Words> {
    GraphBuilder::new("counting", 1)
        .node("count", |_, state: Arc<Words>| async move { Ok(vec![(state.count + 1).to_string()]) })
        .edge(START, "count")
        .branch("count", &["count", END], |state| if state.count < 3 { "count" } else { END })
        .build()
        .unwrap()
}

async fn counted(world: &World) -> longhaul_core::ExecutionId {
    completed(world.run(&counting()).await);
    world.runtime.find(&Scope::single_user(), &thread()).await.unwrap().unwrap().id
}

#[tokio::test]
async fn every_checkpoint_can_be_seen_again() {
    let dir = tempfile::tempdir().unwrap();
    let world = world(dir.path()).await;
    let execution = counted(&world).await;
    let scope = Scope::single_user();
    let history = world.runtime.history(&scope, &thread(), 100).await.unwrap();
    let next = |c: &Checkpoint| c.position.frontier.iter().map(|task| task.node.to_string()).collect::<Vec<_>>();
    let seen: Vec<_> = history.iter().map(|c| (c.superstep, c.nodes[0].as_str(), next(c).concat())).collect();
    let count = || "count".to_owned();
    assert_eq!(seen, [(3, "count", String::new()), (2, "count", count()), (1, "count", count()), (0, START, count())]);
    assert_eq!(world.runtime.history(&scope, &thread(), 2).await.unwrap(), history[..2]);
    for (superstep, expected) in [(0, &[][..]), (1, &["1"]), (2, &["1", "2"]), (3, &["1", "2", "3"])] {
        let state: Words = world.runtime.state_at(&scope, &execution, superstep).await.unwrap();
        assert_eq!(state, Words::of(expected));
    }
    let missing = world.runtime.state_at::<Words>(&scope, &execution, 4).await;
    assert!(matches!(missing, Err(DurableError::NoCheckpoint { superstep: 4, .. })), "{missing:?}");
    let stranger = Scope { user: "user_other".parse().unwrap(), ..scope };
    let hidden = world.runtime.state_at::<Words>(&stranger, &execution, 1).await;
    assert!(matches!(hidden, Err(DurableError::NoExecution { .. })), "{hidden:?}");
    assert_eq!(world.runtime.history(&stranger, &thread(), 100).await.unwrap(), []);
}

#[tokio::test]
async fn a_fork_goes_its_own_way_and_leaves_its_origin_alone() {
    let dir = tempfile::tempdir().unwrap();
    let world = world(dir.path()).await;
    let execution = counted(&world).await;
    let other = "thread_2".parse().unwrap();
    let fork = world.runtime.fork::<Words>(&scope(), &execution, 1, &other).await.unwrap();
    assert_eq!((fork.status, fork.forked_from), (Status::Stopped, Some(format!("{execution}@1"))));
    // On the fork the next word is another one.
    let graph = GraphBuilder::new("counting", 1)
        .node("count", |_, _: Arc<Words>| async { Ok(vec!["other".to_owned()]) })
        .edge(START, "count")
        .branch("count", &["count", END], |state| if state.count < 3 { "count" } else { END })
        .build()
        .unwrap();
    let run = world.runtime.run(&graph, &scope(), &other, Words::default(), RunOptions::default()).await.unwrap();
    assert_eq!(completed(run), Words::of(&["1", "other", "other"]));
    let origin: Words = world.runtime.state(&Scope::single_user(), &thread()).await.unwrap().unwrap();
    assert_eq!(origin, Words::of(&["1", "2", "3"]));
    let taken = world.runtime.fork::<Words>(&scope(), &execution, 1, &other).await;
    assert!(matches!(taken, Err(DurableError::ThreadTaken { .. })), "{taken:?}");
    // From the last checkpoint there is nothing left to do.
    let last = "thread_3".parse().unwrap();
    let done = world.runtime.fork::<Words>(&scope(), &execution, 3, &last).await.unwrap();
    assert_eq!(done.status, Status::Completed);
}

#[tokio::test]
async fn a_state_that_cannot_be_rebuilt_is_an_error_and_not_another_state() {
    let dir = tempfile::tempdir().unwrap();
    let world = world(dir.path()).await;
    let stop: RunOptions<Words> =
        RunOptions { stop_when: Some(Arc::new(|state: &Words| state.count == 2)), ..RunOptions::default() };
    assert!(matches!(world.run_with(&counting(), stop).await, Outcome::Stopped(state) if state.count == 2));
    world
        .store
        .write(|tx| tx.execute("UPDATE checkpoints SET data = '[[[\"9\"]]]' WHERE superstep = 1", &[]))
        .await
        .unwrap();
    let run = world.runtime.run(&counting(), &scope(), &thread(), Words::default(), RunOptions::default()).await;
    assert!(matches!(run, Err(DurableError::Damaged { superstep: 1, .. })), "{run:?}");
}

#[tokio::test]
async fn appending_costs_what_is_appended() {
    let dir = tempfile::tempdir().unwrap();
    let world = world(dir.path()).await;
    let graph = GraphBuilder::new("long", 1)
        .node("append", |_, _: Arc<Words>| async { Ok(vec!["x".repeat(200)]) })
        .edge(START, "append")
        .branch("append", &["append", END], |state| if state.count < 200 { "append" } else { END })
        .build()
        .unwrap();
    completed(world.run(&graph).await);
    let stored = world.store.read(|read| {
        read.query_one("SELECT sum(length(data)), max(length(data)) FROM checkpoints", &[], |row| {
            Ok((row.get::<i64>(0)?, row.get::<i64>(1)?))
        })
    });
    let (total, largest) = stored.await.map_err(|error: longhaul_store::StoreError| error).unwrap();
    assert!(total < 200 * 210 && largest < 210, "{total} {largest}");
}

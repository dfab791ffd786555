//! What stands in the store, and what becomes of it when the world around it is not as it should be.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use longhaul_core::{Ambient, Clock, Digest, SeededRng, TimeMs};
use longhaul_durable::{
    DurableError, END, Effect, Flow, Graph, GraphBuilder, MIGRATIONS, NodeError, Outcome, RunOptions, Runtime, START,
    Send, StopWhen,
};
use longhaul_store::{Faults, Migrations, Store, StoreError, StoreSettings, values};

use crate::support::{Words, completed, failure, scope, thread, world};

/// Adds a recorded word a superstep, up to so many.
fn adding(to: u64) -> Graph<Words> {
    GraphBuilder::<Words>::new("adding", 1)
        .node("add", |ctx, state: Arc<Words>| async move {
            let n = state.count;
            Ok(vec![ctx.step("word", Effect::Pure, async move { Ok(format!("w{n}")) }).await?])
        })
        .edge(START, "add")
        .branch("add", &["add", END], move |state| if state.count < to { "add" } else { END })
        .build()
        .unwrap()
}

fn until(count: u64) -> RunOptions<Words> {
    let stop: StopWhen<Words> = Arc::new(move |state| state.count >= count);
    RunOptions { stop_when: Some(stop), ..RunOptions::default() }
}

fn words(count: u64) -> Vec<String> {
    (0..count).map(|n| format!("w{n}")).collect()
}

/// An execution as the first release left it: at superstep 2 of 4, with the third's step recorded.
async fn left_by_the_first_release(dir: &std::path::Path, graph: &Graph<Words>) {
    const FIRST: Migrations = Migrations { component: "durable", steps: MIGRATIONS.steps.split_at(1).0 };
    let store = Store::open(StoreSettings::new(dir), Ambient::system(), &[FIRST]).await.unwrap();
    // As the first release took it.
    let parts = ["adding", "1", "add", START, "edge", "add", "add", "branch", "add", END];
    assert_eq!(graph.shape().name, parts[0]);
    let parts = match graph.shape().ways.keys().next() {
        Some(first) if **first == *START => parts.to_vec(),
        _ => panic!("ways are sorted"),
    };
    let fingerprint = Digest::of_parts(parts.iter().map(|part| part.as_bytes())).to_string();
    let state = |words: &[&str]| {
        let mut state = serde_json::to_value(Words::of(words)).unwrap();
        state.sort_all_objects();
        (words.len(), Digest::of(state.to_string()).to_string())
    };
    let (states, thread) = ([state(&[]), state(&["w0"]), state(&["w0", "w1"])], thread());
    let written = store.write(move |tx| {
        tx.execute(
            "INSERT INTO executions (tenant_id, execution_id, user_id, session_id, task_id, trace_id, v, thread_id,
                 graph, graph_version, fingerprint, status, error, forked_from, started_at, updated_at)
             VALUES ('tenant_default', 'exec_1', 'user_default', 'sess_1', 'task_1', 'trace_1', 1, ?1, 'adding', 1, ?2,
                 'stopped', NULL, NULL, 7, 8)",
            &values![&thread, fingerprint],
        )?;
        for (superstep, digest) in states {
            let (node, form, data) = match superstep {
                0 => (START, "full", r#"{"words":[],"count":0}"#.to_owned()),
                n => ("add", "delta", format!(r#"["w{}"]"#, n - 1)),
            };
            tx.execute(
                "INSERT INTO checkpoints (tenant_id, execution_id, superstep, v, node, next, form, data, digest, at)
                 VALUES ('tenant_default', 'exec_1', ?1, 1, ?2, 'add', ?3, ?4, ?5, 7)",
                &values![superstep, node, form, data, digest],
            )?;
        }
        tx.execute(
            "INSERT INTO steps (tenant_id, execution_id, superstep, node, ordinal, v, name, effect, result, at)
             VALUES ('tenant_default', 'exec_1', 3, 'add', 1, 1, 'word', 'pure', '\"recorded\"', 7)",
            &[],
        )
    });
    written.await.map_err(|error: StoreError| error).unwrap();
}

#[tokio::test]
async fn an_execution_of_the_first_release_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let graph = adding(4);
    left_by_the_first_release(dir.path(), &graph).await;
    let world = world(dir.path()).await;
    let before: Words = world.runtime.state(&scope().scope, &thread()).await.unwrap().unwrap();
    assert_eq!(before, Words::of(&["w0", "w1"]));
    assert_eq!(completed(world.run(&graph).await), Words::of(&["w0", "w1", "recorded", "w3"]));
    let after: Words = world.runtime.state(&scope().scope, &thread()).await.unwrap().unwrap();
    assert_eq!(after.words[2], "recorded");
    let history = world.runtime.history(&scope().scope, &thread(), 10).await.unwrap();
    let first = &history[4];
    assert_eq!((history.len(), &*first.position.frontier[0].node), (5, "add"));
}

#[tokio::test]
async fn an_execution_of_the_first_release_whose_state_is_another_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let graph = adding(4);
    left_by_the_first_release(dir.path(), &graph).await;
    let world = world(dir.path()).await;
    let change = "UPDATE checkpoints SET data = '[\"w9\"]' WHERE superstep = 1";
    world.store.write(|tx| tx.execute(change, &[])).await.map_err(|error: StoreError| error).unwrap();
    let run = world.runtime.run(&graph, &scope(), &thread(), Words::default(), RunOptions::default()).await;
    assert!(matches!(run, Err(DurableError::Diverged { superstep: 2, .. })), "{run:?}");
}

#[tokio::test]
async fn whatever_is_changed_in_a_checkpoint_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let world = world(dir.path()).await;
    let graph = adding(4);
    assert!(matches!(world.run_with(&graph, until(3)).await, Outcome::Stopped(_)));
    for (damage, repair) in [
        ("UPDATE checkpoints SET frontier = '{\"s\":3}' WHERE superstep = 3", true),
        ("UPDATE checkpoints SET form = 'edited' WHERE superstep = 2", true),
        ("DELETE FROM checkpoints WHERE superstep = 2", false),
    ] {
        let saved = "CREATE TABLE saved AS SELECT * FROM checkpoints";
        let change = |sql: &'static str| {
            let store = world.store.clone();
            async move { store.write(move |tx| tx.execute(sql, &[])).await.map_err(|error: StoreError| error).unwrap() }
        };
        change(saved).await;
        assert!(change(damage).await > 0);
        let run = world.runtime.run(&graph, &scope(), &thread(), Words::default(), RunOptions::default()).await;
        assert!(matches!(run, Err(DurableError::Damaged { .. })), "{damage}: {run:?}");
        let state = world.runtime.state::<Words>(&scope().scope, &thread()).await;
        assert!(matches!(state, Err(DurableError::Damaged { .. })), "{damage}: {state:?}");
        if repair {
            change("DELETE FROM checkpoints").await;
            change("INSERT INTO checkpoints SELECT * FROM saved").await;
        }
        change("DROP TABLE saved").await;
    }
}

#[tokio::test]
async fn a_long_thread_is_read_from_its_snapshot() {
    let store = Store::open(StoreSettings::in_memory(), Ambient::system(), &[MIGRATIONS]).await.unwrap();
    let runtime = Runtime::new(store.clone(), Ambient::system());
    let options = until(1_500);
    let outcome = runtime.run(&adding(2_000), &scope(), &thread(), Words::default(), options).await.unwrap();
    assert!(matches!(outcome, Outcome::Stopped(_)), "{outcome:?}");
    let read = store.read(|read| {
        read.query("SELECT superstep, length(state) FROM snapshots", &[], |row| {
            Ok((row.get::<u64>(0)?, row.get::<u64>(1)?))
        })
    });
    let snapshots = read.await.map_err(|error: StoreError| error).unwrap();
    let [(superstep, _)] = snapshots[..] else { panic!("{snapshots:?}") };
    assert!(superstep > 1_000, "{superstep}");
    let state: Words = runtime.state(&scope().scope, &thread()).await.unwrap().unwrap();
    assert_eq!(state.words, words(1_500));
    let options = RunOptions::default();
    let outcome = runtime.run(&adding(2_000), &scope(), &thread(), Words::default(), options).await.unwrap();
    assert_eq!(completed(outcome).words, words(2_000));
    let early: Words = {
        let execution = runtime.find(&scope().scope, &thread()).await.unwrap().unwrap().id;
        runtime.state_at(&scope().scope, &execution, 3).await.unwrap()
    };
    assert_eq!(early.words, words(3));
}

#[tokio::test]
async fn a_step_that_returns_another_type_on_replay_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let world = world(dir.path()).await;
    let graph = |as_number: bool| {
        GraphBuilder::<Words>::new("typed", 1)
            .node("read", move |ctx, _| async move {
                let word = if as_number {
                    ctx.step("value", Effect::Pure, async { Ok(7_u64) }).await?.to_string()
                } else {
                    ctx.step("value", Effect::Pure, async { Ok("seven".to_owned()) }).await?
                };
                if as_number { Ok(vec![word]) } else { Err(NodeError::gave_up(io::Error::other("stop"))) }
            })
            .edge(START, "read")
            .edge("read", END)
            .build()
            .unwrap()
    };
    failure(world.run(&graph(false)).await);
    let error = failure(world.run(&graph(true)).await);
    assert!(error.contains("read/1/value#1 is not what its type can be written to and read from"), "{error}");
    // Nothing is lost: the code that recorded it still finds it.
    assert!(failure(world.run(&graph(false)).await).ends_with("stop"));
}

#[derive(Debug)]
struct Hands(AtomicI64);

impl Clock for Hands {
    fn now(&self) -> TimeMs {
        TimeMs(self.0.load(Ordering::SeqCst))
    }
}

#[tokio::test]
async fn a_clock_that_is_put_back_changes_nothing() {
    let hands = Arc::new(Hands(AtomicI64::new(1_000_000_000)));
    let ambient = Ambient::new(hands.clone(), Arc::new(SeededRng::new(7)));
    let store = Store::open(StoreSettings::in_memory(), ambient.clone(), &[MIGRATIONS]).await.unwrap();
    let runtime = Runtime::new(store, ambient);
    let run = |graph: Graph<Words>, options| {
        let runtime = runtime.clone();
        async move { runtime.run(&graph, &scope(), &thread(), Words::default(), options).await.unwrap() }
    };
    assert!(matches!(run(adding(3), until(1)).await, Outcome::Stopped(_)));
    hands.0.store(1_000, Ordering::SeqCst);
    assert_eq!(completed(run(adding(3), RunOptions::default()).await).words, words(3));
    // The newest execution is the one that began last.
    let first = runtime.find(&scope().scope, &thread()).await.unwrap().unwrap().id;
    assert_eq!(completed(run(adding(5), RunOptions::default()).await).words, words(5));
    let second = runtime.find(&scope().scope, &thread()).await.unwrap().unwrap().id;
    assert_ne!(first, second);
    let state: Words = runtime.state(&scope().scope, &thread()).await.unwrap().unwrap();
    assert_eq!(state.words, words(5));
}

/// Splits, works in parallel, joins; the store dies at each commit in turn.
#[tokio::test]
async fn parallel_tasks_survive_a_death_at_any_commit() {
    let graph = || {
        GraphBuilder::<Words>::new("parallel", 1)
            .node("split", |_, _| async { Ok(Flow::nothing()) })
            .node_with_input("work", |ctx, _, n: u64| async move {
                // Tasks end one after the other, so that some have rows when others have not.
                for _ in 0..n {
                    ctx.step("turn", Effect::Pure, async { Ok(()) }).await?;
                }
                Ok(vec![format!("w{n}")])
            })
            .node("join", |_, state: Arc<Words>| async move { Ok(vec![format!("of {}", state.count)]) })
            .edge(START, "split")
            .fan_out("split", &["work"], |_| (0..5_u64).map(|n| Send::new("work", &n)).collect())
            .edge("work", "join")
            .edge("join", END)
            .build()
            .unwrap()
    };
    let expected = Words::of(&["w0", "w1", "w2", "w3", "w4", "of 5"]);
    for death in 0.. {
        let faults = Faults::new();
        let settings = StoreSettings::in_memory();
        let store = Store::open_with_faults(settings, Ambient::system(), &[MIGRATIONS], faults.clone()).await.unwrap();
        let runtime = Runtime::new(store, Ambient::system());
        let run = || {
            let (runtime, graph) = (runtime.clone(), graph());
            async move { runtime.run(&graph, &scope(), &thread(), Words::default(), RunOptions::default()).await }
        };
        faults.die_after(death);
        match run().await {
            Ok(outcome) => {
                assert_eq!(completed(outcome), expected);
                assert!(death > 10, "only {death} commits");
                break;
            }
            Err(error) => assert!(matches!(error, DurableError::Store(StoreError::Killed { .. })), "{error:?}"),
        }
        faults.revive();
        let state = run().await.unwrap_or_else(|error| panic!("after death {death}: {error}"));
        assert_eq!(completed(state), expected, "after death {death}");
        let stored: Words = runtime.state(&scope().scope, &thread()).await.unwrap().unwrap();
        assert_eq!(stored, expected, "after death {death}");
    }
}

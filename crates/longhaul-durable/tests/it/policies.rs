//! Retries, limits of time, the cache; ending a run from outside; drains; probes.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use longhaul_durable::{
    CacheKey, END, Effect, Graph, GraphBuilder, Key, News, NodeContext, NodeError, NodePolicy, Outcome, Probed,
    Resources, Retry, RunOptions, START, Status, StepError,
};
use tokio::sync::Notify;

use crate::support::{Done, Words, completed, failure, scope, thread, world};

fn single<F, R>(code: F, policy: NodePolicy) -> Graph<Words>
where
    F: Fn(NodeContext, Arc<Words>) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Vec<String>, NodeError>> + Send + 'static,
{
    GraphBuilder::<Words>::new("single", 1)
        .node("node", code)
        .policy("node", policy)
        .edge(START, "node")
        .edge("node", END)
        .build()
        .unwrap()
}

const QUICK: fn() -> Retry = || Retry { first_ms: 1, jitter: false, ..Retry::default() };

#[tokio::test]
async fn a_node_is_tried_again_and_its_recorded_steps_are_not_done_again() {
    let dir = tempfile::tempdir().unwrap();
    let world = world(dir.path()).await;
    let graph = |failures: u32| {
        let (done, left) = (world.done.clone(), Arc::new(AtomicU32::new(failures)));
        let code = move |ctx: NodeContext, _| {
            let (done, left) = (done.clone(), left.clone());
            async move {
                let first = ctx.step("first", Effect::Pure, async {
                    done.add("first");
                    Ok("one".to_owned())
                });
                let first = first.await?;
                let second: String = ctx
                    .step("second", Effect::Pure, async {
                        done.add("second");
                        let fails = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok();
                        if fails { Err(io::Error::other("busy").into()) } else { Ok("two".to_owned()) }
                    })
                    .await?;
                Ok(vec![first, second, ctx.attempt().to_string()])
            }
        };
        single(code, NodePolicy::new().retry(QUICK()))
    };
    assert!(failure(world.run(&graph(3)).await).ends_with("second#2 failed: busy"));
    assert_eq!(world.done.take(), ["first", "second", "second", "second"]);
    assert_eq!(completed(world.run(&graph(2)).await), Words::of(&["one", "two", "3"]));
    assert_eq!(world.done.take(), ["second", "second", "second"]);
}

#[tokio::test]
async fn an_act_that_may_have_happened_is_not_tried_again() {
    let dir = tempfile::tempdir().unwrap();
    let world = world(dir.path()).await;
    let done = world.done.clone();
    let code = move |ctx: NodeContext, _| {
        let done = done.clone();
        async move {
            let sent = ctx.step::<String, _>("send", Effect::Once, async {
                done.add("send");
                Err(io::Error::other("timed out").into())
            });
            Ok(vec![sent.await?])
        }
    };
    let outcome = world.run(&single(code, NodePolicy::new().retry(QUICK()))).await;
    let Outcome::NeedsReconcile(pending) = outcome else { panic!("{outcome:?}") };
    assert_eq!((pending.len(), world.done.take().len()), (1, 1));
}

#[tokio::test]
async fn limits_of_time_end_an_attempt() {
    let dir = tempfile::tempdir().unwrap();
    let world = world(dir.path()).await;
    let slow = |beats: u64| {
        move |ctx: NodeContext, _: Arc<Words>| async move {
            for _ in 0..beats {
                tokio::time::sleep(Duration::from_millis(5)).await;
                ctx.heartbeat();
            }
            if beats == 0 { std::future::pending().await } else { Ok(vec!["done".to_owned()]) }
        }
    };
    let hard = NodePolicy::new().timeout(Duration::from_millis(20));
    let error = failure(world.run(&single(slow(0), hard.clone())).await);
    assert!(error.contains("node took longer than 20 ms"), "{error}");
    let idle = NodePolicy::new().idle_timeout(Duration::from_millis(1_000));
    // Longer than the limit altogether would be too slow a test; what counts is that signs of life move it.
    let silent = NodePolicy::new().idle_timeout(Duration::from_millis(20));
    let error = failure(world.run(&single(slow(0), silent)).await);
    assert!(error.contains("without a sign of life"), "{error}");
    assert_eq!(completed(world.run(&single(slow(4), idle)).await), Words::of(&["done"]));
}

#[tokio::test]
async fn a_limit_of_time_beyond_all_clocks_is_none() {
    let dir = tempfile::tempdir().unwrap();
    let world = world(dir.path()).await;
    let endless = NodePolicy::new().timeout(Duration::MAX).idle_timeout(Duration::MAX);
    let graph = single(
        |_, _| async {
            tokio::task::yield_now().await;
            Ok(vec!["done".to_owned()])
        },
        endless,
    );
    assert_eq!(completed(world.run(&graph).await), Words::of(&["done"]));
}

#[tokio::test]
async fn a_subgraph_that_took_too_long_is_gone_on_with_by_the_next_attempt() {
    let dir = tempfile::tempdir().unwrap();
    let world = world(dir.path()).await;
    let done = world.done.clone();
    let hangs = Arc::new(AtomicU32::new(1));
    let inner = GraphBuilder::<Words>::new("inner", 1)
        .node("split", |_, _| async { Ok(longhaul_durable::Flow::nothing()) })
        .node_with_input("work", move |ctx, _, n: u64| {
            let (done, hangs) = (done.clone(), hangs.clone());
            async move {
                let step = ctx.step("work", Effect::Pure, async {
                    done.add(n.to_string());
                    Ok(())
                });
                step.await?;
                if n == 2 && hangs.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok() {
                    std::future::pending::<()>().await;
                }
                Ok(vec![n.to_string()])
            }
        })
        .edge(START, "split")
        .fan_out("split", &["work"], |_| (0..4_u64).map(|n| longhaul_durable::Send::new("work", &n)).collect())
        .edge("work", END)
        .build()
        .unwrap();
    let graph = GraphBuilder::<Words>::new("outer", 1)
        .subgraph("inner", inner, |_: &Words| Words::default(), |inner: Words| inner.words)
        .policy("inner", NodePolicy::new().timeout(Duration::from_millis(300)).retry(QUICK()))
        .edge(START, "inner")
        .edge("inner", END)
        .build()
        .unwrap();
    assert_eq!(completed(world.run(&graph).await), Words::of(&["0", "1", "2", "3"]));
    let mut steps = world.done.take();
    steps.sort();
    assert_eq!(steps, ["0", "1", "2", "3"]);
}

#[tokio::test(start_paused = true)]
async fn signs_of_life_keep_an_attempt_alive() {
    let runtime = longhaul_durable::Runtime::ephemeral(longhaul_core::Ambient::system());
    let policy = NodePolicy::new().idle_timeout(Duration::from_secs(10));
    let graph = single(
        |ctx, _| async move {
            for _ in 0..20 {
                tokio::time::sleep(Duration::from_secs(9)).await;
                ctx.heartbeat();
            }
            Ok(vec!["alive".to_owned()])
        },
        policy,
    );
    let outcome = runtime.run(&graph, &scope(), &thread(), Words::default(), RunOptions::default()).await.unwrap();
    assert_eq!(completed(outcome), Words::of(&["alive"]));
}

#[tokio::test]
async fn a_cached_answer_is_given_without_running_the_node() {
    let dir = tempfile::tempdir().unwrap();
    let world = world(dir.path()).await;
    let graph = |ttl_ms: u64| {
        let done = world.done.clone();
        let code = move |_: NodeContext, state: Arc<Words>| {
            let done = done.clone();
            async move {
                done.add("ran");
                Ok(vec![format!("after {}", state.count)])
            }
        };
        single(code, NodePolicy::new().cache(CacheKey::State, Duration::from_millis(ttl_ms)))
    };
    for _ in 0..2 {
        assert_eq!(completed(world.run(&graph(60_000)).await), Words::of(&["after 0"]));
    }
    assert_eq!(world.done.take(), ["ran"]);
    let other = Words::of(&["x"]);
    let options = RunOptions::default();
    let outcome = world.runtime.run(&graph(0), &scope(), &thread(), other.clone(), options.clone()).await.unwrap();
    assert_eq!(completed(outcome), Words::of(&["x", "after 1"]));
    // With no time to live nothing is found again.
    completed(world.runtime.run(&graph(0), &scope(), &thread(), other, options).await.unwrap());
    assert_eq!(world.done.take(), ["ran", "ran"]);
}

/// Does one step and then waits for ever.
fn endless(done: &Done, begun: &Arc<Notify>) -> Graph<Words> {
    let (done, begun) = (done.clone(), begun.clone());
    let code = move |ctx: NodeContext, _| {
        let (done, begun) = (done.clone(), begun.clone());
        async move {
            let step = ctx.step("once", Effect::Pure, async {
                done.add("once");
                Ok(())
            });
            step.await?;
            begun.notify_one();
            std::future::pending::<Result<Vec<String>, NodeError>>().await
        }
    };
    single(code, NodePolicy::new())
}

#[tokio::test]
async fn another_process_cancels_an_execution_for_good() {
    let dir = tempfile::tempdir().unwrap();
    let world = world(dir.path()).await;
    let other = crate::support::world(dir.path()).await;
    let begun = Arc::new(Notify::new());
    let graph = endless(&world.done, &begun);
    let running = {
        let (runtime, graph) = (world.runtime.clone(), graph.clone());
        tokio::spawn(async move {
            runtime.run(&graph, &scope(), &thread(), Words::default(), RunOptions::default()).await.unwrap()
        })
    };
    begun.notified().await;
    assert!(other.runtime.cancel(&scope().scope, &thread(), "ada", "too late").await.unwrap());
    let outcome = running.await.unwrap();
    assert!(matches!(outcome, Outcome::Cancelled), "{outcome:?}");
    let execution = other.runtime.find(&scope().scope, &thread()).await.unwrap().unwrap();
    assert_eq!((execution.status, execution.cancel.unwrap().by), (Status::Cancelled, "ada".to_owned()));
    // What was recorded is kept, and the thread is free.
    assert_eq!(world.recorded().await, ["node/1/once#1"]);
    assert!(!other.runtime.cancel(&scope().scope, &thread(), "ada", "again").await.unwrap());
}

#[tokio::test]
async fn what_waits_is_cancelled_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let world = world(dir.path()).await;
    let code = |ctx: NodeContext, _| async move {
        ctx.pause_for::<bool>(longhaul_durable::Wait::approval("?")).await?;
        Ok(Vec::new())
    };
    let graph = single(code, NodePolicy::new());
    let outcome = world.run(&graph).await;
    let Outcome::Waiting(waits) = outcome else { panic!("{outcome:?}") };
    assert!(world.runtime.cancel(&scope().scope, &thread(), "ada", "no").await.unwrap());
    let wait = world.runtime.wait(&scope().scope, &waits[0].id).await.unwrap();
    assert_eq!(wait.status, longhaul_durable::WaitStatus::Cancelled);
    let status = world.runtime.find(&scope().scope, &thread()).await.unwrap().unwrap().status;
    assert_eq!(status, Status::Cancelled);
}

#[tokio::test]
async fn a_drain_does_not_wait_for_the_next_attempt() {
    let dir = tempfile::tempdir().unwrap();
    let world = world(dir.path()).await;
    let failing = Arc::new(AtomicBool::new(true));
    let fails = failing.clone();
    let node = move |_: NodeContext, _: Arc<Words>| {
        let fails = fails.load(Ordering::SeqCst);
        async move { if fails { Err(NodeError::gave_up(io::Error::other("busy"))) } else { Ok(vec!["x".to_owned()]) } }
    };
    let hour = Retry { first_ms: 3_600_000, max_ms: 3_600_000, jitter: false, ..Retry::default() };
    let graph = single(node, NodePolicy::new().retry(hour));
    let mut news = world.runtime.progress();
    let running = {
        let (runtime, graph) = (world.runtime.clone(), graph.clone());
        tokio::spawn(async move {
            runtime.run(&graph, &scope(), &thread(), Words::default(), RunOptions::default()).await.unwrap()
        })
    };
    while !matches!(news.recv().await.unwrap().news, News::NodeRetried { .. }) {}
    let drained = tokio::time::timeout(Duration::from_secs(60), world.runtime.drain()).await;
    assert!(drained.is_ok(), "the drain waits for an attempt in an hour");
    let outcome = running.await.unwrap();
    assert!(matches!(outcome, Outcome::Stopped(_)), "{outcome:?}");
    failing.store(false, Ordering::SeqCst);
    let again = longhaul_durable::Runtime::new(world.store.clone(), longhaul_core::Ambient::system());
    let outcome = again.run(&graph, &scope(), &thread(), Words::default(), RunOptions::default()).await.unwrap();
    assert_eq!(completed(outcome).words, ["x"]);
}

#[tokio::test]
async fn a_drain_finishes_the_superstep_and_begins_nothing_new() {
    let dir = tempfile::tempdir().unwrap();
    let world = world(dir.path()).await;
    let (begun, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (told, waits) = (begun.clone(), go.clone());
    let graph = GraphBuilder::<Words>::new("long", 1)
        .node("add", move |_, _| {
            let (told, waits) = (told.clone(), waits.clone());
            async move {
                told.notify_one();
                waits.notified().await;
                Ok(vec!["x".to_owned()])
            }
        })
        .edge(START, "add")
        .branch("add", &["add", END], |state| if state.count < 10 { "add" } else { END })
        .build()
        .unwrap();
    let running = {
        let (runtime, graph) = (world.runtime.clone(), graph.clone());
        tokio::spawn(async move {
            runtime.run(&graph, &scope(), &thread(), Words::default(), RunOptions::default()).await.unwrap()
        })
    };
    begun.notified().await;
    let draining = tokio::spawn({
        let runtime = world.runtime.clone();
        async move { runtime.drain().await }
    });
    tokio::task::yield_now().await;
    go.notify_one();
    let outcome = running.await.unwrap();
    assert!(matches!(&outcome, Outcome::Stopped(state) if state.count == 1), "{outcome:?}");
    draining.await.unwrap();
    let refused =
        world.runtime.run(&graph, &scope(), &thread(), Words::default(), RunOptions::default()).await.unwrap_err();
    assert!(matches!(refused, longhaul_durable::DurableError::Draining));
}

#[tokio::test]
async fn a_probe_says_what_became_of_an_act() {
    for (found, acts, expected) in [
        (Probed::Happened("found".to_owned()), 1, Ok("found")),
        (Probed::DidNotHappen, 2, Ok("sent")),
        (Probed::Unknown, 1, Err(())),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let world = world(dir.path()).await;
        let graph = |dies: bool| {
            let (done, found) = (world.done.clone(), found.clone());
            let code = move |ctx: NodeContext, _| {
                let (done, found) = (done.clone(), found.clone());
                async move {
                    let work = async {
                        done.add("act");
                        if dies { Err(StepError::from(io::Error::other("cut"))) } else { Ok("sent".to_owned()) }
                    };
                    Ok(vec![ctx.step_probed("send", async { Ok(found) }, work).await?])
                }
            };
            single(code, NodePolicy::new())
        };
        failure(world.run(&graph(true)).await);
        let outcome = world.run(&graph(false)).await;
        match expected {
            Ok(word) => assert_eq!(completed(outcome), Words::of(&[word])),
            Err(()) => assert!(matches!(&outcome, Outcome::NeedsReconcile(pending) if pending[0].probe), "{outcome:?}"),
        }
        assert_eq!(world.done.take().len(), acts);
    }
}

#[tokio::test]
async fn objects_of_one_type_are_told_apart_by_their_keys() {
    const FIRST: Key<str> = Key::new("first");
    const SECOND: Key<str> = Key::new("second");
    let dir = tempfile::tempdir().unwrap();
    let world = world(dir.path()).await;
    let code = |ctx: NodeContext, _| async move {
        let words = [ctx.resources().get_key(&FIRST)?, ctx.resources().get_key(&SECOND)?];
        Ok(words.iter().map(ToString::to_string).collect())
    };
    let graph = single(code, NodePolicy::new());
    let resources = Resources::new().with_key(&FIRST, "one".into());
    let error =
        failure(world.run_with(&graph, RunOptions { resources: resources.clone(), ..RunOptions::default() }).await);
    assert!(error.contains("the run was given no second (str)"), "{error}");
    let resources = resources.with_key(&SECOND, "two".into());
    let state = completed(world.run_with(&graph, RunOptions { resources, ..RunOptions::default() }).await);
    assert_eq!(state, Words::of(&["one", "two"]));
}

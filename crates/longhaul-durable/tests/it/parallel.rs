//! Several tasks in one superstep, and graphs within graphs: what has finished never runs again.

use std::{
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use longhaul_core::Ambient;
use longhaul_durable::{
    END, Effect, Flow, Graph, GraphBuilder, MIGRATIONS, NodeError, Outcome, RunOptions, Runtime, START, Send,
};
use longhaul_store::{Faults, Store, StoreSettings};

use crate::support::{Done, Words, completed, failure, scope, thread, world};

fn gave_up() -> NodeError {
    NodeError::gave_up(io::Error::other("planned"))
}

/// Splits into `width` tasks of one step each; those of `failing` fail after their step.
fn fan(done: &Done, width: u64, failing: &Arc<Mutex<Vec<u64>>>) -> Graph<Words> {
    let (done, failing) = (done.clone(), failing.clone());
    GraphBuilder::<Words>::new("fan", 1)
        .node("split", |_, _| async { Ok(Flow::nothing()) })
        .node_with_input("work", move |ctx, _, n: u64| {
            let (done, failing) = (done.clone(), failing.clone());
            async move {
                let word: String = ctx
                    .step("work", Effect::Pure, async {
                        done.add(format!("step {n}"));
                        Ok(format!("w{n}"))
                    })
                    .await?;
                done.add(format!("end {n}"));
                if failing.lock().unwrap().contains(&n) { Err(gave_up()) } else { Ok(vec![word]) }
            }
        })
        .edge(START, "split")
        .fan_out("split", &["work"], move |_| (0..width).map(|n| Send::new("work", &n)).collect())
        .edge("work", END)
        .build()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failing_sibling_does_not_discard_what_the_others_did() {
    let dir = tempfile::tempdir().unwrap();
    let world = world(dir.path()).await;
    let failing = Arc::new(Mutex::new(vec![2, 5]));
    let graph = fan(&world.done, 8, &failing);
    let error = failure(world.run(&graph).await);
    assert!(error.contains("planned"), "{error}");
    let mut first = world.done.take();
    first.sort();
    assert_eq!(first.len(), 16, "{first:?}");
    failing.lock().unwrap().retain(|n| *n != 2);
    failure(world.run(&graph).await);
    // Only what has not finished runs, and its recorded steps are not done again.
    let mut second = world.done.take();
    second.sort();
    assert_eq!(second, ["end 2", "end 5"]);
    failing.lock().unwrap().clear();
    let state = completed(world.run(&graph).await);
    assert_eq!(world.done.take(), ["end 5"]);
    // In the order of the tasks, whoever finished first.
    assert_eq!(state.words, (0..8).map(|n| format!("w{n}")).collect::<Vec<_>>());
    let again: Words = world.runtime.state(&scope().scope, &thread()).await.unwrap().unwrap();
    assert_eq!(again, state);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wide_fan_out_is_one_superstep() {
    let dir = tempfile::tempdir().unwrap();
    let world = world(dir.path()).await;
    let graph = fan(&Done::default(), 1_000, &Arc::default());
    let state = completed(world.run(&graph).await);
    assert_eq!((state.count, &state.words[999][..]), (1_000, "w999"));
    let again: Words = world.runtime.state(&scope().scope, &thread()).await.unwrap().unwrap();
    assert_eq!(again, state);
    assert_eq!(world.runtime.history(&scope().scope, &thread(), 10).await.unwrap().len(), 3);
}

/// An outer graph whose node is a graph of two nodes; each node does one step.
fn nested(done: &Done, fails: &Arc<AtomicBool>) -> Graph<Words> {
    let step = |name: &'static str| {
        let (done, fails) = (done.clone(), fails.clone());
        move |ctx: longhaul_durable::NodeContext, _: Arc<Words>| {
            let (done, fails) = (done.clone(), fails.clone());
            async move {
                let id = ctx.step_id("do").within();
                let word = ctx.step("do", Effect::Pure, async {
                    done.add(id.clone());
                    Ok(name.to_owned())
                });
                let word = word.await?;
                if name == "d" && fails.load(Ordering::SeqCst) { Err(gave_up()) } else { Ok(vec![word]) }
            }
        }
    };
    let inmost = GraphBuilder::<Words>::new("inmost", 1)
        .node("c", step("c"))
        .node("d", step("d"))
        .edge(START, "c")
        .edge("c", "d")
        .edge("d", END)
        .build()
        .unwrap();
    let inner = GraphBuilder::<Words>::new("inner", 1)
        .node("b", step("b"))
        .shared_subgraph("deeper", inmost)
        .edge(START, "b")
        .edge("b", "deeper")
        .edge("deeper", END)
        .build()
        .unwrap();
    GraphBuilder::<Words>::new("outer", 1)
        .node("a", step("a"))
        .subgraph("deep", inner, |_: &Words| Words::default(), |inner: Words| inner.words)
        .edge(START, "a")
        .edge("a", "deep")
        .edge("deep", END)
        .build()
        .unwrap()
}

#[tokio::test]
async fn a_subgraph_goes_on_where_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let world = world(dir.path()).await;
    let fails = Arc::new(AtomicBool::new(true));
    let graph = nested(&world.done, &fails);
    let error = failure(world.run(&graph).await);
    assert!(error.contains("the node deeper of the subgraph failed in superstep 2"), "{error}");
    assert!(error.ends_with("planned"), "{error}");
    assert_eq!(
        world.done.take(),
        ["a/1/do#1", "2.0.deep>b/1.0/do#1", "2.0.deep>2.0.deeper>c/1.0/do#1", "2.0.deep>2.0.deeper>d/2.0/do#1"]
    );
    fails.store(false, Ordering::SeqCst);
    let state = completed(world.run(&graph).await);
    assert_eq!(world.done.take(), [""; 0]);
    assert_eq!(state, Words::of(&["a", "b", "c", "d"]));
    let again: Words = world.runtime.state(&scope().scope, &thread()).await.unwrap().unwrap();
    assert_eq!(again, state);
}

#[tokio::test]
async fn a_join_runs_once_with_all_that_came_before() {
    let dir = tempfile::tempdir().unwrap();
    let world = world(dir.path()).await;
    let word = |word: &'static str| move |_, _| async move { Ok(vec![word.to_owned()]) };
    let graph = GraphBuilder::<Words>::new("joining", 1)
        .node("a", word("a"))
        .node("b", word("b"))
        .node("b2", word("b2"))
        .node("c", |_, state: Arc<Words>| async move { Ok(vec![format!("c after {}", state.count)]) })
        .edge(START, "a")
        .edge(START, "b")
        .edge("b", "b2")
        .join(&["a", "b2"], "c")
        .edge("c", END)
        .build()
        .unwrap();
    assert_eq!(completed(world.run(&graph).await), Words::of(&["a", "b", "b2", "c after 3"]));
}

/// The store dies at each commit in turn; each time the next run goes on, and the end is the same.
#[tokio::test]
async fn a_store_that_dies_at_any_commit_loses_nothing() {
    let settings = || StoreSettings::in_memory();
    let end = |store: Store| Runtime::new(store, Ambient::system());
    for deaths in 1.. {
        let faults = Faults::new();
        let store =
            Store::open_with_faults(settings(), Ambient::system(), &[MIGRATIONS], faults.clone()).await.unwrap();
        let (done, fails) = (Done::default(), Arc::new(AtomicBool::new(false)));
        let graph = nested(&done, &fails);
        faults.die_after(deaths - 1);
        let run = |store: Store| {
            let graph = graph.clone();
            async move { end(store).run(&graph, &scope(), &thread(), Words::default(), RunOptions::default()).await }
        };
        let first = run(store.clone()).await;
        if let Ok(outcome) = first {
            // Beyond the last commit.
            assert_eq!(completed(outcome), Words::of(&["a", "b", "c", "d"]));
            assert!(deaths > 6, "only {deaths} commits");
            break;
        }
        faults.revive();
        assert_eq!(completed(run(store.clone()).await.unwrap()), Words::of(&["a", "b", "c", "d"]), "death {deaths}");
        // A step whose commit was not heard of is the only one that may be done again.
        assert!((4..=5).contains(&done.take().len()), "death {deaths}");
    }
}

#[tokio::test]
async fn a_commit_of_unknown_outcome_is_read_again() {
    for commit in 1..=5 {
        let faults = Faults::new();
        let settings = StoreSettings::in_memory();
        let store = Store::open_with_faults(settings, Ambient::system(), &[MIGRATIONS], faults.clone()).await.unwrap();
        let runtime = Runtime::new(store, Ambient::system());
        let runs = Arc::new(AtomicUsize::new(0));
        let counted = runs.clone();
        let graph = GraphBuilder::<Words>::new("three", 1)
            .node("add", move |_, _| {
                counted.fetch_add(1, Ordering::SeqCst);
                async { Ok(vec!["x".to_owned()]) }
            })
            .edge(START, "add")
            .branch("add", &["add", END], |state| if state.count < 3 { "add" } else { END })
            .build()
            .unwrap();
        faults.fail_commit_but_keep(commit);
        let (scope, thread) = (scope(), thread());
        let run = || runtime.run(&graph, &scope, &thread, Words::default(), RunOptions::default());
        let first = run().await;
        let state = match first {
            Ok(outcome) => completed(outcome),
            // The first commit began the execution; the run is simply begun again.
            Err(error) => {
                assert_eq!(commit, 1, "{error}");
                completed(run().await.unwrap())
            }
        };
        assert_eq!(state, Words::of(&["x", "x", "x"]));
        assert_eq!(runs.load(Ordering::SeqCst), 3, "commit {commit}");
    }
}

#[tokio::test]
async fn a_runtime_that_keeps_nothing_runs_the_same_graphs() {
    let runtime = Runtime::ephemeral(Ambient::system());
    let (done, fails) = (Done::default(), Arc::new(AtomicBool::new(false)));
    let run = |graph: Graph<Words>| {
        let runtime = runtime.clone();
        async move {
            let options = RunOptions::default();
            runtime.run(&graph, &scope(), &thread(), Words::default(), options).await.unwrap()
        }
    };
    assert_eq!(completed(run(nested(&done, &fails)).await), Words::of(&["a", "b", "c", "d"]));
    assert_eq!(completed(run(fan(&done, 3, &Arc::default())).await), Words::of(&["w0", "w1", "w2"]));
    let waiting = GraphBuilder::<Words>::new("waiting", 1)
        .node("wait", |ctx, _| async move {
            ctx.pause_for::<bool>(longhaul_durable::Wait::approval("go on?")).await?;
            Ok(Vec::new())
        })
        .edge(START, "wait")
        .edge("wait", END)
        .build()
        .unwrap();
    let outcome = run(waiting).await;
    assert!(matches!(&outcome, Outcome::Failed { error: NodeError::KeepsNothing { .. }, .. }), "{outcome:?}");
}

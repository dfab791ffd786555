//! Every way in which a graph can lead on, through the real runtime. Each graph runs with nothing kept, in a store, in a
//! store with a new run for each superstep, and in a store that dies after each number of commits: all must come to the
//! same.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use longhaul_core::Ambient;
use longhaul_durable::{
    DurableError, END, Flow, Graph, GraphBuilder, GraphState, MIGRATIONS, NodeContext, NodeError, Outcome, RunOptions,
    Runtime, START, Send,
};
use longhaul_store::{Faults, Store, StoreSettings};
use serde::{Deserialize, Serialize};

use crate::support::{scope, thread};

/// What has been done, in order, and some fields of other kinds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, GraphState)]
struct Log {
    #[append]
    lines: Vec<String>,
    topic: String,
    round: u64,
    #[reduce(add)]
    sum: u64,
}

fn add(sum: &mut u64, more: u64) {
    *sum += more;
}

/// Adds the node's name, with its superstep.
async fn note(ctx: NodeContext, _: Arc<Log>) -> Result<LogUpdate, NodeError> {
    Ok(LogUpdate::new().lines([format!("{}{}", ctx.node(), ctx.superstep())]))
}

/// The same, and one round more.
async fn round(ctx: NodeContext, log: Arc<Log>) -> Result<LogUpdate, NodeError> {
    Ok(note(ctx, log.clone()).await?.round(log.round + 1))
}

fn builder(nodes: &[&str]) -> GraphBuilder<Log> {
    nodes.iter().fold(GraphBuilder::new("test", 1), |graph, node| graph.node(node, note))
}

async fn in_memory() -> Runtime {
    let store = Store::open(StoreSettings::in_memory(), Ambient::system(), &[MIGRATIONS]).await.unwrap();
    Runtime::new(store, Ambient::system())
}

async fn run_on(runtime: &Runtime, graph: &Graph<Log>, options: RunOptions<Log>) -> Outcome<Log> {
    runtime.run(graph, &scope(), &thread(), Log::default(), options).await.unwrap()
}

/// Ends the run after one superstep.
fn one_superstep() -> RunOptions<Log> {
    let boundaries = AtomicUsize::new(0);
    let stop_when = move |_: &Log| boundaries.fetch_add(1, Ordering::SeqCst) == 1;
    RunOptions { stop_when: Some(Arc::new(stop_when)), ..RunOptions::default() }
}

/// The state that the graph comes to, however it is run.
async fn completed(graph: Graph<Log>) -> Log {
    let Outcome::Completed(kept_nothing) =
        run_on(&Runtime::ephemeral(Ambient::system()), &graph, RunOptions::default()).await
    else {
        panic!("not completed");
    };
    let runtime = in_memory().await;
    let Outcome::Completed(kept) = run_on(&runtime, &graph, RunOptions::default()).await else {
        panic!("not completed")
    };
    assert_eq!(kept, kept_nothing);
    assert_eq!(runtime.state::<Log>(&scope().scope, &thread()).await.unwrap().unwrap(), kept, "as it is loaded");
    let runtime = in_memory().await;
    let restarted = loop {
        let outcome = run_on(&runtime, &graph, one_superstep()).await;
        if let Outcome::Completed(log) = outcome {
            break log;
        }
        assert!(matches!(outcome, Outcome::Stopped(_)), "{outcome:?}");
    };
    assert_eq!(restarted, kept, "with a restart at every boundary");
    dies_at_each_commit(&graph, &kept).await;
    kept
}

/// The store dies at each commit in turn; the next run goes on, and comes to the same.
async fn dies_at_each_commit(graph: &Graph<Log>, expected: &Log) {
    for commits in 0.. {
        let faults = Faults::new();
        let settings = StoreSettings::in_memory();
        let store = Store::open_with_faults(settings, Ambient::system(), &[MIGRATIONS], faults.clone()).await.unwrap();
        let runtime = Runtime::new(store, Ambient::system());
        faults.die_after(commits);
        let first = runtime.run(graph, &scope(), &thread(), Log::default(), RunOptions::default()).await;
        faults.revive();
        // If it was complete before, a new execution begins, and comes to the same.
        let outcome = run_on(&runtime, graph, RunOptions::default()).await;
        let Outcome::Completed(log) = outcome else { panic!("{outcome:?}") };
        assert_eq!(&log, expected, "with a death after {commits} commits");
        match first {
            Err(_) => {}
            Ok(Outcome::Completed(_)) => return,
            Ok(other) => panic!("{other:?}"),
        }
    }
}

/// Why the graph fails, in one line.
async fn failure(graph: Graph<Log>) -> String {
    let Outcome::Failed { error, node, superstep } = run_on(&in_memory().await, &graph, RunOptions::default()).await
    else {
        panic!("not failed");
    };
    let mut text = format!("{node} {superstep}: {error}");
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

#[tokio::test]
async fn a_loop_goes_round_until_the_state_says_otherwise() {
    let graph = builder(&["after"])
        .node("again", round)
        .edge(START, "again")
        .branch("again", &["again", "after"], |log| if log.round < 3 { "again" } else { "after" })
        .edge("after", END)
        .build();
    let log = completed(graph.unwrap()).await;
    assert_eq!(log.lines, ["again1", "again2", "again3", "after4"]);
    assert_eq!(log.round, 3);
}

#[tokio::test]
async fn a_branch_sees_the_state_after_all_tasks_of_the_superstep() {
    let graph = builder(&["yes", "no"])
        .node("slow", async |_: NodeContext, _| {
            tokio::task::yield_now().await;
            Ok(LogUpdate::new().topic("tea"))
        })
        .node("quick", async |_: NodeContext, log: Arc<Log>| {
            assert_eq!(log.topic, "", "what a sibling does is not seen");
            Ok(LogUpdate::new())
        })
        .edge(START, "quick")
        .edge(START, "slow")
        .branch("quick", &["yes", "no"], |log| if log.topic == "tea" { "yes" } else { "no" })
        .edge("slow", END)
        .edge("yes", END)
        .edge("no", END)
        .build();
    assert_eq!(completed(graph.unwrap()).await.lines, ["yes2"]);
}

#[tokio::test]
async fn a_branch_at_the_start_chooses_the_first_node() {
    let graph = builder(&["a", "b"]).branch(START, &["a", "b"], |_| "b").edge("a", END).edge("b", END).build();
    assert_eq!(completed(graph.unwrap()).await.lines, ["b1"]);
    let nothing = builder(&[]).edge(START, END).build();
    assert_eq!(completed(nothing.unwrap()).await, Log::default());
}

#[tokio::test]
async fn ways_of_equal_length_meet_in_one_run_and_one_that_ends_does_not_end_the_others() {
    let graph = builder(&["a", "b", "c", "d", "e"])
        .edge(START, "a")
        .edge("a", "b")
        .edge("a", "c")
        .edge("a", END)
        .edge("b", "d")
        .edge("c", "d")
        .edge("c", END)
        .edge("d", "e")
        .edge("e", END)
        .build();
    assert_eq!(completed(graph.unwrap()).await.lines, ["a1", "b2", "c2", "d3", "e4"]);
}

#[tokio::test]
async fn a_join_waits_for_the_slowest_in_every_round_of_a_loop() {
    let graph = builder(&["quick", "slow", "slower"])
        .node("fork", round)
        .node("all", note)
        .edge(START, "fork")
        .edge("fork", "quick")
        .edge("fork", "slow")
        .edge("slow", "slower")
        .join(&["quick", "slower"], "all")
        .branch("all", &["fork", END], |log| if log.round < 3 { "fork" } else { END })
        .build();
    let one = |n: u64| {
        ["fork", "quick", "slow", "slower", "all"]
            .into_iter()
            .zip([1, 2, 2, 3, 4])
            .map(move |(name, at)| format!("{name}{}", n * 4 + at))
    };
    assert_eq!(completed(graph.unwrap()).await.lines, (0..3).flat_map(one).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_join_that_one_way_never_reaches_does_not_fire_and_does_not_hold_the_end_up() {
    let graph = builder(&["a", "b", "all", "other"])
        .edge(START, "a")
        .branch(START, &["b", "other"], |_| "other")
        .join(&["a", "b"], "all")
        .edge("all", END)
        .edge("other", END)
        .build();
    assert_eq!(completed(graph.unwrap()).await.lines, ["a1", "other1"]);
}

#[tokio::test]
async fn a_deferred_node_runs_once_when_all_others_are_done() {
    let graph = builder(&["a", "b", "c", "d", "last", "more"])
        .edge(START, "a")
        .edge(START, "b")
        .edge("a", "last")
        .edge("b", "c")
        .edge("c", "d")
        .edge("d", "last")
        .deferred("last")
        .edge("last", "more")
        .edge("more", END)
        .build();
    assert_eq!(completed(graph.unwrap()).await.lines, ["a1", "b1", "c2", "d3", "last4", "more5"]);
}

#[tokio::test]
async fn a_node_that_may_run_once_for_each_arrival_does() {
    let graph = builder(&["a", "b", "c"])
        .edge(START, "a")
        .edge(START, "c")
        .edge("a", "c")
        .each_arrival("c")
        .edge("c", END)
        .edge(START, "b")
        .edge("b", END)
        .build();
    assert_eq!(completed(graph.unwrap()).await.lines, ["a1", "c1", "b1", "c2"]);
}

#[tokio::test]
async fn a_node_may_go_elsewhere_by_itself_with_an_update_and_with_inputs() {
    let graph = builder(&["edge", "left", "right"])
        .node("choose", async |ctx: NodeContext, log: Arc<Log>| {
            Ok(match log.round {
                0 => Flow::update(round(ctx, log).await?).goto("choose"),
                1 => {
                    Flow::update(round(ctx, log).await?).goto("left").goto("right").send("work", "x").send("work", "y")
                }
                _ => Flow::nothing(),
            })
        })
        .node_with_input("work", async |_: NodeContext, _: Arc<Log>, word: String| Ok(LogUpdate::new().lines([word])))
        .edge(START, "choose")
        .edge("choose", "edge")
        .goto("choose", &["choose", "left", "right", "work", END])
        .edge("left", END)
        .edge("right", "choose")
        .edge("work", END)
        .edge("edge", END)
        .build();
    assert_eq!(completed(graph.unwrap()).await.lines, ["choose1", "choose2", "left3", "right3", "x", "y", "edge5"]);
}

#[tokio::test]
async fn a_fan_out_of_a_thousand_is_one_superstep_in_the_order_of_its_inputs() {
    #[derive(Serialize, Deserialize)]
    struct Item {
        number: u64,
        name: String,
    }
    let items =
        |_: &Log| (0..1000).map(|number| Send::new("work", &Item { number, name: format!("i{number}") })).collect();
    let graph = builder(&["plan", "collect"])
        .node_with_input("work", async |ctx: NodeContext, _: Arc<Log>, item: Item| {
            assert_eq!(u64::from(ctx.task()), item.number);
            Ok(LogUpdate::new().lines([item.name]).sum(item.number))
        })
        .edge(START, "plan")
        .fan_out("plan", &["work"], items)
        .join(&["work"], "collect")
        .edge("collect", END)
        .build();
    let log = completed(graph.unwrap()).await;
    assert_eq!(log.sum, 499_500);
    assert_eq!(log.lines.len(), 1002);
    assert_eq!((&*log.lines[1], &*log.lines[1000], &*log.lines[1001]), ("i0", "i999", "collect3"));
}

#[tokio::test]
async fn a_fan_out_of_nothing_ends_its_way() {
    let graph = builder(&["plan"])
        .node_with_input("work", async |_: NodeContext, _: Arc<Log>, (): ()| Ok(LogUpdate::new()))
        .edge(START, "plan")
        .fan_out("plan", &["work"], |_| Vec::new())
        .edge("work", END)
        .build();
    assert_eq!(completed(graph.unwrap()).await.lines, ["plan1"]);
}

/// A graph of a loop of two rounds and a fork.
fn inner(name: &str) -> Graph<Log> {
    GraphBuilder::new(name, 1)
        .node("loop", round)
        .node("left", note)
        .node("right", note)
        .edge(START, "loop")
        .branch("loop", &["loop", "left"], |log| if log.round % 2 == 1 { "loop" } else { "left" })
        .edge("left", "right")
        .edge("right", END)
        .build()
        .unwrap()
}

#[tokio::test]
async fn graphs_within_graphs_three_deep_with_a_state_of_their_own() {
    let nest = |name: &str, child: Graph<Log>| {
        builder(&["before", "after"])
            .subgraph(
                name,
                child,
                |_: &Log| Log::default(),
                |log: Log| LogUpdate::new().lines(log.lines).sum(1 + log.sum),
            )
            .edge(START, "before")
            .edge("before", name)
            .edge(name, "after")
            .edge("after", END)
            .build()
            .unwrap()
    };
    let log = completed(nest("one", nest("two", inner("three")))).await;
    assert_eq!(log.lines, ["before1", "before1", "loop1", "loop2", "left3", "right4", "after3", "after3"],);
    assert_eq!((log.sum, log.round), (2, 0));
}

#[tokio::test]
async fn a_subgraph_runs_in_parallel_for_each_of_its_inputs() {
    let graph = builder(&["collect"])
        .subgraph_with_input(
            "work",
            inner("inner"),
            |_: &Log, topic: String| Log { topic, ..Log::default() },
            |log: Log| LogUpdate::new().lines([format!("{} {}", log.topic, log.lines.join(" "))]),
        )
        .fan_out(START, &["work"], |_| ["x", "y", "z"].iter().map(|topic| Send::new("work", topic)).collect())
        .join(&["work"], "collect")
        .edge("collect", END)
        .build();
    let lines = completed(graph.unwrap()).await.lines;
    assert_eq!(
        lines,
        ["x loop1 loop2 left3 right4", "y loop1 loop2 left3 right4", "z loop1 loop2 left3 right4", "collect2"]
    );
}

#[tokio::test]
async fn a_shared_subgraph_goes_on_with_the_state_and_gives_its_updates_in_order() {
    let graph = builder(&["after"])
        .node("before", async |ctx: NodeContext, log| Ok(note(ctx, log).await?.round(4).topic("tea").sum(1)))
        .shared_subgraph("inner", inner("inner"))
        .edge(START, "before")
        .edge("before", "inner")
        .edge("inner", "after")
        .edge("after", END)
        .build();
    let log = completed(graph.unwrap()).await;
    assert_eq!(log.lines, ["before1", "loop1", "loop2", "left3", "right4", "after3"]);
    assert_eq!((log.round, &*log.topic, log.sum), (6, "tea", 1));
}

#[tokio::test]
async fn an_overwrite_bypasses_the_reducer_and_later_tasks_add_to_it() {
    let graph = builder(&["a", "c"])
        .node("b", async |ctx: NodeContext, log| {
            Ok(note(ctx, log).await?.overwrite_lines(vec!["short".to_owned()]).overwrite_sum(7))
        })
        .edge(START, "a")
        .edge("a", "b")
        .edge("a", "c")
        .edge("b", END)
        .edge("c", END)
        .build();
    let log = completed(graph.unwrap()).await;
    assert_eq!((log.lines, log.sum), (vec!["short".to_owned(), "c2".to_owned()], 7));
}

#[tokio::test]
async fn two_tasks_of_one_superstep_may_not_set_one_field() {
    let graph = builder(&[])
        .node("a", async |_: NodeContext, _: Arc<Log>| Ok(LogUpdate::new().topic("x")))
        .node("b", async |_: NodeContext, _: Arc<Log>| Ok(LogUpdate::new().topic("y")))
        .edge(START, "a")
        .edge(START, "b")
        .edge("a", END)
        .edge("b", END)
        .build();
    let error = failure(graph.unwrap()).await;
    assert!(
        error.contains("topic was set by a (task 0) and by b (task 1) in one superstep, but keeps one value"),
        "{error}"
    );
}

#[tokio::test]
async fn the_bound_on_supersteps_ends_a_loop_without_end() {
    let graph = builder(&["a"]).edge(START, "a").branch("a", &["a", END], |_| "a").build().unwrap();
    let outer =
        builder(&[]).shared_subgraph("inner", graph.clone()).edge(START, "inner").edge("inner", END).build().unwrap();
    let runtime = in_memory().await;
    let options = |supersteps_max| RunOptions { supersteps_max, ..RunOptions::default() };
    let run = runtime.run(&graph, &scope(), &thread(), Log::default(), options(5)).await;
    assert!(matches!(run, Err(DurableError::Supersteps { supersteps_max: 5, .. })), "{run:?}");
    // Raised, it goes on where it was.
    let run = runtime.run(&graph, &scope(), &thread(), Log::default(), options(8)).await;
    assert!(matches!(run, Err(DurableError::Supersteps { supersteps_max: 8, .. })), "{run:?}");
    let log: Log = runtime.state(&scope().scope, &thread()).await.unwrap().unwrap();
    assert_eq!(log.lines, (1..=8).map(|n| format!("a{n}")).collect::<Vec<_>>());
    let error = match in_memory().await.run(&outer, &scope(), &thread(), Log::default(), options(5)).await {
        Ok(Outcome::Failed { error, .. }) => std::error::Error::source(&error).unwrap().to_string(),
        other => panic!("{other:?}"),
    };
    assert!(error.contains("has taken 5 supersteps, the most allowed"), "{error}");
}

#[tokio::test]
async fn a_way_that_the_graph_does_not_have_is_named() {
    let branch = builder(&["a", "b"]).edge(START, "a").branch("a", &["b", END], |_| "a").edge("b", END).build();
    let error = failure(branch.unwrap()).await;
    assert!(
        error.ends_with("the branch of a named \"a\", which is not among its targets b, __end__: name it there"),
        "{error}"
    );
    let goto = builder(&["b"])
        .node("a", async |_: NodeContext, _: Arc<Log>| Ok(Flow::<LogUpdate>::nothing().goto("c")))
        .edge(START, "a")
        .goto("a", &["b"])
        .edge("b", END)
        .build();
    let error = failure(goto.unwrap()).await;
    assert!(error.ends_with("the goto of a named \"c\", which is not among its targets b: name it there"), "{error}");
}

#[tokio::test]
async fn an_input_of_another_type_is_named() {
    let graph = builder(&[])
        .node_with_input("work", async |_: NodeContext, _: Arc<Log>, _: u64| Ok(LogUpdate::new()))
        .fan_out(START, &["work"], |_| vec![Send::new("work", "many")])
        .edge("work", END)
        .build();
    let error = failure(graph.unwrap()).await;
    assert!(error.contains("work 1: the input of work is not of the type that it takes: invalid type"), "{error}");
}

#[tokio::test]
async fn what_is_too_large_is_refused_with_its_path() {
    let graph = builder(&[])
        .node(
            "a",
            async |_: NodeContext, _: Arc<Log>| Ok(LogUpdate::new().lines(["ok".to_owned(), "x".repeat(70_000)])),
        )
        .edge(START, "a")
        .edge("a", END)
        .build();
    let error = failure(graph.unwrap()).await;
    assert!(error.contains("the update of a is refused: update.lines[1] takes 70002 bytes, at most 65536"), "{error}");
}

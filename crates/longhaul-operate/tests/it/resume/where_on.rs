//! Where it continues: random graphs, stopped at each boundary and gone on with by a store that was opened anew, come to
//! what an undisturbed run comes to.
//!
//! What may go wrong at a boundary besides, as a commit nobody hears of or a stolen thread, the simulation of
//! `longhaul-durable` goes through.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use longhaul_core::{Digest, Rng, SeededRng, ThreadId};
use longhaul_durable::{
    END, Effect, Flow, Graph, GraphBuilder, GraphState, NodeError, Outcome, RunOptions, Runtime, START, Send,
};
use serde::{Deserialize, Serialize};

use crate::ground::{Ground, on_both, scope};

on_both!(random_graphs_stopped_at_each_boundary_come_to_the_same);

const SEEDS: u64 = 10;

/// Lines, each of which follows from all before it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, GraphState)]
struct Story {
    #[append]
    lines: Vec<String>,
    rounds: u64,
}

/// What a node does: a recorded step whose result follows from the state.
async fn work(ctx: &longhaul_durable::NodeContext, story: &Story, part: u64) -> Result<String, NodeError> {
    let told = format!("{}|{part}|{}", ctx.step_id("work").within(), story.lines.concat());
    ctx.step("work", Effect::Pure, async move { Ok(Digest::of(told).hex()) }).await
}

/// Pieces one after the other: a node, two ways that join, a fan-out, a loop, a graph inside.
fn graph(seed: u64) -> Graph<Story> {
    let rng = SeededRng::new(seed);
    let mut builder = GraphBuilder::<Story>::new("random", 1);
    let mut last: String = START.to_owned();
    for piece in 0..2 + rng.next_u64() % 4 {
        let name = |part: &str| format!("{part}{piece}");
        let single = |builder: GraphBuilder<Story>, node: String| {
            builder.node(&node, |ctx, story: Arc<Story>| async move {
                Ok(StoryUpdate::new().lines([work(&ctx, &story, 0).await?]))
            })
        };
        match rng.next_u64() % 5 {
            0 => {
                builder = single(builder, name("one")).edge(&last, &name("one"));
                last = name("one");
            }
            1 => {
                let (left, right, end) = (name("left"), name("right"), name("both"));
                builder = single(single(single(builder, left.clone()), right.clone()), end.clone());
                builder = builder.edge(&last, &left).edge(&last, &right).join(&[&left, &right], &end);
                last = end;
            }
            2 => {
                let (split, part, end) = (name("split"), name("part"), name("gather"));
                let many = 1 + rng.next_u64() % 3;
                let to = part.clone();
                builder = single(single(builder, split.clone()), end.clone()).edge(&last, &split);
                builder = builder
                    .node_with_input(&part, |ctx, story: Arc<Story>, number: u64| async move {
                        Ok(StoryUpdate::new().lines([work(&ctx, &story, number).await?]))
                    })
                    .fan_out(&split, &[&part], move |_| (0..many).map(|number| Send::new(&to, &number)).collect())
                    .join(&[&part], &end);
                last = end;
            }
            3 => {
                let (turn, after) = (name("turn"), name("after"));
                let (back, on, most) = (turn.clone(), after.clone(), 1 + rng.next_u64() % 3);
                builder = builder
                    .node(&turn, move |ctx, story: Arc<Story>| {
                        let (back, on) = (back.clone(), on.clone());
                        async move {
                            let next = if story.rounds % (most + 1) < most { back } else { on };
                            let update = StoryUpdate::new().lines([work(&ctx, &story, 0).await?]);
                            Ok(Flow::update(update.rounds(story.rounds + 1)).goto(&next))
                        }
                    })
                    .goto(&turn, &[&turn, &after]);
                builder = single(builder, after.clone()).edge(&last, &turn);
                last = after;
            }
            _ => {
                let inner = single(single(GraphBuilder::<Story>::new("inner", 1), "a".to_owned()), "b".to_owned());
                let inner = inner.edge(START, "a").edge("a", "b").edge("b", END).build().unwrap();
                builder = builder.shared_subgraph(&name("inner"), inner).edge(&last, &name("inner"));
                last = name("inner");
            }
        }
    }
    builder.edge(&last, END).build().unwrap()
}

async fn run(runtime: &Runtime, seed: u64, thread: &ThreadId, options: RunOptions<Story>) -> Outcome<Story> {
    runtime.run(&graph(seed), &scope(), thread, Story::default(), options).await.unwrap()
}

async fn random_graphs_stopped_at_each_boundary_come_to_the_same(ground: Ground) {
    let mut boundaries = 0;
    for seed in 0..SEEDS {
        let runtime = ground.runtime().await;
        let calm: ThreadId = format!("calm-{seed}").parse().unwrap();
        let Outcome::Completed(expected) = run(&runtime, seed, &calm, RunOptions::default()).await else {
            panic!("seed {seed} does not end")
        };
        let thread: ThreadId = format!("stopped-{seed}").parse().unwrap();
        drop(runtime);
        let state = loop {
            // The store is opened anew, the graph built anew: nothing is left of the process before.
            let runtime = ground.runtime().await;
            let asked = AtomicU64::new(0);
            // Asked before the first superstep too: one is done in each life.
            let stop_when = Arc::new(move |_: &Story| asked.fetch_add(1, Ordering::SeqCst) == 1);
            let options = RunOptions { stop_when: Some(stop_when), ..RunOptions::default() };
            match run(&runtime, seed, &thread, options).await {
                Outcome::Completed(state) => break state,
                Outcome::Stopped(_) => boundaries += 1,
                other => panic!("seed {seed}: {other:?}"),
            }
        };
        assert_eq!(state, expected, "seed {seed}");
        // And by the same way: the same steps, the same nodes at each boundary.
        let runtime = ground.runtime().await;
        let way = async |thread: &ThreadId| {
            let checkpoints = runtime.history(&scope().scope, thread, 1_000).await.unwrap();
            checkpoints.into_iter().map(|one| (one.superstep, one.nodes)).collect::<Vec<_>>()
        };
        assert_eq!(way(&thread).await, way(&calm).await, "seed {seed}");
    }
    assert!(boundaries > SEEDS * 2, "only {boundaries} boundaries were stopped at");
}

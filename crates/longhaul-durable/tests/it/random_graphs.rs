//! Random graphs through the real runtime, whose store dies after each number of commits in turn: every run that goes on
//! afterwards must come to what an undisturbed run comes to, and do nothing that it need not do again.
//!
//! A graph is made of pieces, one after the other: a node, parallel ways of unequal length with a join, a fan-out, a
//! loop, a deferred node, a jump, a graph inside. Nodes do steps; some fail the first time that they run.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::{Arc, Mutex},
};

use longhaul_core::Ambient;
use longhaul_durable::{
    DurableError, END, Effect, Flow, Graph, GraphBuilder, GraphState, MIGRATIONS, NodeContext, NodeError, Outcome,
    RunOptions, Runtime, START, Send,
};
use longhaul_store::{Faults, Store, StoreSettings};
use serde::{Deserialize, Serialize};

use crate::support::{scope, thread};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, GraphState)]
struct Log {
    #[append]
    lines: Vec<String>,
    #[reduce(count, from = String)]
    rounds: BTreeMap<String, u64>,
}

fn count(rounds: &mut BTreeMap<String, u64>, loop_name: String) {
    *rounds.entry(loop_name).or_default() += 1;
}

/// What was really done, and which nodes have failed already.
#[derive(Clone, Default)]
struct World {
    done: Arc<Mutex<Vec<String>>>,
    failed: Arc<Mutex<BTreeSet<String>>>,
    fails: bool,
}

impl World {
    /// Does two steps and then, perhaps, fails this once.
    async fn work(&self, ctx: &NodeContext, log: &Log) -> Result<LogUpdate, NodeError> {
        let place = ctx.step_id("").within();
        let mut seen = Vec::new();
        for n in 0..2 {
            let id = ctx.step_id("do").within();
            let lines = log.lines.len();
            let step = ctx.step("do", Effect::Pure, async {
                self.done.lock().unwrap().push(id);
                // Another task has its turn here.
                tokio::task::yield_now().await;
                Ok(lines * 10 + n)
            });
            seen.push(step.await?.to_string());
        }
        let chosen = place.bytes().map(u32::from).sum::<u32>() % 4 == 0;
        if self.fails && chosen && self.failed.lock().unwrap().insert(place) {
            return Err(NodeError::gave_up(io::Error::other("planned")));
        }
        Ok(LogUpdate::new().lines([format!("{} {}", ctx.node(), seen.join(" "))]))
    }
}

/// Makes graphs out of random bits.
struct Maker {
    bits: u64,
    world: World,
}

impl Maker {
    fn below(&mut self, n: u64) -> u64 {
        self.bits ^= self.bits << 13;
        self.bits ^= self.bits >> 7;
        self.bits ^= self.bits << 17;
        (self.bits >> 16) % n
    }

    /// A name that stays: branches answer with one.
    fn name(&self, text: String) -> &'static str {
        text.leak()
    }

    fn node(&self, graph: GraphBuilder<Log>, name: &str) -> GraphBuilder<Log> {
        let world = self.world.clone();
        graph.node(name, move |ctx, log: Arc<Log>| {
            let world = world.clone();
            async move { world.work(&ctx, &log).await }
        })
    }

    fn graph(&mut self, depth: u64) -> Graph<Log> {
        let mut graph = GraphBuilder::new("random", 1);
        let mut last = START;
        for piece in 0..2 + self.below(3) {
            let kinds = if depth < 2 { 8 } else { 6 };
            let (first, end);
            (graph, first, end) = match self.below(kinds) {
                0 => self.single(graph, piece),
                1 => self.joined(graph, piece),
                2 => self.fanned(graph, piece),
                3 => self.looped(graph, piece),
                4 => self.deferred(graph, piece),
                5 => self.jump(graph, piece),
                shared => self.nested(graph, piece, depth, shared == 6),
            };
            graph = graph.edge(last, first);
            last = end;
        }
        graph.edge(last, END).build().unwrap()
    }
}

/// A graph with one piece more, where the piece begins and where it ends.
type More = (GraphBuilder<Log>, &'static str, &'static str);

impl Maker {
    fn single(&mut self, graph: GraphBuilder<Log>, piece: u64) -> More {
        let node = self.name(format!("single-{piece}"));
        (self.node(graph, node), node, node)
    }

    /// Two or three ways of different lengths.
    fn joined(&mut self, graph: GraphBuilder<Log>, piece: u64) -> More {
        let (fork, all) = (self.name(format!("fork-{piece}")), self.name(format!("all-{piece}")));
        let mut graph = self.node(self.node(graph, fork), all);
        let mut ends = Vec::new();
        for way in 0..2 + self.below(2) {
            let mut from = fork;
            for n in 0..1 + self.below(3) {
                let next = self.name(format!("way-{piece}-{way}-{n}"));
                graph = self.node(graph, next).edge(from, next);
                from = next;
            }
            ends.push(from);
        }
        (graph.join(&ends, all), fork, all)
    }

    fn fanned(&mut self, graph: GraphBuilder<Log>, piece: u64) -> More {
        let [plan, each, all] = ["plan", "each", "gather"].map(|name| self.name(format!("{name}-{piece}")));
        let (width, world) = (self.below(6), self.world.clone());
        let graph = self.node(self.node(graph, plan), all).node_with_input(each, move |ctx, log: Arc<Log>, n: u64| {
            let world = world.clone();
            async move { Ok(world.work(&ctx, &log).await?.lines([format!("item {n}")])) }
        });
        let send = move |_: &Log| (0..=width).map(|n| Send::new(each, &n)).collect();
        (graph.fan_out(plan, &[each], send).join(&[each], all), plan, all)
    }

    fn looped(&mut self, graph: GraphBuilder<Log>, piece: u64) -> More {
        let (again, after) = (self.name(format!("again-{piece}")), self.name(format!("after-{piece}")));
        let (rounds, world) = (1 + self.below(4), self.world.clone());
        let graph = self.node(graph, after).node(again, move |ctx, log: Arc<Log>| {
            let world = world.clone();
            async move { Ok(world.work(&ctx, &log).await?.rounds(again.to_owned())) }
        });
        let more = move |log: &Log| log.rounds.get(again).is_some_and(|done| *done < rounds);
        (graph.branch(again, &[again, after], move |log| if more(log) { again } else { after }), again, after)
    }

    fn deferred(&mut self, graph: GraphBuilder<Log>, piece: u64) -> More {
        let [fork, short, long, longer, late] =
            ["split", "short", "long", "longer", "late"].map(|name| self.name(format!("{name}-{piece}")));
        let graph = [fork, short, long, longer, late].iter().fold(graph, |graph, name| self.node(graph, name));
        let graph = graph.edge(fork, short).edge(fork, long).edge(short, late).edge(long, longer).edge(longer, late);
        (graph.deferred(late), fork, late)
    }

    /// A node that jumps over the one after it.
    fn jump(&mut self, graph: GraphBuilder<Log>, piece: u64) -> More {
        let [from, over, to] = ["from", "over", "to"].map(|name| self.name(format!("{name}-{piece}")));
        let (jumps, world) = (self.below(2) == 0, self.world.clone());
        let graph = self.node(self.node(graph, over), to).node(from, move |ctx, log: Arc<Log>| {
            let world = world.clone();
            async move {
                let flow = Flow::update(world.work(&ctx, &log).await?);
                Ok(if jumps { flow.goto(to) } else { flow })
            }
        });
        (graph.edge(from, over).edge(over, to).goto(from, &[to]), from, to)
    }

    fn nested(&mut self, graph: GraphBuilder<Log>, piece: u64, depth: u64, shared: bool) -> More {
        let name = self.name(format!("inner-{piece}"));
        let child = self.graph(depth + 1);
        let graph = if shared {
            graph.shared_subgraph(name, child)
        } else {
            graph.subgraph(name, child, |_: &Log| Log::default(), |log: Log| LogUpdate::new().lines(log.lines))
        };
        (graph, name, name)
    }
}

fn graph(seed: u64, world: &World) -> Graph<Log> {
    let bits = (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Maker { bits, world: world.clone() }.graph(0)
}

async fn run(runtime: &Runtime, graph: &Graph<Log>) -> Result<Outcome<Log>, DurableError> {
    runtime.run(graph, &scope(), &thread(), Log::default(), RunOptions::default()).await
}

/// What an undisturbed run comes to, and all that it does.
async fn undisturbed(seed: u64) -> (Log, BTreeSet<String>) {
    let world = World::default();
    let runtime = Runtime::ephemeral(Ambient::system());
    let Ok(Outcome::Completed(log)) = run(&runtime, &graph(seed, &world)).await else { panic!("seed {seed}") };
    let done = world.done.lock().unwrap().clone();
    let each = done.iter().cloned().collect::<BTreeSet<_>>();
    assert_eq!(each.len(), done.len(), "seed {seed}: a step was done twice");
    (log, each)
}

/// Runs until it is complete, with one death after so many commits; tells whether the store died.
async fn with_a_death(seed: u64, commits: u64, fails: bool, expected: &(Log, BTreeSet<String>)) -> bool {
    let place = format!("seed {seed}, death after {commits} commits, failing nodes {fails}");
    let world = World { fails, ..World::default() };
    let graph = graph(seed, &world);
    let faults = Faults::new();
    let settings = StoreSettings::in_memory();
    let store = Store::open_with_faults(settings, Ambient::system(), &[MIGRATIONS], faults.clone()).await.unwrap();
    faults.die_after(commits);
    let mut died = false;
    let log = loop {
        match run(&Runtime::new(store.clone(), Ambient::system()), &graph).await {
            Ok(Outcome::Completed(log)) => break log,
            Ok(Outcome::Failed { error: NodeError::Store(_), .. }) | Err(_) if !died => {
                died = true;
                faults.revive();
            }
            Ok(Outcome::Failed { .. }) if fails => {}
            other => panic!("{place}: {other:?}"),
        }
    };
    assert_eq!(log, expected.0, "{place}");
    let mut times: BTreeMap<String, u32> = BTreeMap::new();
    world.done.lock().unwrap().iter().for_each(|id| *times.entry(id.clone()).or_default() += 1);
    assert!(times.keys().eq(&expected.1), "{place}");
    // Only a step that was being recorded when the store died may be done again.
    let again: Vec<_> = times.iter().filter(|(_, times)| **times > if died { 2 } else { 1 }).collect();
    assert!(again.is_empty(), "{place}: {again:?}");
    died
}

/// Each seed is a graph; `LONGHAUL_SEEDS=17..40` takes others, as a failure names them.
fn seeds() -> std::ops::Range<u64> {
    let Ok(text) = std::env::var("LONGHAUL_SEEDS") else { return 0..5 };
    let (first, end) = text.split_once("..").expect("LONGHAUL_SEEDS=first..end");
    first.parse().unwrap()..end.parse().unwrap()
}

#[tokio::test]
async fn random_graphs_come_to_the_same_wherever_their_store_dies() {
    let seeds = seeds();
    let mut deaths = 0;
    for seed in seeds.clone() {
        let expected = undisturbed(seed).await;
        let mut commits = 0;
        while with_a_death(seed, commits, seed % 2 == 0, &expected).await {
            commits += 1;
        }
        deaths += commits;
    }
    assert!(deaths > 10 * (seeds.end - seeds.start), "{deaths} deaths");
    println!("{deaths} deaths in {} graphs", seeds.end - seeds.start);
}

//! Random graphs, made of pieces one after the other: a node, parallel ways of unequal length with a join, a fan-out, a
//! loop, a deferred node, a jump, a graph inside. What their nodes do is the world's.

use std::{collections::BTreeMap, sync::Arc};

use longhaul_durable::{END, Flow, Graph, GraphBuilder, GraphState, NodePolicy, Retry, START, Send};
use serde::{Deserialize, Serialize};

use super::world::World;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, GraphState)]
pub(super) struct Log {
    #[append]
    pub(super) lines: Vec<String>,
    #[reduce(count, from = String)]
    rounds: BTreeMap<String, u64>,
}

fn count(rounds: &mut BTreeMap<String, u64>, loop_name: String) {
    *rounds.entry(loop_name).or_default() += 1;
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
        let graph = if self.world.pick(name).is_multiple_of(4) {
            let retry = Retry { max_attempts: 2, first_ms: 0, jitter: false, ..Retry::default() };
            graph.policy(name, NodePolicy::new().retry(retry))
        } else {
            graph
        };
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

/// The graph of this seed.
pub(super) fn graph(seed: u64, world: &World) -> Graph<Log> {
    let bits = (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Maker { bits, world: world.clone() }.graph(0)
}

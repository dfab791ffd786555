//! What is refused when a graph is built, by name and with its words; and what is not.

use std::{sync::Arc, time::Instant};

use serde::{Deserialize, Serialize};

use super::*;
use crate::{Graph, GraphBuilder, GraphState, Key, NodeContext, NodeError, NodePolicy};

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Empty {}

impl GraphState for Empty {
    type Update = ();
    fn apply(&mut self, (): ()) {}
}

async fn nothing(_: NodeContext, _: Arc<Empty>) -> Result<(), NodeError> {
    Ok(())
}

fn builder() -> GraphBuilder<Empty> {
    GraphBuilder::new("test", 1)
}

/// A builder out of words: `a` is a node, `=w` one with input, `a>b` an edge, `a?b|c` a branch, `a*w` a fan-out,
/// `a~b` a goto, `a+b=c` a join, `c!` deferred, `c^` each arrival. `S` and `E` are START and END.
fn of(words: &str) -> GraphBuilder<Empty> {
    let name = |name: &str| match name {
        "S" => START.to_owned(),
        "E" => END.to_owned(),
        other => other.to_owned(),
    };
    let list = |text: &str, by: char| text.split(by).filter(|name| !name.is_empty()).map(name).collect::<Vec<_>>();
    words.split_whitespace().fold(builder(), |graph, word| {
        let split = |by: char| word.split_once(by).map(|(from, to)| (name(from), to.to_owned()));
        if let Some(node) = word.strip_prefix('=') {
            return graph.node_with_input(node, async |_, _, (): ()| Ok(()));
        }
        if let Some((from, to)) = word.rsplit_once('=') {
            let from = list(from, '+');
            return graph.join(&from.iter().map(String::as_str).collect::<Vec<_>>(), &name(to));
        }
        if let Some((from, to)) = split('>') {
            return graph.edge(&from, &name(&to));
        }
        for by in ['?', '*', '~'] {
            let Some((from, to)) = split(by) else { continue };
            let to = list(&to, '|');
            let to: Vec<&str> = to.iter().map(String::as_str).collect();
            return match by {
                '?' => graph.branch(&from, &to, |_| END),
                '*' => graph.fan_out(&from, &to, |_| Vec::new()),
                _ => graph.goto(&from, &to),
            };
        }
        match (word.strip_suffix('!'), word.strip_suffix('^')) {
            (Some(node), _) => graph.deferred(node),
            (_, Some(node)) => graph.each_arrival(node),
            (None, None) => graph.node(word, nothing),
        }
    })
}

#[test]
fn a_graph_that_could_go_wrong_is_refused_by_name() {
    for (words, expected) in [
        ("a a S>a a>E", "the node a is defined twice: rename one of them"),
        ("A S>A A>E", "\"A\" cannot name a node"),
        ("ä S>ä ä>E", "\"ä\" cannot name a node"),
        ("__end__", "cannot name a node: use 1 to 64 of `a-z`, `0-9`, `_`, `-`, and not __start__ or __end__"),
        ("a a>E", "nothing leads from START: add an edge from it to the first node"),
        ("a S>b a>E", "the edge from __start__ leads to b, but there is no node b: define it or correct the name"),
        ("a S>a a>E b>a", "the edge from b leads to a, but there is no node b"),
        ("a S>a a?a|b|E", "the branch from a leads to b, but there is no node b"),
        ("a S>a a*b a>E", "the fan-out from a leads to b, but there is no node b"),
        ("a S>a a~b a>E", "the goto from a leads to b, but there is no node b"),
        ("a S>a a>E a=c", "the join from a leads to c, but there is no node c"),
        ("a b S>a a>b b>E a+x=b", "the join from x leads to b, but there is no node x"),
        ("a S>a a>__start__", "there is no node __start__"),
        ("a S>a a>E E>a", "there is no node __end__"),
        ("a S>a a>E a=E", "the join from a leads to __end__, but there is no node __end__"),
        ("a S>a a>E S=a", "the join from __start__ leads to a, but there is no node __start__"),
        ("a S>a S~a a>E", "the goto from __start__ leads to a, but there is no node __start__"),
        ("a S>a a>E b!", "deferred is said of b, but there is no such node: define it or correct the name"),
        ("a S>a a>E b^", "each_arrival is said of b, but there is no such node"),
        ("a b S>a a?b|E b>E a?E", "a has two ways out of the kind branch: make one that names all its targets"),
        ("a =w S>a a*w a*w w>E", "a has two ways out of the kind fan-out"),
        ("a S>a a>E a~E a~a", "a has two ways out of the kind goto"),
        ("a S>a a>E a>E", "the edge from a to __end__ is there twice: remove one"),
        ("a b c S>a S>b a+b=c c>E a=c", "c is the target of two joins: name all that it waits for in one"),
        ("a S>a a?", "the branch at a names no node: name every one that it may concern"),
        ("a S>a a* a>E", "the fan-out at a names no node"),
        ("a S>a a~ a>E", "the goto at a names no node"),
        ("a S>a +=a a>E", "the join at a names no node"),
        ("a =w S>a a>w w>E", "w takes an input, but the edge from a brings none: send to it with a fan-out"),
        ("a =w S>a a?w|E w>E", "w takes an input, but the branch from a brings none"),
        ("a =w S>a a>E a*w w>E a=w", "w takes an input, but the join from a brings none"),
        ("=w S>w w>E", "w takes an input, but the edge from __start__ brings none"),
        ("a b S>a a*b b>E", "the fan-out from a sends to b, which takes no input: define it with `node_with_input`"),
        ("a =w S>a a*w w>E w!", "w takes an input and cannot be deferred: defer the node after it"),
        ("a b S>a a>E b>E", "no way leads from START to b: add an edge to it or remove it"),
        ("a b S>a a>b", "nothing leads out of b: add an edge or a branch, if only to END"),
        ("a b S?a|b a>a b>E", "no way leads from a to END: an execution that gets there could never complete"),
        ("a S>a a>a a>E", "no way leads from a to END"),
        ("a b S>a a>b b~a", "no way leads from a to END"),
        ("a b c S>a b>a a+b=c c>b", "the join at c can never fire: b is reached only through it"),
        ("a c d S>a a+d=c a+c=d c>E d>E", "the join at c can never fire: d is reached only through it"),
        ("a b c S>a a>b b>c a>c c>E", "two ways that a takes at once meet at c after different numbers of supersteps"),
        ("b c S>b b>c S>c c>E", "two ways that __start__ takes at once meet at c"),
        ("a =w c S>a a*w w>c a>c c>E", "two ways that a takes at once meet at c"),
        ("a b c d e S>a a>b b>c a>d c>e d>e e>E", "two ways that a takes at once meet at e"),
        ("a b c S>a a>b a>c b?b|E c>b", "two ways that a takes at once meet at b"),
        ("a b c d S>a a>b a>c b?a|E c>d d?a|E", "two ways that a takes at once meet at a"),
    ] {
        let error = of(words).build().map(drop).expect_err(words).to_string();
        assert!(error.contains(expected), "{words}: {error}");
    }
    let long = "x".repeat(65);
    assert_eq!(builder().node(&long, nothing).build().unwrap_err(), GraphError::Name { node: long });
    let policy = of("a S>a a>E").policy("b", NodePolicy::default()).build().unwrap_err();
    assert_eq!(policy, GraphError::NoNode { said: "policy", node: "b".to_owned() });
    let requires = of("a S>a a>E").requires("b", &Key::<str>::new("text")).build().unwrap_err();
    assert_eq!(requires, GraphError::NoNode { said: "requires", node: "b".to_owned() });
}

#[test]
fn the_first_mistake_is_reported() {
    let error = of("a a B S>a a>E").build().unwrap_err();
    assert_eq!(error, GraphError::Duplicate { node: "a".to_owned() });
}

#[test]
fn what_goes_well_is_not_refused() {
    for words in [
        "S>E",
        "a S>a a>E",
        "a b S>a a?a|b|E b>a",
        // Ways of equal length meet without ceremony.
        "a b c d S>a a>b a>c b>d c>d d>E",
        "a =w c S>a a*w w>c c>E",
        // Ways of unequal length meet in what waits, or where that is meant.
        "a b c d S>a a>b b>c a>d c+d=e d>E e e>E",
        "a b c d S>a a>b b>c a>d c>d d! d>E",
        "a b c d S>a a>b b>c a>d c>d d^ d>E",
        // Only one of the two is ever taken.
        "a b c S>a a?b|c b>c c>E",
        "a b c S>a a~b a>c b>c c>E",
        // Both end by themselves.
        "a b c S>a a>b b>c a>E c>E",
        // Loops: back to the fork, alone or together.
        "a b c S>a a>b a>c b>E c?a|E",
        "a b c d S>a a>b a>c b+c=d d?a|E",
        // A join whose origin is reached through it, but not only.
        "c a S>c c>a a=c a~E",
        "a S>a a~a|E",
        "a =w S>a a~w w>E a>E",
        "a c S>a a>c c! c>E",
    ] {
        if let Err(error) = of(words).build() {
            panic!("{words}: {error}");
        }
    }
}

/// A chain of this many nodes after a fork of ten.
fn long(nodes: usize) -> Result<Graph<Empty>, GraphError> {
    let name = |n: usize| format!("node-{n}");
    let mut graph = (0..nodes).fold(builder(), |graph, n| graph.node(&name(n), nothing));
    for n in 0..10 {
        graph = graph.edge(START, &name(n));
    }
    for n in 0..nodes {
        let to = if n + 10 < nodes { name(n + 10) } else { END.to_owned() };
        graph = graph.edge(&name(n), &to);
    }
    graph.build()
}

#[test]
fn a_graph_of_a_thousand_nodes_is_checked_in_no_time() {
    let begun = Instant::now();
    assert_eq!(long(1000).unwrap().shape().nodes.len(), 1000);
    let joined: Vec<String> = (0..998).map(|n| format!("n{n}")).collect();
    let mut graph =
        joined.iter().fold(builder().node("all", nothing), |graph, name| graph.node(name, nothing).edge(START, name));
    graph = graph.join(&joined.iter().map(String::as_str).collect::<Vec<_>>(), "all").edge("all", END);
    graph.build().unwrap();
    assert!(begun.elapsed().as_secs() < 5, "{:?}", begun.elapsed());
}

#[test]
fn the_fingerprint_follows_the_shape() {
    let print = |words: &str| *of(words).build().unwrap().fingerprint();
    let one = print("a b S>a a?b|E b>E");
    assert_eq!(one, print("b a a?b|E b>E S>a"), "the order in which nodes are written down is nothing");
    let others = [
        "a b S>a a?b|a|E b>E",
        "a b S>a a>b b>E",
        "a b S>a a?b|E b>E a~b",
        "a b S>a a?b|E b>E b!",
        "a b S>a a?b|E b>E a=b",
        "a b =w S>a a?b|E b>E a*w w>E",
    ];
    let mut prints: Vec<_> = others.iter().map(|words| print(words)).collect();
    let child = |words: &str| builder().shared_subgraph("a", of(words).build().unwrap());
    for inner in ["x S>x x>E", "y S>y y>E"] {
        let outer = child(inner).node("b", nothing).edge(START, "a").branch("a", &["b", END], |_| END).edge("b", END);
        prints.push(*outer.build().unwrap().fingerprint());
    }
    prints.push(one);
    let count = prints.len();
    prints.sort();
    prints.dedup();
    assert_eq!(prints.len(), count);
}

#[test]
fn a_graph_is_drawn() {
    let inner = of("x-1 S>x-1 x-1>E").build().unwrap();
    let graph = of("plan =w collect final-check S>plan plan?plan|final-check plan*w w=collect final-check>E collect>E")
        .shared_subgraph("inner", inner)
        .goto("final-check", &["inner"])
        .edge("inner", END)
        .build();
    assert_eq!(
        graph.unwrap().to_mermaid(),
        "flowchart TD
    subgraph n_inner[\"inner\"]
        n_inner_start_([start]) --> n_inner_n_x_1[x-1]
        n_inner_n_x_1[x-1] --> n_inner_end_([end])
    end
    start_([start]) --> n_plan[plan]
    n_collect[collect] --> end_([end])
    n_final_check[final-check] --> end_([end])
    n_final_check[final-check] -. goto .-> n_inner
    n_inner --> end_([end])
    n_plan[plan] -.-> n_plan[plan]
    n_plan[plan] -.-> n_final_check[final-check]
    n_plan[plan] ==> n_w[w]
    n_w[w] -- join --> n_collect[collect]
"
    );
    let mut shape = of("a S>a a>E").build().unwrap().shape().clone();
    let evil: Arc<str> = "a]\n end[\"x".into();
    shape.ways.insert(START.into(), crate::Ways { edges: vec![evil.clone()], ..crate::Ways::default() });
    assert!(shape.to_mermaid().contains("start_([start]) --> n_a______end____x[a#93;#10;#32;end#91;#34;x]\n"));
}

#[test]
fn what_nodes_require_is_known_through_subgraphs() {
    let key = Key::<str>::new("text");
    let inner = of("x S>x x>E").requires("x", &key).build().unwrap();
    let graph = of("S>a a>E").shared_subgraph("a", inner).requires("a", &Key::<u8>::new("number")).build().unwrap();
    let missing = |resources: &crate::Resources| {
        let missing = graph.missing_resources(resources);
        missing.into_iter().map(|missing| format!("{} {}", missing.node, missing.resource)).collect::<Vec<_>>()
    };
    assert_eq!(missing(&crate::Resources::new()), ["a number (u8)", "a>x text (str)"]);
    assert_eq!(missing(&crate::Resources::new().with_key(&key, "hi".into())), ["a number (u8)"]);
}

//! What is refused when a graph is built, and how it is drawn.

use std::sync::Arc;

use longhaul_durable::{END, GraphBuilder, NodeContext, NodeError, START, StepId};
use proptest::prelude::*;

use crate::support::Words;

async fn nothing(_: NodeContext, _: Arc<Words>) -> Result<Vec<String>, NodeError> {
    Ok(Vec::new())
}

/// Builds a graph of these nodes and edges (`a>b`, `a?b|c`) and gives the error.
fn refused(nodes: &[&str], ways: &[&str]) -> String {
    builder(nodes, ways).build().expect_err("the graph was built").to_string()
}

fn builder(nodes: &[&str], ways: &[&str]) -> GraphBuilder<Words> {
    let mut graph = nodes.iter().fold(GraphBuilder::new("test", 1), |graph, node| graph.node(node, nothing));
    for way in ways {
        let name = |name| match name {
            "S" => START,
            "E" => END,
            other => other,
        };
        graph = match (way.split_once('>'), way.split_once('?')) {
            (Some((from, to)), _) => graph.edge(name(from), name(to)),
            (None, Some((from, to))) => {
                let targets: Vec<&str> = to.split('|').filter(|to| !to.is_empty()).map(name).collect();
                graph.branch(name(from), &targets, |_| END)
            }
            (None, None) => panic!("{way}"),
        };
    }
    graph
}

#[test]
fn a_graph_that_could_go_wrong_is_refused_by_name() {
    let long = "x".repeat(65);
    for (nodes, ways, expected) in [
        (&["a", "a"][..], &["S>a", "a>E"][..], "the node a is defined twice"),
        (&["A"], &["S>A", "A>E"], "\"A\" cannot name a node"),
        (&[long.as_str()], &[], "cannot name a node"),
        (&[END], &[], "cannot name a node"),
        (&["a"], &["a>E"], "nothing leads from START"),
        (&["a"], &["S>b", "a>E"], "there is no node b"),
        (&["a"], &["S>a", "a>E", "b>a"], "there is no node b"),
        (&["a"], &["S>a", "a?a|b|E"], "a leads to b, but there is no node b"),
        (&["a"], &["S>a", "a>E", "a>a"], "no way leads from a to END"),
        (&["a"], &["S>a", "a?"], "the branch at a names no node"),
        (&["a", "b"], &["S>a", "a>E", "b>E"], "no way leads from START to b"),
        (&["a", "b"], &["S>a", "a>b"], "nothing leads out of b"),
        (&["a", "b"], &["S?a|b", "a>a", "b>E"], "no way leads from a to END"),
        (&["a"], &["S>a", "a>__start__"], "there is no node __start__"),
    ] {
        let error = refused(nodes, ways);
        assert!(error.contains(expected), "{ways:?}: {error}");
    }
}

#[test]
fn a_graph_is_drawn_and_its_fingerprint_follows_its_shape() {
    let graph =
        builder(&["plan", "final-check"], &["S>plan", "plan?plan|final-check", "final-check>E"]).build().unwrap();
    assert_eq!(
        graph.to_mermaid(),
        "flowchart TD
    start_([start]) --> n_plan[plan]
    n_final_check[final-check] --> end_([end])
    n_plan[plan] -.-> n_plan[plan]
    n_plan[plan] -.-> n_final_check[final-check]
"
    );
    let fingerprint = |nodes: &[&str], ways: &[&str]| builder(nodes, ways).build().unwrap().shape().fingerprint();
    let one = fingerprint(&["a", "b"], &["S>a", "a?b|E", "b>E"]);
    assert_eq!(one, fingerprint(&["b", "a"], &["a?b|E", "b>E", "S>a"]));
    assert_ne!(one, fingerprint(&["a", "b"], &["S>a", "a?b|a|E", "b>E"]));
    assert_ne!(one, fingerprint(&["a", "b"], &["S>a", "a>b", "b>E"]));
}

proptest! {
    #[test]
    fn a_step_id_is_parsed_back_from_its_printed_form(
        node in "[a-z_-]{1,20}", superstep in 0_u64..=u64::MAX, name in ".{1,40}", ordinal in 0_u32..=u32::MAX,
        frames in proptest::collection::vec((1_u64..100, 0_u32..100, "[a-z_-]{1,20}"), 0..3), task in 0_u32..3,
    ) {
        let ns: String = frames.iter().map(|(superstep, task, node)| format!("{superstep}.{task}.{node}>")).collect();
        let id = StepId { execution: "exec_1".parse().unwrap(), ns, superstep, task, node, ordinal, name };
        prop_assert_eq!(id.to_string().parse::<StepId>().unwrap(), id);
    }

    #[test]
    fn no_text_breaks_the_parser_of_step_ids(text in ".{0,80}") {
        let _ = text.parse::<StepId>();
    }
}

//! The shape of a graph, as plain data: which nodes there are and where each may lead.
//!
//! It knows neither state nor code. What is wrong with a shape is found by `check`, its picture is drawn by `mermaid`,
//! and walking it is the business of `machine`.

use std::{collections::BTreeMap, sync::Arc};

use longhaul_core::Digest;
use serde::{Deserialize, Serialize};

/// Where every execution begins; only ever the origin of an edge.
pub const START: &str = "__start__";
/// Where a way through the graph ends; only ever a target. The execution is complete when no way is left.
pub const END: &str = "__end__";

/// Everything about a graph that is data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// The graph's name.
    pub name: String,
    /// Its version, raised by its author when recorded executions can no longer be replayed by it.
    pub version: u32,
    /// The declared fields of its state, each with its reducer.
    pub fields: BTreeMap<String, String>,
    /// Every node, START and END not among them.
    pub nodes: BTreeMap<Arc<str>, NodeShape>,
    /// How each node, and START, is left.
    pub ways: BTreeMap<Arc<str>, Ways>,
    /// The nodes that wait for several others, each with those others.
    pub joins: BTreeMap<Arc<str>, Vec<Arc<str>>>,
}

/// What is said of one node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeShape {
    /// It is sent to, with an input, and never reached by an edge.
    pub takes_input: bool,
    /// It waits until nothing else is left to do.
    pub deferred: bool,
    /// It may run once for each of several ways that lead to it.
    pub each_arrival: bool,
    /// It is a graph of its own.
    pub child: Option<Box<Child>>,
}

/// A graph inside a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Child {
    /// Its shape.
    pub shape: Shape,
    /// Whether it works on the parent's state.
    pub shared: bool,
}

/// How a node is left: along all of these at once, except that the node itself may say `goto` instead.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ways {
    /// Always to all of these.
    pub edges: Vec<Arc<str>>,
    /// To one of these, as the state says; empty without a branch.
    pub branch: Vec<Arc<str>>,
    /// To these with inputs, as often as the state says; empty without a fan-out.
    pub fan_out: Vec<Arc<str>>,
    /// What the node itself may name instead.
    pub goto: Vec<Arc<str>>,
    /// The joins for which the node's end counts.
    pub joins: Vec<Arc<str>>,
}

impl Ways {
    /// Every target with how it is reached.
    pub(crate) fn all(&self) -> impl Iterator<Item = (Way, &Arc<str>)> {
        let kinds = [
            (Way::Edge, &self.edges),
            (Way::Branch, &self.branch),
            (Way::FanOut, &self.fan_out),
            (Way::Goto, &self.goto),
            (Way::Join, &self.joins),
        ];
        kinds.into_iter().flat_map(|(way, targets)| targets.iter().map(move |target| (way, target)))
    }
}

/// How one node leads to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Way {
    /// Always.
    Edge,
    /// If the state says so.
    Branch,
    /// With inputs, as the state says.
    FanOut,
    /// If the node's own answer says so.
    Goto,
    /// Together with the join's other origins.
    Join,
}

impl std::fmt::Display for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Edge => "edge",
            Self::Branch => "branch",
            Self::FanOut => "fan-out",
            Self::Goto => "goto",
            Self::Join => "join",
        })
    }
}

impl Shape {
    /// Changes whenever anything in it does, subgraphs included.
    #[must_use]
    pub fn fingerprint(&self) -> Digest {
        // Maps are ordered and lists are as declared, so equal shapes give equal text.
        let text = serde_json::to_string(self).expect("a shape holds strings, numbers and flags only");
        Digest::of_parts([b"shape 2".as_slice(), text.as_bytes()])
    }

    /// What the first release would have made of it, if it could have been built there: one edge or one branch out of
    /// each node, and nothing else.
    pub(crate) fn first_fingerprint(&self) -> Option<Digest> {
        let plain = |node: &NodeShape| *node == NodeShape::default();
        if !self.joins.is_empty() || !self.nodes.values().all(plain) {
            return None;
        }
        let mut parts = vec![self.name.clone(), self.version.to_string()];
        parts.extend(self.nodes.keys().map(ToString::to_string));
        for (from, ways) in &self.ways {
            if !ways.fan_out.is_empty() || !ways.goto.is_empty() || !ways.joins.is_empty() {
                return None;
            }
            let (kind, targets) = match (&ways.edges[..], &ways.branch[..]) {
                (edge @ [_], []) => ("edge", edge),
                ([], branch @ [_, ..]) => ("branch", branch),
                ([], []) => continue,
                (_, _) => return None,
            };
            parts.push(from.to_string());
            parts.push(kind.to_owned());
            parts.extend(targets.iter().map(ToString::to_string));
        }
        Some(Digest::of_parts(parts.iter().map(String::as_bytes)))
    }
}

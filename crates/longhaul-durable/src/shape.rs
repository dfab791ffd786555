//! The shape of a graph, as plain data: which nodes there are and where each may lead.
//!
//! It owns the checks of a graph and its picture; it knows neither state nor code. Invariant: a shape that passed
//! [`Shape::check`] can be walked from the start, and from every node the end can be reached.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use longhaul_core::Digest;
use serde::{Deserialize, Serialize};

/// Where every execution begins; only ever the origin of an edge.
pub const START: &str = "__start__";
/// Where an execution is complete; only ever a target.
pub const END: &str = "__end__";

/// How a node is left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// Always to this node.
    Edge(String),
    /// To one of these, as the state says.
    Branch(Vec<String>),
}

impl Way {
    fn targets(&self) -> &[String] {
        match self {
            Self::Edge(target) => std::slice::from_ref(target),
            Self::Branch(targets) => targets,
        }
    }
}

/// Why a graph cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GraphError {
    /// A name outside the grammar.
    #[error("{node:?} cannot name a node: use 1 to 64 of `a-z`, `0-9`, `_`, `-`, and not {START} or {END}")]
    Name {
        /// The name.
        node: String,
    },
    /// Two nodes of one name.
    #[error("the node {node} is defined twice: rename one of them")]
    Duplicate {
        /// The name.
        node: String,
    },
    /// An edge or branch that begins or ends at a node that does not exist.
    #[error("{from} leads to {to}, but there is no node {missing}: define it or correct the name")]
    Unknown {
        /// Where the edge begins.
        from: String,
        /// Where it ends.
        to: String,
        /// Which of the two does not exist.
        missing: String,
    },
    /// Nothing says where the execution begins.
    #[error("nothing leads from START: add an edge from it to the first node")]
    NoStart,
    /// A node with no edge or branch that leaves it.
    #[error("nothing leads out of {node}: add an edge or a branch, if only to END")]
    NoWayOut {
        /// The node.
        node: String,
    },
    /// More than one edge or branch leaves a node.
    #[error("{node} is left in two ways: use one branch that chooses between them")]
    TwoWaysOut {
        /// The node.
        node: String,
    },
    /// A branch without targets.
    #[error("the branch at {node} has no targets: name every node that it may choose")]
    EmptyBranch {
        /// The node.
        node: String,
    },
    /// A node to which no way leads.
    #[error("no way leads from START to {node}: add an edge to it or remove it")]
    Unreachable {
        /// The node.
        node: String,
    },
    /// A node from which the end cannot be reached.
    #[error("no way leads from {node} to END: an execution that gets there could never complete")]
    NeverEnds {
        /// The node.
        node: String,
    },
}

/// Nodes and the ways between them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// The graph's name.
    pub name: String,
    /// Its version, raised by its author when recorded executions can no longer be replayed by it.
    pub version: u32,
    /// Every node, START and END not among them.
    pub nodes: BTreeSet<String>,
    /// How each node, and START, is left.
    pub ways: BTreeMap<String, Way>,
}

impl Shape {
    /// Checks all that can be known before an execution begins.
    ///
    /// # Errors
    /// The first thing found wrong.
    pub fn check(&self) -> Result<(), GraphError> {
        if !self.ways.contains_key(START) {
            return Err(GraphError::NoStart);
        }
        for (from, way) in &self.ways {
            if way.targets().is_empty() {
                return Err(GraphError::EmptyBranch { node: from.clone() });
            }
            for to in way.targets() {
                let unknown = |missing: &String| GraphError::Unknown {
                    from: from.clone(),
                    to: to.clone(),
                    missing: missing.clone(),
                };
                if from != START && !self.nodes.contains(from) {
                    return Err(unknown(from));
                }
                if to != END && !self.nodes.contains(to) {
                    return Err(unknown(to));
                }
            }
        }
        if let Some(node) = self.nodes.iter().find(|node| !self.ways.contains_key(*node)) {
            return Err(GraphError::NoWayOut { node: node.clone() });
        }
        let reached = self.reached_from(START);
        if let Some(node) = self.nodes.iter().find(|node| !reached.contains(node.as_str())) {
            return Err(GraphError::Unreachable { node: node.clone() });
        }
        match self.nodes.iter().find(|node| !self.reached_from(node).contains(END)) {
            Some(node) => Err(GraphError::NeverEnds { node: node.clone() }),
            None => Ok(()),
        }
    }

    fn reached_from<'a>(&'a self, origin: &'a str) -> BTreeSet<&'a str> {
        let mut reached = BTreeSet::from([origin]);
        let mut open = vec![origin];
        while let Some(node) = open.pop() {
            let targets = self.ways.get(node).map_or(&[][..], Way::targets);
            open.extend(targets.iter().map(String::as_str).filter(|target| reached.insert(target)));
        }
        reached
    }

    /// Changes whenever the nodes or the ways between them do.
    #[must_use]
    pub fn fingerprint(&self) -> Digest {
        let mut parts = vec![self.name.clone(), self.version.to_string()];
        parts.extend(self.nodes.iter().cloned());
        for (from, way) in &self.ways {
            parts.push(from.clone());
            parts.push(if matches!(way, Way::Edge(_)) { "edge" } else { "branch" }.to_owned());
            parts.extend(way.targets().iter().cloned());
        }
        Digest::of_parts(parts.iter().map(String::as_bytes))
    }

    /// The graph as a Mermaid flow chart; branches are dotted.
    #[must_use]
    pub fn to_mermaid(&self) -> String {
        let id = |node: &str| match node {
            START => "start_([start])".to_owned(),
            END => "end_([end])".to_owned(),
            // A prefix, for some of Mermaid's own words (`end`) cannot name a node.
            other => format!("n_{}[{other}]", other.replace('-', "_")),
        };
        let mut text = String::from("flowchart TD\n");
        let in_order =
            self.ways.get_key_value(START).into_iter().chain(self.ways.iter().filter(|(from, _)| *from != START));
        for (from, way) in in_order {
            let arrow = if matches!(way, Way::Edge(_)) { "-->" } else { "-.->" };
            for to in way.targets() {
                let _ = writeln!(text, "    {} {arrow} {}", id(from), id(to));
            }
        }
        text
    }
}

pub(crate) fn is_node_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-')
        && name != START
        && name != END
}

//! A graph of typed state: nodes as code, edges and branches, checked when it is built.
//!
//! It owns the pairing of a shape with its code. Invariant: a [`Graph`] has passed every check of its shape, so the
//! driver never meets a node that does not exist.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    sync::Arc,
};

use futures::future::{BoxFuture, FutureExt};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    NodeContext, NodeError,
    position::{BranchError, Position},
    shape::{GraphError, START, Shape, Way, is_node_name},
};

/// The state that a graph works on. It is plain data: a live object in it does not compile.
///
/// A checkpoint stores the update, not the state; so [`Self::apply`] must be a pure function of both, and stay the same
/// between releases that replay the same executions. Maps should be ordered ones.
///
/// ```compile_fail,E0277
/// #[derive(Clone, serde::Serialize, serde::Deserialize)]
/// struct State {
///     browser: std::sync::Arc<std::process::Child>, // a live object is no data
/// }
/// ```
pub trait GraphState: Serialize + DeserializeOwned + Clone + Send + Sync + 'static {
    /// What a node changes.
    type Update: Serialize + DeserializeOwned + Send + 'static;

    /// Fields of the state that only ever grow by whole items. They do not count towards the size of the state; each
    /// item is limited instead (invariant 5).
    const APPEND_ONLY: &'static [&'static str] = &[];

    /// Reduces an update into the state.
    fn apply(&mut self, update: Self::Update);
}

type NodeCode<S> =
    Arc<dyn Fn(NodeContext, S) -> BoxFuture<'static, Result<<S as GraphState>::Update, NodeError>> + Send + Sync>;
type BranchCode<S> = Arc<dyn Fn(&S) -> &'static str + Send + Sync>;

/// A checked graph. Cheap to clone.
pub struct Graph<S: GraphState> {
    shape: Arc<Shape>,
    nodes: Arc<BTreeMap<String, NodeCode<S>>>,
    branches: Arc<BTreeMap<String, BranchCode<S>>>,
}

impl<S: GraphState> Clone for Graph<S> {
    fn clone(&self) -> Self {
        Self { shape: self.shape.clone(), nodes: self.nodes.clone(), branches: self.branches.clone() }
    }
}

impl<S: GraphState> std::fmt::Debug for Graph<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Graph").field("shape", &self.shape).finish_non_exhaustive()
    }
}

impl<S: GraphState> Graph<S> {
    /// Nodes and ways, as plain data.
    #[must_use]
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The graph as a Mermaid flow chart.
    #[must_use]
    pub fn to_mermaid(&self) -> String {
        self.shape.to_mermaid()
    }

    pub(crate) fn start(&self, state: &S) -> Result<Position, BranchError> {
        Position::start(&self.shape, self.choose(START, state))
    }

    pub(crate) fn after(&self, position: &Position, node: &str, state: &S) -> Result<Position, BranchError> {
        position.after(&self.shape, node, self.choose(node, state))
    }

    /// The node's future, or nothing when there is no such node.
    pub(crate) fn run(
        &self,
        node: &str,
        context: NodeContext,
        state: S,
    ) -> Option<BoxFuture<'static, Result<S::Update, NodeError>>> {
        self.nodes.get(node).map(|code| code(context, state))
    }

    fn choose(&self, node: &str, state: &S) -> Option<&'static str> {
        self.branches.get(node).map(|branch| branch(state))
    }
}

/// Builds a [`Graph`]. Mistakes are collected and reported by [`GraphBuilder::build`].
pub struct GraphBuilder<S: GraphState> {
    shape: Shape,
    nodes: BTreeMap<String, NodeCode<S>>,
    branches: BTreeMap<String, BranchCode<S>>,
    wrong: Option<GraphError>,
}

impl<S: GraphState> GraphBuilder<S> {
    /// An empty graph. Raise the version when recorded executions can no longer be replayed by the graph's code.
    #[must_use]
    pub fn new(name: &str, version: u32) -> Self {
        Self {
            shape: Shape { name: name.to_owned(), version, nodes: BTreeSet::new(), ways: BTreeMap::new() },
            nodes: BTreeMap::new(),
            branches: BTreeMap::new(),
            wrong: None,
        }
    }

    /// A node. After a crash its code runs again from its top; its recorded steps return what they returned.
    #[must_use]
    pub fn node<F, R>(mut self, name: &str, code: F) -> Self
    where
        F: Fn(NodeContext, S) -> R + Send + Sync + 'static,
        R: Future<Output = Result<S::Update, NodeError>> + Send + 'static,
    {
        if !is_node_name(name) {
            self.wrong.get_or_insert(GraphError::Name { node: name.to_owned() });
        }
        if !self.shape.nodes.insert(name.to_owned()) {
            self.wrong.get_or_insert(GraphError::Duplicate { node: name.to_owned() });
        }
        self.nodes.insert(name.to_owned(), Arc::new(move |context, state| code(context, state).boxed()));
        self
    }

    /// Always goes from one node to another. [`START`] and [`crate::END`] are the outer ends.
    #[must_use]
    pub fn edge(self, from: &str, to: &str) -> Self {
        self.way(from, Way::Edge(to.to_owned()))
    }

    /// Goes to one of `targets`, as `choose` says of the state after the node. `choose` must depend on nothing else.
    #[must_use]
    pub fn branch<F>(mut self, from: &str, targets: &[&str], choose: F) -> Self
    where
        F: Fn(&S) -> &'static str + Send + Sync + 'static,
    {
        self.branches.insert(from.to_owned(), Arc::new(choose));
        self.way(from, Way::Branch(targets.iter().map(|target| (*target).to_owned()).collect()))
    }

    /// Checks the graph.
    ///
    /// # Errors
    /// The first mistake: an unknown, unreachable or doubly defined node, a missing way out, no way to the end.
    pub fn build(self) -> Result<Graph<S>, GraphError> {
        if let Some(wrong) = self.wrong {
            return Err(wrong);
        }
        self.shape.check()?;
        Ok(Graph { shape: Arc::new(self.shape), nodes: Arc::new(self.nodes), branches: Arc::new(self.branches) })
    }

    fn way(mut self, from: &str, way: Way) -> Self {
        if self.shape.ways.insert(from.to_owned(), way).is_some() {
            self.wrong.get_or_insert(GraphError::TwoWaysOut { node: from.to_owned() });
        }
        self
    }
}

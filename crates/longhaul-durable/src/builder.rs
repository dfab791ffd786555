//! Building a graph: nodes, ways between them, subgraphs.
//!
//! It owns the words in which a graph is written down. Invariant: mistakes are collected, and the first is reported by
//! [`GraphBuilder::build`]; nothing panics.

use std::{collections::BTreeMap, error::Error, future::Future, sync::Arc};

use futures::future::FutureExt;
use longhaul_core::Digest;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    Flow, Graph, GraphState, Key, NodeContext, NodeError, NodePolicy, RouteError,
    check::GraphError,
    flow::{self, Answer, Input, Route},
    graph::{BlobsOf, MigrateFrom, Migration, MissingResource, NodeCode, NodeParts, Parts},
    machine::Position,
    migrate,
    shape::{Child, END, NodeShape, START, Shape, Way, Ways},
};

/// Builds a [`Graph`]. Mistakes are collected and reported by [`GraphBuilder::build`].
#[must_use]
pub struct GraphBuilder<S: GraphState> {
    shape: Shape,
    nodes: BTreeMap<Arc<str>, NodeParts<S>>,
    state_version: u32,
    migrations: Vec<Migration>,
    compatible: Vec<Digest>,
    blobs: Option<BlobsOf<S>>,
    required_inside: Vec<MissingResource>,
    /// What was said of nodes that may be defined later: what, and of which node.
    said: Vec<(&'static str, Arc<str>)>,
    wrong: Option<GraphError>,
}

impl<S: GraphState> GraphBuilder<S> {
    /// An empty graph. Raise the version when recorded executions can no longer be replayed by the graph's code.
    pub fn new(name: &str, version: u32) -> Self {
        let fields = S::FIELDS.iter().map(|field| (field.name.to_owned(), field.reducer.words())).collect();
        Self {
            shape: Shape {
                name: name.to_owned(),
                version,
                fields,
                nodes: BTreeMap::new(),
                ways: BTreeMap::new(),
                joins: BTreeMap::new(),
            },
            nodes: BTreeMap::new(),
            state_version: 1,
            migrations: Vec::new(),
            compatible: Vec::new(),
            blobs: None,
            required_inside: Vec::new(),
            said: Vec::new(),
            wrong: None,
        }
    }

    /// A node: its code answers with an update of the state, or with a [`Flow`]. After a crash it runs again from its
    /// top; its recorded steps return what they returned.
    pub fn node<F, R, A>(self, name: &str, code: F) -> Self
    where
        F: Fn(NodeContext, Arc<S>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<A, NodeError>> + Send + 'static,
        A: Into<Flow<S::Update>>,
    {
        let from: Arc<str> = name.into();
        let run: NodeCode<S> = Arc::new(move |context, state, _| {
            let (work, from) = (code(context, state), from.clone());
            async move { Ok(answer(&from, work.await?)?) }.boxed()
        });
        self.add_node(name, NodeShape::default(), run)
    }

    /// A node that runs once for each input that is sent to it, by a fan-out or by another node's answer.
    pub fn node_with_input<I, F, R, A>(self, name: &str, code: F) -> Self
    where
        I: DeserializeOwned,
        F: Fn(NodeContext, Arc<S>, I) -> R + Send + Sync + 'static,
        R: Future<Output = Result<A, NodeError>> + Send + 'static,
        A: Into<Flow<S::Update>>,
    {
        let from: Arc<str> = name.into();
        let run: NodeCode<S> = Arc::new(move |context, state, input| {
            let from = from.clone();
            match read(&from, input) {
                Ok(input) => {
                    let work = code(context, state, input);
                    async move { Ok(answer(&from, work.await?)?) }.boxed()
                }
                Err(error) => std::future::ready(Err(error.into())).boxed(),
            }
        });
        self.add_node(name, NodeShape { takes_input: true, ..NodeShape::default() }, run)
    }

    /// Always goes from one node to another. [`START`] and [`END`] are the outer ends. Several edges out of one node
    /// are taken in parallel; a node to which several tasks of one superstep lead runs once after them.
    pub fn edge(mut self, from: &str, to: &str) -> Self {
        let ways = self.ways(from);
        if ways.edges.iter().any(|known| &**known == to) {
            return self.wrong(GraphError::DoubleEdge { from: from.to_owned(), to: to.to_owned() });
        }
        ways.edges.push(to.into());
        self
    }

    /// Goes to one of `targets`, as `choose` says of the state after the superstep. `choose` must depend on nothing
    /// else.
    pub fn branch<F>(mut self, from: &str, targets: &[&str], choose: F) -> Self
    where
        F: Fn(&S) -> &'static str + Send + Sync + 'static,
    {
        self.nodes.entry(from.into()).or_default().branch = Some(Arc::new(choose));
        self.targets(from, Way::Branch, targets)
    }

    /// Runs nodes of `targets` in parallel, each as often and with such inputs as `choose` says of the state after the
    /// superstep. `choose` must depend on nothing else.
    pub fn fan_out<F>(mut self, from: &str, targets: &[&str], choose: F) -> Self
    where
        F: Fn(&S) -> Vec<flow::Send> + Send + Sync + 'static,
    {
        self.nodes.entry(from.into()).or_default().fan_out = Some(Arc::new(choose));
        self.targets(from, Way::FanOut, targets)
    }

    /// Declares where the node's own answer may lead, by [`Flow::goto`] or [`Flow::send`], instead of along its edges.
    pub fn goto(self, from: &str, targets: &[&str]) -> Self {
        self.targets(from, Way::Goto, targets)
    }

    /// Runs `to` once whenever each of `from` has finished, without going elsewhere by itself, since it last did so.
    pub fn join(mut self, from: &[&str], to: &str) -> Self {
        if from.is_empty() {
            return self.wrong(GraphError::NoTargets { node: to.to_owned(), way: Way::Join });
        }
        if self.shape.joins.contains_key(to) {
            return self.wrong(GraphError::TwoJoins { node: to.to_owned() });
        }
        let to: Arc<str> = to.into();
        let mut origins: Vec<Arc<str>> = from.iter().map(|origin| Arc::from(*origin)).collect();
        origins.sort();
        origins.dedup();
        for origin in &origins {
            self.ways(origin).joins.push(to.clone());
        }
        self.shape.joins.insert(to, origins);
        self
    }

    /// The node waits until nothing else is left to do, and then runs once.
    pub fn deferred(self, node: &str) -> Self {
        self.say("deferred", node, |shape| shape.deferred = true)
    }

    /// Says that the node may well run once for each of several ways of unequal length that lead to it.
    pub fn each_arrival(self, node: &str) -> Self {
        self.say("each_arrival", node, |shape| shape.each_arrival = true)
    }

    /// A node that is a graph of its own, with its own state: `begin` makes that state, `end` makes an update out of
    /// what became of it.
    pub fn subgraph<C, B, E>(mut self, name: &str, child: Graph<C>, begin: B, end: E) -> Self
    where
        C: GraphState,
        B: Fn(&S) -> C + Send + Sync + 'static,
        E: Fn(C) -> S::Update + Send + Sync + 'static,
    {
        let shape = NodeShape { child: Some(self.adopt(name, &child, false)), ..NodeShape::default() };
        let end = Arc::new(end);
        let run: NodeCode<S> = Arc::new(move |context, state, _| {
            let (child, initial, end) = (child.clone(), begin(&state), end.clone());
            async move {
                let frame = context.run_frame(child, initial, false).await?;
                Ok(Answer { updates: vec![end(frame.state)], route: Route::default() })
            }
            .boxed()
        });
        self.add_node(name, shape, run)
    }

    /// Like [`Self::subgraph`], once for each input that is sent to it.
    pub fn subgraph_with_input<I, C, B, E>(mut self, name: &str, child: Graph<C>, begin: B, end: E) -> Self
    where
        I: DeserializeOwned,
        C: GraphState,
        B: Fn(&S, I) -> C + Send + Sync + 'static,
        E: Fn(C) -> S::Update + Send + Sync + 'static,
    {
        let child_shape = self.adopt(name, &child, false);
        let shape = NodeShape { takes_input: true, child: Some(child_shape), ..NodeShape::default() };
        let (from, end): (Arc<str>, _) = (name.into(), Arc::new(end));
        let run: NodeCode<S> = Arc::new(move |context, state, input| {
            let (child, end) = (child.clone(), end.clone());
            let initial = read(&from, input).map(|input| begin(&state, input));
            async move {
                let frame = context.run_frame(child, initial?, false).await?;
                Ok(Answer { updates: vec![end(frame.state)], route: Route::default() })
            }
            .boxed()
        });
        self.add_node(name, shape, run)
    }

    /// A node that is a graph on the same state: it begins with the state as it is, and its updates become the node's,
    /// in order.
    pub fn shared_subgraph(mut self, name: &str, child: Graph<S>) -> Self {
        let shape = NodeShape { child: Some(self.adopt(name, &child, true)), ..NodeShape::default() };
        let run: NodeCode<S> = Arc::new(move |context, state, _| {
            let child = child.clone();
            async move {
                let frame = context.run_frame(child, S::clone(&state), true).await?;
                Ok(Answer { updates: frame.updates, route: Route::default() })
            }
            .boxed()
        });
        self.add_node(name, shape, run)
    }

    /// Rules for a node: retries, limits of time, caching.
    pub fn policy(mut self, node: &str, policy: NodePolicy) -> Self {
        self.said.push(("policy", node.into()));
        self.nodes.entry(node.into()).or_default().policy = Some(policy);
        self
    }

    /// Declares a live object that the node needs, so that its absence is found before the run begins.
    pub fn requires<T: ?Sized + 'static>(mut self, node: &str, key: &Key<T>) -> Self {
        self.said.push(("requires", node.into()));
        self.nodes.entry(node.into()).or_default().requires.push(key.id());
        self
    }

    /// The version of the state's form, from 1; raise it together with a migration from the one before.
    pub fn state_version(mut self, version: u32) -> Self {
        self.state_version = version;
        self
    }

    /// How executions are taken over that an earlier release began: `code` changes the JSON of their state, and their
    /// position, into this graph's. Their state is read by this graph's type; when that would lose something that was
    /// recorded, the execution is refused, and [`Self::migrate_from`] is the way.
    pub fn migrate<F>(self, from: impl Into<MigrateFrom>, code: F) -> Self
    where
        F: Fn(&mut Value, &mut Position) -> Result<(), Box<dyn Error + Send + Sync>> + Send + Sync + 'static,
    {
        self.migrate_from::<S, F>(from, code)
    }

    /// Like [`Self::migrate`], for a state whose type has changed: `Old` is the type as it was, with its reducers,
    /// kept in the program until no execution of the earlier release is left.
    pub fn migrate_from<Old, F>(mut self, from: impl Into<MigrateFrom>, code: F) -> Self
    where
        Old: GraphState,
        F: Fn(&mut Value, &mut Position) -> Result<(), Box<dyn Error + Send + Sync>> + Send + Sync + 'static,
    {
        let read = migrate::read::<Old>;
        self.migrations.push(Migration { from: from.into(), read, code: Arc::new(code) });
        self
    }

    /// Says that executions begun by a graph of this fingerprint may go on with this one as they are: what was added
    /// or taken away since is nowhere they stand. Each is looked at before it is taken over.
    pub fn compatible_with(mut self, fingerprint: Digest) -> Self {
        self.compatible.push(fingerprint);
        self
    }

    /// Declares the blobs that a state refers to by their digests, so that [`crate::Runtime::inspect`] can say which
    /// are lost.
    pub fn blobs(mut self, of: impl Fn(&S) -> Vec<Digest> + Send + Sync + 'static) -> Self {
        self.blobs = Some(Arc::new(of));
        self
    }

    /// Checks the graph.
    ///
    /// # Errors
    /// The first mistake.
    pub fn build(self) -> Result<Graph<S>, GraphError> {
        if let Some(wrong) = self.wrong {
            return Err(wrong);
        }
        for (said, node) in &self.said {
            if self.nodes.get(node).is_none_or(|node| node.run.is_none()) {
                return Err(GraphError::NoNode { said, node: node.to_string() });
            }
        }
        self.shape.check()?;
        let Self { shape, nodes, state_version, migrations, compatible, blobs, required_inside, .. } = self;
        let fingerprint = shape.fingerprint();
        let parts = Parts { shape, fingerprint, state_version, nodes, migrations, compatible, blobs, required_inside };
        Ok(Graph::new(parts))
    }

    fn add_node(mut self, name: &str, shape: NodeShape, run: NodeCode<S>) -> Self {
        if !is_node_name(name) {
            return self.wrong(GraphError::Name { node: name.to_owned() });
        }
        let name: Arc<str> = name.into();
        if self.nodes.entry(name.clone()).or_default().run.replace(run).is_some() {
            return self.wrong(GraphError::Duplicate { node: name.to_string() });
        }
        // Something may have been said of the node before it was defined.
        let node = self.shape.nodes.entry(name).or_default();
        *node = NodeShape { deferred: node.deferred, each_arrival: node.each_arrival, ..shape };
        self
    }

    fn say(mut self, what: &'static str, node: &str, set: impl FnOnce(&mut NodeShape)) -> Self {
        self.said.push((what, node.into()));
        set(self.shape.nodes.entry(node.into()).or_default());
        self
    }

    /// A child's shape and what its nodes require.
    fn adopt<C: GraphState>(&mut self, name: &str, child: &Graph<C>, shared: bool) -> Box<Child> {
        let inside = child.required().into_iter();
        self.required_inside
            .extend(inside.map(|required| MissingResource { node: format!("{name}>{}", required.node), ..required }));
        Box::new(Child { shape: child.shape().clone(), shared })
    }

    fn targets(mut self, from: &str, way: Way, targets: &[&str]) -> Self {
        if targets.is_empty() {
            return self.wrong(GraphError::NoTargets { node: from.to_owned(), way });
        }
        let ways = self.ways(from);
        let list = match way {
            Way::Branch => &mut ways.branch,
            Way::FanOut => &mut ways.fan_out,
            Way::Goto => &mut ways.goto,
            Way::Edge | Way::Join => &mut ways.edges,
        };
        if !list.is_empty() {
            return self.wrong(GraphError::TwoWaysOut { node: from.to_owned(), way });
        }
        list.extend(targets.iter().map(|target| Arc::from(*target)));
        self
    }

    fn ways(&mut self, from: &str) -> &mut Ways {
        self.shape.ways.entry(from.into()).or_default()
    }

    fn wrong(mut self, wrong: GraphError) -> Self {
        self.wrong.get_or_insert(wrong);
        self
    }
}

fn answer<U>(node: &str, flow: impl Into<Flow<U>>) -> Result<Answer<U>, RouteError> {
    flow.into().into_answer().map_err(|(target, source)| RouteError::Input {
        node: node.to_owned(),
        target: target.to_string(),
        source,
    })
}

fn read<I: DeserializeOwned>(node: &str, input: Option<Input>) -> Result<I, RouteError> {
    // The machine gives every run of such a node an input.
    let read = input.map_or_else(|| serde_json::from_str("null"), |input| input.read());
    read.map_err(|source| RouteError::InputType { node: node.to_owned(), source: Arc::new(source) })
}

fn is_node_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-')
        && name != START
        && name != END
}

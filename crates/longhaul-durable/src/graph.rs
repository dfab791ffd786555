//! A graph of typed state: a checked shape together with its code.
//!
//! It owns the pairing of the two and calls the code that nodes, branches and fan-outs are; when to call it is decided
//! elsewhere. Invariant: a [`Graph`] has passed every check of its shape, so the driver never meets a node that does
//! not exist.

use std::{
    collections::BTreeMap,
    error::Error,
    fmt,
    sync::{Arc, LazyLock},
};

use futures::future::BoxFuture;
use longhaul_core::{Digest, ExecutionId};
use serde_json::Value;

use crate::{
    DurableError, GraphState, KeyId, NodeContext, NodeError, NodePolicy, Resources, RouteError,
    flow::{self, Answer, Input, Planned, Route},
    machine::{self, Position, Routes},
    migrate::Recorded,
    records::checkpoints::Log,
    shape::{START, Shape},
};

pub(crate) type NodeCode<S> = Arc<
    dyn Fn(
            NodeContext,
            Arc<S>,
            Option<Input>,
        ) -> BoxFuture<'static, Result<Answer<<S as GraphState>::Update>, NodeError>>
        + Send
        + Sync,
>;
pub(crate) type BranchCode<S> = Arc<dyn Fn(&S) -> &'static str + Send + Sync>;
pub(crate) type FanOutCode<S> = Arc<dyn Fn(&S) -> Vec<flow::Send> + Send + Sync>;
pub(crate) type MigrationCode =
    Arc<dyn Fn(&mut Value, &mut Position) -> Result<(), Box<dyn Error + Send + Sync>> + Send + Sync>;
pub(crate) type BlobsOf<S> = Arc<dyn Fn(&S) -> Vec<Digest> + Send + Sync>;

/// How recorded executions are taken over.
pub(crate) struct Migration {
    pub(crate) from: MigrateFrom,
    /// Reads what was recorded.
    pub(crate) read: fn(&ExecutionId, &Log) -> Result<Recorded, DurableError>,
    /// Changes it.
    pub(crate) code: MigrationCode,
}

/// Code of one node, and of START, which has branches only.
pub(crate) struct NodeParts<S: GraphState> {
    pub(crate) run: Option<NodeCode<S>>,
    pub(crate) branch: Option<BranchCode<S>>,
    pub(crate) fan_out: Option<FanOutCode<S>>,
    pub(crate) policy: Option<NodePolicy>,
    pub(crate) requires: Vec<KeyId>,
}

impl<S: GraphState> Default for NodeParts<S> {
    fn default() -> Self {
        Self { run: None, branch: None, fan_out: None, policy: None, requires: Vec::new() }
    }
}

/// Which recorded executions a migration is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MigrateFrom {
    /// Those begun with this version of the graph's state.
    StateVersion(u32),
    /// Those begun with a graph of this fingerprint.
    Fingerprint(Digest),
}

impl From<u32> for MigrateFrom {
    fn from(state_version: u32) -> Self {
        Self::StateVersion(state_version)
    }
}

impl From<Digest> for MigrateFrom {
    fn from(fingerprint: Digest) -> Self {
        Self::Fingerprint(fingerprint)
    }
}

/// A node that needs a live object which the run was not given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingResource {
    /// The node; inside a subgraph `outer>inner`.
    pub node: String,
    /// The object.
    pub resource: KeyId,
}

pub(crate) struct Parts<S: GraphState> {
    pub(crate) shape: Shape,
    pub(crate) fingerprint: Digest,
    pub(crate) state_version: u32,
    pub(crate) nodes: BTreeMap<Arc<str>, NodeParts<S>>,
    pub(crate) migrations: Vec<Migration>,
    /// Graphs whose executions this one goes on with as they are.
    pub(crate) compatible: Vec<Digest>,
    /// The blobs that a state refers to.
    pub(crate) blobs: Option<BlobsOf<S>>,
    /// Of the nodes of subgraphs.
    pub(crate) required_inside: Vec<MissingResource>,
}

/// A checked graph. Cheap to clone.
pub struct Graph<S: GraphState>(Arc<Parts<S>>);

impl<S: GraphState> Clone for Graph<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S: GraphState> fmt::Debug for Graph<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Graph").field("shape", &self.0.shape).finish_non_exhaustive()
    }
}

impl<S: GraphState> Graph<S> {
    pub(crate) fn new(parts: Parts<S>) -> Self {
        Self(Arc::new(parts))
    }

    /// Nodes and ways, as plain data.
    #[must_use]
    pub fn shape(&self) -> &Shape {
        &self.0.shape
    }

    /// [`Shape::fingerprint`], computed once.
    #[must_use]
    pub fn fingerprint(&self) -> &Digest {
        &self.0.fingerprint
    }

    /// The version of the state's form, as said to [`crate::GraphBuilder::state_version`]; 1 if nothing was said.
    #[must_use]
    pub fn state_version(&self) -> u32 {
        self.0.state_version
    }

    /// The graph as a Mermaid flow chart.
    #[must_use]
    pub fn to_mermaid(&self) -> String {
        self.0.shape.to_mermaid()
    }

    /// The live objects that nodes need, as they declared, and that are not among these.
    #[must_use]
    pub fn missing_resources(&self, resources: &Resources) -> Vec<MissingResource> {
        self.required().into_iter().filter(|required| !resources.has(&required.resource)).collect()
    }

    pub(crate) fn required(&self) -> Vec<MissingResource> {
        let of_node = |(name, node): (&Arc<str>, &NodeParts<S>)| {
            let name = name.to_string();
            node.requires.iter().map(|key| MissingResource { node: name.clone(), resource: *key }).collect::<Vec<_>>()
        };
        self.0.nodes.iter().flat_map(of_node).chain(self.0.required_inside.iter().cloned()).collect()
    }

    /// Where a frame of this graph begins.
    pub(crate) fn start(&self, state: &S) -> Result<Position, RouteError> {
        Ok(machine::start(&self.0.shape, &self.routes(START, &Route::default(), state)?))
    }

    /// Where a finished task of `node` leads, given what its answer said (`own`) and the state after all updates of
    /// the superstep.
    pub(crate) fn routes(&self, node: &str, own: &Route, state: &S) -> Result<Routes, RouteError> {
        let (mut chosen, mut sent) = (None, Vec::new());
        if let Some(parts) = self.0.nodes.get(node).filter(|_| own.is_empty()) {
            chosen = parts.branch.as_ref().map(|branch| branch(state));
            if let Some(fan_out) = &parts.fan_out {
                sent = planned(node, fan_out(state))?;
            }
        }
        self.0.shape.routes(node, own, chosen, sent)
    }

    /// The node's future, or nothing when there is no such node.
    pub(crate) fn run(
        &self,
        node: &str,
        context: NodeContext,
        state: Arc<S>,
        input: Option<Input>,
    ) -> Option<BoxFuture<'static, Result<Answer<S::Update>, NodeError>>> {
        Some(self.0.nodes.get(node)?.run.as_ref()?(context, state, input))
    }

    /// The rules for a node.
    pub(crate) fn policy(&self, node: &str) -> &NodePolicy {
        static NONE: LazyLock<NodePolicy> = LazyLock::new(NodePolicy::default);
        self.0.nodes.get(node).and_then(|node| node.policy.as_ref()).unwrap_or(&NONE)
    }

    /// What this graph can do with an execution of that fingerprint and version of the state.
    pub(crate) fn takes(&self, fingerprint: &Digest, state_version: u32) -> Takes<'_> {
        let parts = &*self.0;
        let same_state = state_version == parts.state_version;
        if same_state && *fingerprint == parts.fingerprint {
            return Takes::Own;
        }
        let find = |wanted: &MigrateFrom| parts.migrations.iter().find(|migration| migration.from == *wanted);
        let by_fingerprint = find(&MigrateFrom::Fingerprint(*fingerprint));
        if let Some(migration) = by_fingerprint.or_else(|| find(&MigrateFrom::StateVersion(state_version))) {
            return Takes::Migrated(migration);
        }
        let compatible = *fingerprint == parts.fingerprint
            || parts.compatible.contains(fingerprint)
            || parts.shape.first_fingerprint().as_ref() == Some(fingerprint);
        if same_state && compatible { Takes::Compatible } else { Takes::Foreign }
    }

    /// The blobs that this state refers to, as far as was declared.
    pub(crate) fn blobs(&self, state: &S) -> Vec<Digest> {
        self.0.blobs.as_ref().map_or_else(Vec::new, |blobs| blobs(state))
    }
}

/// What a graph can do with an execution.
pub(crate) enum Takes<'a> {
    /// Go on with it: it is one of its own.
    Own,
    /// Go on with it, if it stands where the graph has nodes.
    Compatible,
    /// Go on with it once it has been changed.
    Migrated(&'a Migration),
    /// Nothing.
    Foreign,
}

/// What a fan-out or an answer sends, as tasks.
pub(crate) fn planned(node: &str, sends: Vec<flow::Send>) -> Result<Vec<Planned>, RouteError> {
    let unfit = |(target, source): (Arc<str>, _)| RouteError::Input {
        node: node.to_owned(),
        target: target.to_string(),
        source,
    };
    sends.into_iter().map(|send| send.planned().map_err(unfit)).collect()
}

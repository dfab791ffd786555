//! The way in: a program's graphs, ready to replay cases.

use std::{collections::BTreeMap, fmt};

use futures::future::BoxFuture;
use longhaul_store::Migrations;

use super::{
    case::Case,
    player::{self, ReplayError, Replayed},
};
use crate::{Graph, GraphState, Resources};

/// A graph whose state's type is no longer said.
type Play =
    Box<dyn for<'a> Fn(&'a Case, &'a [Migrations]) -> BoxFuture<'a, Result<Replayed, ReplayError>> + Send + Sync>;

/// Replays cases with the graphs of a program. See the repository's `docs/evaluation.md`.
#[derive(Default)]
pub struct Replayer {
    graphs: BTreeMap<String, Play>,
    migrations: Vec<Migrations>,
}

impl fmt::Debug for Replayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replayer").field("graphs", &self.names()).finish_non_exhaustive()
    }
}

impl Replayer {
    /// Without graphs.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// With this graph, whose nodes take no live objects outside of steps.
    #[must_use]
    pub fn graph<S: GraphState>(self, graph: &Graph<S>) -> Self {
        self.graph_with(graph, Resources::new())
    }

    /// With this graph, whose nodes take these live objects. They should be inert: a node may call them outside of its
    /// steps, and then they are called in a replay, too.
    #[must_use]
    pub fn graph_with<S: GraphState>(mut self, graph: &Graph<S>, resources: Resources) -> Self {
        let name = graph.shape().name.clone();
        let graph = graph.clone();
        let play: Play = Box::new(move |case, migrations| {
            let (graph, resources) = (graph.clone(), resources.clone());
            Box::pin(async move { player::play(case, &graph, resources, migrations).await })
        });
        self.graphs.insert(name, play);
        self
    }

    /// With tables that nodes read through [`crate::NodeContext::store`]; they are empty in a replay.
    #[must_use]
    pub fn tables(mut self, migrations: &[Migrations]) -> Self {
        self.migrations.extend_from_slice(migrations);
        self
    }

    /// The names of its graphs.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.graphs.keys().cloned().collect()
    }

    /// Replays a case in memory: inputs, results of steps and answers are those of the case, and nothing outside is
    /// called.
    ///
    /// # Errors
    /// [`ReplayError::NoGraph`], [`ReplayError::Begins`], [`ReplayError::Run`]. A difference is no error.
    pub async fn replay(&self, case: &Case) -> Result<Replayed, ReplayError> {
        let graph = &case.root().graph;
        match self.graphs.get(graph) {
            Some(play) => play(case, &self.migrations).await,
            None => Err(ReplayError::NoGraph { graph: graph.clone(), known: self.names() }),
        }
    }
}

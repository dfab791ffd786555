//! A level of a graph in flight. (A place holder for the driving half, which owns this file.)

use futures::future::BoxFuture;

use crate::{Graph, GraphState, NodeContext, NodeError};

/// What a subgraph came to.
pub(crate) struct FrameEnd<C: GraphState> {
    /// Its last state.
    pub(crate) state: C,
    /// The updates of all its tasks in the order in which they were applied; only if asked for.
    pub(crate) updates: Vec<C::Update>,
}

impl NodeContext {
    /// Runs a subgraph to its end inside this task; `keep_updates` asks for [`FrameEnd::updates`].
    pub(crate) fn run_frame<C: GraphState>(
        &self,
        child: Graph<C>,
        initial: C,
        keep_updates: bool,
    ) -> BoxFuture<'static, Result<FrameEnd<C>, NodeError>> {
        let end = FrameEnd { state: initial, updates: Vec::new() };
        drop((child, keep_updates));
        Box::pin(async { Ok(end) })
    }
}

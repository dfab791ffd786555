//! What is to be done about a node that fails. (A place holder for the driving half, which owns this file.)

/// The rules for one node.
#[derive(Debug, Clone, Default)]
pub struct NodePolicy;

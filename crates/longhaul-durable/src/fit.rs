//! What of a recorded execution has no place in a graph.
//!
//! It owns the comparison, not what follows from it. Nothing here changes anything.

use std::fmt;

use longhaul_core::{ExecutionId, TenantId};
use longhaul_store::{ReadTx, StoreError};

use crate::{
    checkpoint,
    machine::Position,
    records::{
        checkpoints::{self, Log},
        whole,
    },
    shape::Shape,
};

/// Something recorded that a graph has no place for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Misfit {
    /// A node that is to run next is gone.
    Node {
        /// The frame; empty for the outermost.
        ns: String,
        /// The node.
        node: String,
    },
    /// A node that is to run next was planned with an input and takes none now, or the other way round.
    Input {
        /// The frame.
        ns: String,
        /// The node.
        node: String,
    },
    /// Something has arrived at a join that is gone, or does not wait for it any more.
    Join {
        /// The frame.
        ns: String,
        /// The join's node.
        join: String,
        /// What has arrived.
        origin: String,
    },
    /// A task of the open superstep has recorded something, and its place is another node's now.
    Recorded {
        /// The frame.
        ns: String,
        /// Number of the task.
        task: u32,
        /// The node that recorded it.
        node: String,
        /// What: `step charge`, `wait ship it?`, `its result`.
        what: String,
    },
    /// A subgraph that is under way is gone.
    Subgraph {
        /// Its frame.
        ns: String,
    },
    /// A field of the recorded state is gone.
    Field {
        /// The field.
        field: String,
    },
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = |ns: &str| if ns.is_empty() { String::new() } else { format!(" at {ns}") };
        match self {
            Self::Node { ns, node } => write!(f, "the node {node}{}, which is to run next, is gone", at(ns)),
            Self::Input { ns, node } => write!(f, "the input of {node}{} does not fit the node", at(ns)),
            Self::Join { ns, join, origin } => {
                write!(f, "the join {join}{}, where {origin} has arrived, does not wait for it", at(ns))
            }
            Self::Recorded { ns, task, node, what } => {
                write!(f, "{node} (task {task}{}) has recorded {what}, and is not what runs there now", at(ns))
            }
            Self::Subgraph { ns } => write!(f, "the subgraph under way at {ns} is gone"),
            Self::Field { field } => write!(f, "the field {field} of the state is gone"),
        }
    }
}

/// What of a position has no place in a shape.
pub(crate) fn of_position(shape: &Shape, ns: &str, position: &Position) -> Vec<Misfit> {
    let mut misfits = Vec::new();
    for planned in &position.frontier {
        let (ns, node) = (ns.to_owned(), planned.node.to_string());
        match shape.nodes.get(&planned.node) {
            None => misfits.push(Misfit::Node { ns, node }),
            Some(known) if known.takes_input != planned.input.is_some() => misfits.push(Misfit::Input { ns, node }),
            Some(_) => {}
        }
    }
    for node in position.deferred.iter().filter(|node| !shape.nodes.contains_key(*node)) {
        misfits.push(Misfit::Node { ns: ns.to_owned(), node: node.to_string() });
    }
    for (join, arrived) in &position.arrived {
        let origins = shape.joins.get(join);
        for origin in arrived.iter().filter(|origin| origins.is_none_or(|origins| !origins.contains(*origin))) {
            misfits.push(Misfit::Join { ns: ns.to_owned(), join: join.to_string(), origin: origin.to_string() });
        }
    }
    misfits.dedup();
    misfits
}

/// What of an unfinished execution that stands at `position` has no place in a graph: the position itself, what its
/// open superstep has recorded, and the subgraphs that are under way in it.
pub(crate) fn of_execution(
    read: &ReadTx<'_>,
    tenant: &TenantId,
    execution: &ExecutionId,
    shape: &Shape,
    position: &Position,
) -> Result<Vec<Misfit>, StoreError> {
    let mut misfits = of_frame(read, tenant, execution, shape, "", position)?;
    let prefix = format!("{}.%", position.superstep + 1);
    for ns in whole::namespaces(read, tenant, execution, &prefix)? {
        let log = checkpoints::log(read, tenant, execution, &ns, u64::MAX, false)?;
        // A frame without rows has begun and closed nothing.
        let Some(inner) = log.rows.last().and_then(checkpoint::position_of) else { continue };
        match shape_at(shape, &ns) {
            Some(shape) => misfits.extend(of_frame(read, tenant, execution, shape, &ns, &inner)?),
            None => misfits.push(Misfit::Subgraph { ns }),
        }
    }
    Ok(misfits)
}

fn of_frame(
    read: &ReadTx<'_>,
    tenant: &TenantId,
    execution: &ExecutionId,
    shape: &Shape,
    ns: &str,
    position: &Position,
) -> Result<Vec<Misfit>, StoreError> {
    let mut misfits = of_position(shape, ns, position);
    for (task, node, what) in whole::recorded(read, tenant, execution, ns, position.superstep + 1)? {
        let planned = position.frontier.get(task as usize);
        if planned.is_none_or(|planned| *planned.node != *node) {
            misfits.push(Misfit::Recorded { ns: ns.to_owned(), task, node, what });
        }
    }
    Ok(misfits)
}

/// The graph of a frame.
fn shape_at<'a>(outermost: &'a Shape, ns: &str) -> Option<&'a Shape> {
    ns.split_terminator('>').try_fold(outermost, |shape, level| {
        let node = level.splitn(3, '.').nth(2)?;
        shape.nodes.get(node)?.child.as_ref().map(|child| &child.shape)
    })
}

/// The fields of the newest state that was recorded whole and that a graph does not declare; none when it declares
/// none at all.
pub(crate) fn of_fields(shape: &Shape, log: &Log) -> Vec<Misfit> {
    let full = log.rows.iter().rev().find(|row| row.form == crate::Form::Full).map(|row| &row.data);
    let Some(state) = full.or(log.snapshot.as_ref().map(|snapshot| &snapshot.state)) else { return Vec::new() };
    let state: serde_json::Value = serde_json::from_str(state).unwrap_or_default();
    let fields = state.as_object().into_iter().flat_map(|state| state.keys());
    fields
        .filter(|field| !shape.fields.is_empty() && !shape.fields.contains_key(*field))
        .map(|field| Misfit::Field { field: field.clone() })
        .collect()
}

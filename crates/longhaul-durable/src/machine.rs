//! Where a frame stands and what it does next, as plain data: no I/O, no code of nodes.
//!
//! It owns the order of things; the driver only carries out what is decided here. Invariants: the same position and the
//! same routes always give the same next position, in whatever order tasks have finished; a position read back from
//! JSON goes on like the one it was written from.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use crate::{
    flow::{Planned, Route},
    limits::{LimitError, check_sends},
    shape::{END, START, Shape, Way},
};

/// Where a frame stands: between two supersteps.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// Number of the last closed superstep; 0 before the first.
    #[serde(rename = "s")]
    pub superstep: u64,
    /// The tasks of the next superstep, in order. None: the frame is complete.
    #[serde(rename = "f", default, skip_serializing_if = "Vec::is_empty")]
    pub frontier: Vec<Planned>,
    /// For each join that still waits, the origins that have finished since it last fired.
    #[serde(rename = "j", default, skip_serializing_if = "BTreeMap::is_empty")]
    pub arrived: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
    /// Deferred nodes that run once nothing else is left.
    #[serde(rename = "d", default, skip_serializing_if = "BTreeSet::is_empty")]
    pub deferred: BTreeSet<Arc<str>>,
}

/// What the world says at a boundary.
#[derive(Debug, Clone, Copy)]
pub struct Signals {
    /// Somebody wants the run to end now.
    pub cancelled: bool,
    /// The state is one at which the caller wants to stop.
    pub stop: bool,
    /// Most supersteps of this execution.
    pub supersteps_max: u64,
}

/// What to do at a boundary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Run the tasks of the frontier as the superstep of this number.
    Run(u64),
    /// The frame is complete.
    Complete,
    /// End the run; a later one goes on from here.
    Stop,
    /// End the run because somebody asked for it; a later one goes on from here.
    Cancel,
    /// The bound on supersteps is reached.
    Exhausted,
}

/// Where one finished task leads, checked against the shape.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Routes {
    /// The node's own answer counts, and its edges and joins do not.
    own: bool,
    /// What the branch chose.
    chosen: Option<Arc<str>>,
    /// What the node named.
    goto: Vec<Arc<str>>,
    /// Runs with inputs.
    sends: Vec<Planned>,
}

/// A task that has finished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// Its index in the frontier.
    pub task: u32,
    /// Where it leads.
    pub routes: Routes,
}

/// A node leads somewhere that the graph does not allow.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RouteError {
    /// A branch, a fan-out or an answer named a node that is not among its targets.
    #[error("the {way} of {node} named {chosen:?}, which is not among its targets {}: name it there", .targets.join(", "))]
    Undeclared {
        /// The node that was left.
        node: String,
        /// What named it.
        way: Way,
        /// What it named.
        chosen: String,
        /// What it may name.
        targets: Vec<String>,
    },
    /// A node without edges, branch or fan-out did not say where to go.
    #[error("{node} has no edges and did not say where to go: answer with `goto` to one of {}", .targets.join(", "))]
    NoWay {
        /// The node.
        node: String,
        /// What it may name.
        targets: Vec<String>,
    },
    /// A node that takes an input was named without one.
    #[error("{node} goes to {target}, which takes an input: use `send`")]
    WithoutInput {
        /// The node that was left.
        node: String,
        /// The target.
        target: String,
    },
    /// A node that takes no input was sent one.
    #[error("{node} sends to {target}, which takes no input: use `goto`, or define it with `node_with_input`")]
    UnwantedInput {
        /// The node that was left.
        node: String,
        /// The target.
        target: String,
    },
    /// An input cannot be written as JSON.
    #[error("the input that {node} sends to {target} cannot be written as JSON")]
    Input {
        /// The node that was left.
        node: String,
        /// The target.
        target: String,
        /// Why.
        #[source]
        source: Arc<serde_json::Error>,
    },
    /// An input is not of the type that its node takes.
    #[error("the input of {node} is not of the type that it takes")]
    InputType {
        /// The node that got it.
        node: String,
        /// Why.
        #[source]
        source: Arc<serde_json::Error>,
    },
    /// Too much is sent at once.
    #[error("what {node} sends is refused")]
    Limit {
        /// The node that was left.
        node: String,
        /// What is too large.
        #[source]
        source: LimitError,
    },
    /// Not every task of the frontier has finished exactly once.
    #[error(
        "superstep {superstep} has {tasks} tasks and was to be closed with task {task} not exactly once among them; this \
         is a defect, please report it"
    )]
    Open {
        /// The superstep.
        superstep: u64,
        /// How many tasks it has.
        tasks: usize,
        /// The one that is missing, or too many.
        task: usize,
    },
}

/// What to do now.
#[must_use]
pub fn plan(position: &Position, signals: Signals) -> Action {
    if position.frontier.is_empty() {
        Action::Complete
    } else if signals.cancelled {
        Action::Cancel
    } else if signals.stop {
        Action::Stop
    } else if position.superstep >= signals.supersteps_max {
        Action::Exhausted
    } else {
        Action::Run(position.superstep + 1)
    }
}

/// Where the frame stands before its first superstep; `routes` are START's.
#[must_use]
pub fn start(shape: &Shape, routes: &Routes) -> Position {
    let mut next = Next::default();
    next.leave(shape, START, routes);
    next.settle(shape)
}

/// Where the frame stands once every task of the frontier has finished. The order of `finished` does not matter: the
/// next tasks are in the order of these tasks, and for each in the order in which its ways were declared.
///
/// # Errors
/// [`RouteError::Open`] when a task is missing.
pub fn close(shape: &Shape, position: &Position, finished: &[Finished]) -> Result<Position, RouteError> {
    let mut sorted: Vec<Finished>;
    let in_order = if finished.is_sorted_by_key(|finished| finished.task) {
        finished
    } else {
        sorted = finished.to_vec();
        sorted.sort_by_key(|finished| finished.task);
        &sorted
    };
    let superstep = position.superstep + 1;
    let mut next = Next {
        position: Position {
            superstep,
            frontier: Vec::new(),
            arrived: position.arrived.clone(),
            deferred: position.deferred.clone(),
        },
        ..Next::default()
    };
    for (task, planned) in position.frontier.iter().enumerate() {
        let Some(done) = in_order.get(task).filter(|done| done.task as usize == task) else {
            return Err(RouteError::Open { superstep, tasks: position.frontier.len(), task });
        };
        next.leave(shape, &planned.node, &done.routes);
    }
    if let Some(extra) = in_order.get(position.frontier.len()) {
        return Err(RouteError::Open { superstep, tasks: position.frontier.len(), task: extra.task as usize });
    }
    Ok(next.settle(shape))
}

/// A position in the making.
#[derive(Default)]
struct Next {
    position: Position,
    /// The nodes of the frontier that take no input: the first, and the rest. One target of several tasks runs once.
    first: Option<Arc<str>>,
    rest: BTreeSet<Arc<str>>,
}

impl Next {
    fn leave(&mut self, shape: &Shape, node: &str, routes: &Routes) {
        let ways = shape.ways.get(node).filter(|_| !routes.own);
        for target in ways.iter().flat_map(|ways| &ways.edges).chain(&routes.chosen).chain(&routes.goto) {
            self.wake(shape, target);
        }
        self.position.frontier.extend(routes.sends.iter().cloned());
        for join in ways.iter().flat_map(|ways| &ways.joins) {
            let arrived = self.position.arrived.entry(join.clone()).or_default();
            if !arrived.contains(node) {
                arrived.insert(node.into());
            }
        }
    }

    fn wake(&mut self, shape: &Shape, target: &Arc<str>) {
        if &**target == END {
            return;
        }
        if shape.nodes.get(target).is_some_and(|node| node.deferred) {
            self.position.deferred.insert(target.clone());
        } else {
            self.run(target);
        }
    }

    fn run(&mut self, target: &Arc<str>) {
        match &self.first {
            None => self.first = Some(target.clone()),
            Some(first) if first == target => return,
            Some(_) if self.rest.insert(target.clone()) => {}
            Some(_) => return,
        }
        self.position.frontier.push(Planned { node: target.clone(), input: None });
    }

    /// Fires what is complete, and wakes the deferred nodes when nothing else is left.
    fn settle(mut self, shape: &Shape) -> Position {
        if !self.position.arrived.is_empty() {
            let complete = |join: &Arc<str>, arrived: &BTreeSet<Arc<str>>| {
                shape.joins.get(join).is_some_and(|origins| origins.iter().all(|origin| arrived.contains(origin)))
            };
            let (fired, waiting) = std::mem::take(&mut self.position.arrived)
                .into_iter()
                .partition::<BTreeMap<_, _>, _>(|(join, arrived)| complete(join, arrived));
            self.position.arrived = waiting;
            for join in fired.keys() {
                self.wake(shape, join);
            }
        }
        if self.position.frontier.is_empty() {
            for deferred in std::mem::take(&mut self.position.deferred) {
                self.run(&deferred);
            }
        }
        self.position
    }
}

impl Shape {
    /// Where a finished task of `node` leads: `own` is what the node's answer said; if it said nothing, `chosen` is
    /// what its branch answered and `sent` what its fan-out did.
    ///
    /// # Errors
    /// [`RouteError`], each but [`RouteError::Open`].
    pub fn routes(
        &self,
        node: &str,
        own: &Route,
        chosen: Option<&str>,
        sent: Vec<Planned>,
    ) -> Result<Routes, RouteError> {
        let ways = self.ways.get(node);
        let (goto, branch, fan_out) =
            ways.map_or((&[][..], &[][..], &[][..]), |ways| (&ways.goto[..], &ways.branch[..], &ways.fan_out[..]));
        if !own.is_empty() {
            let mut named = Vec::with_capacity(own.goto.len());
            for target in &own.goto {
                let target = declared(node, Way::Goto, goto, target)?;
                if self.takes_input(target) {
                    return Err(RouteError::WithoutInput { node: node.to_owned(), target: target.to_string() });
                }
                named.push(target.clone());
            }
            return Ok(Routes {
                own: true,
                chosen: None,
                goto: named,
                sends: self.sends(node, Way::Goto, goto, own.sends.clone())?,
            });
        }
        if ways.is_some_and(|ways| {
            ways.edges.is_empty() && branch.is_empty() && fan_out.is_empty() && ways.joins.is_empty()
        }) {
            let targets = goto.iter().map(ToString::to_string).collect();
            return Err(RouteError::NoWay { node: node.to_owned(), targets });
        }
        let chosen = match chosen {
            Some(chosen) => Some(declared(node, Way::Branch, branch, chosen)?.clone()),
            None => None,
        };
        Ok(Routes { own: false, chosen, goto: Vec::new(), sends: self.sends(node, Way::FanOut, fan_out, sent)? })
    }

    fn takes_input(&self, node: &str) -> bool {
        self.nodes.get(node).is_some_and(|node| node.takes_input)
    }

    fn sends(
        &self,
        node: &str,
        way: Way,
        targets: &[Arc<str>],
        mut sends: Vec<Planned>,
    ) -> Result<Vec<Planned>, RouteError> {
        check_sends(&sends).map_err(|source| RouteError::Limit { node: node.to_owned(), source })?;
        for send in &mut sends {
            // The shape's own name, so that a thousand sends share one.
            send.node = declared(node, way, targets, &send.node)?.clone();
            if !self.takes_input(&send.node) {
                let (node, target) = (node.to_owned(), send.node.to_string());
                return Err(RouteError::UnwantedInput { node, target });
            }
        }
        Ok(sends)
    }
}

fn declared<'a>(node: &str, way: Way, targets: &'a [Arc<str>], chosen: &str) -> Result<&'a Arc<str>, RouteError> {
    targets.iter().find(|target| &***target == chosen).ok_or_else(|| RouteError::Undeclared {
        node: node.to_owned(),
        way,
        chosen: chosen.chars().take(200).collect(),
        targets: targets.iter().map(ToString::to_string).collect(),
    })
}

#[cfg(test)]
mod tests;

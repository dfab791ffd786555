//! Where an execution stands and what it does next, as plain data: no I/O, no code of nodes.
//!
//! It owns the order of things; the driver in `runtime` only carries out what is decided here. Invariant: the same
//! position and signals always give the same action.

use serde::{Deserialize, Serialize};

use crate::shape::{END, START, Shape, Way};

/// What comes after the last closed superstep.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Next {
    /// This node runs.
    Node(String),
    /// Nothing: the execution is complete.
    End,
}

impl Next {
    pub(crate) fn parse(name: &str) -> Self {
        if name == END { Self::End } else { Self::Node(name.to_owned()) }
    }

    pub(crate) fn as_str(&self) -> &str {
        match self {
            Self::Node(name) => name,
            Self::End => END,
        }
    }
}

/// Where an execution stands: between two supersteps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// Number of the last closed superstep; 0 before the first.
    pub superstep: u64,
    /// What follows.
    pub next: Next,
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Run this node as this superstep.
    Run {
        /// Its number.
        superstep: u64,
        /// The node.
        node: String,
    },
    /// It is complete.
    Complete,
    /// End the run; a later one goes on from here.
    Stop,
    /// End the run because somebody asked for it; a later one goes on from here.
    Cancel,
    /// The bound on supersteps is reached.
    Exhausted,
}

/// A branch chose a node that is not among its targets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the branch at {node} chose {chosen:?}, which is not among its targets {}: name it there", .targets.join(", "))]
pub struct BranchError {
    /// The node that was left.
    pub node: String,
    /// What the branch answered.
    pub chosen: String,
    /// What it may answer.
    pub targets: Vec<String>,
}

impl Position {
    /// Before the first superstep; `chosen` is the answer of START's branch, if it has one.
    ///
    /// # Errors
    /// [`BranchError`].
    pub fn start(shape: &Shape, chosen: Option<&str>) -> Result<Self, BranchError> {
        Ok(Self { superstep: 0, next: follow(shape, START, chosen)? })
    }

    /// What to do now.
    #[must_use]
    pub fn plan(&self, signals: Signals) -> Action {
        match &self.next {
            Next::End => Action::Complete,
            Next::Node(_) if signals.cancelled => Action::Cancel,
            Next::Node(_) if signals.stop => Action::Stop,
            Next::Node(_) if self.superstep >= signals.supersteps_max => Action::Exhausted,
            Next::Node(node) => Action::Run { superstep: self.superstep + 1, node: node.clone() },
        }
    }

    /// Where it stands once `node` has run; `chosen` is the answer of the node's branch, if it has one.
    ///
    /// # Errors
    /// [`BranchError`].
    pub fn after(&self, shape: &Shape, node: &str, chosen: Option<&str>) -> Result<Self, BranchError> {
        Ok(Self { superstep: self.superstep + 1, next: follow(shape, node, chosen)? })
    }
}

fn follow(shape: &Shape, node: &str, chosen: Option<&str>) -> Result<Next, BranchError> {
    match shape.ways.get(node) {
        Some(Way::Edge(target)) => Ok(Next::parse(target)),
        Some(Way::Branch(targets)) => {
            let chosen = chosen.unwrap_or_default();
            if targets.iter().any(|target| target == chosen) {
                return Ok(Next::parse(chosen));
            }
            Err(BranchError { node: node.to_owned(), chosen: chosen.to_owned(), targets: targets.clone() })
        }
        // A checked shape leaves every node.
        None => Ok(Next::End),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    const QUIET: Signals = Signals { cancelled: false, stop: false, supersteps_max: 10 };

    fn at(superstep: u64, next: &str) -> Position {
        Position { superstep, next: Next::parse(next) }
    }

    #[test]
    fn what_comes_first_at_a_boundary() {
        let run = Action::Run { superstep: 4, node: "a".to_owned() };
        for (position, signals, expected) in [
            (at(3, "a"), QUIET, run),
            (at(3, "a"), Signals { cancelled: true, stop: true, supersteps_max: 0 }, Action::Cancel),
            (at(3, "a"), Signals { stop: true, supersteps_max: 0, ..QUIET }, Action::Stop),
            (at(10, "a"), QUIET, Action::Exhausted),
            (at(10, END), Signals { cancelled: true, stop: true, supersteps_max: 0 }, Action::Complete),
        ] {
            assert_eq!(position.plan(signals), expected, "{position:?} {signals:?}");
        }
    }

    #[test]
    fn a_position_survives_json_and_follows_the_shape() {
        let shape = Shape {
            name: "test".to_owned(),
            version: 1,
            nodes: BTreeSet::from(["a".to_owned()]),
            ways: BTreeMap::from([
                (START.to_owned(), Way::Edge("a".to_owned())),
                ("a".to_owned(), Way::Branch(vec!["a".to_owned(), END.to_owned()])),
            ]),
        };
        let start = Position::start(&shape, None).unwrap();
        assert_eq!(start, at(0, "a"));
        let json = serde_json::to_string(&start).unwrap();
        assert_eq!(serde_json::from_str::<Position>(&json).unwrap(), start);
        assert_eq!(start.after(&shape, "a", Some(END)).unwrap(), at(1, END));
        assert!(start.after(&shape, "a", Some("b")).is_err());
        assert!(start.after(&shape, "a", None).is_err());
    }
}

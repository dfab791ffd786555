//! What can be known to be wrong with a graph before it runs.
//!
//! It owns the checks of a shape and their words. Invariant: a shape that passed can be walked from START; each node
//! can be reached, from each a completed frame can be reached, each join can fire, and no node runs twice merely
//! because two ways to it differ in length.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::shape::{END, START, Shape, Way};

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
    /// A way that begins or ends at a node that does not exist.
    #[error("the {way} from {from} leads to {to}, but there is no node {missing}: define it or correct the name")]
    Unknown {
        /// Where the way begins.
        from: String,
        /// Where it ends.
        to: String,
        /// What it is.
        way: Way,
        /// Which of the two does not exist.
        missing: String,
    },
    /// Something is said of a node that does not exist.
    #[error("{said} is said of {node}, but there is no such node: define it or correct the name")]
    NoNode {
        /// The method that said it.
        said: &'static str,
        /// The name.
        node: String,
    },
    /// Nothing says where the execution begins.
    #[error("nothing leads from START: add an edge from it to the first node")]
    NoStart,
    /// A node that nothing leaves.
    #[error("nothing leads out of {node}: add an edge or a branch, if only to END")]
    NoWayOut {
        /// The node.
        node: String,
    },
    /// Two branches, fan-outs or declarations of goto at one node.
    #[error("{node} has two ways out of the kind {way}: make one that names all its targets")]
    TwoWaysOut {
        /// The node.
        node: String,
        /// The kind.
        way: Way,
    },
    /// One edge said twice.
    #[error("the edge from {from} to {to} is there twice: remove one")]
    DoubleEdge {
        /// Where it begins.
        from: String,
        /// Where it ends.
        to: String,
    },
    /// Two joins at one node.
    #[error("{node} is the target of two joins: name all that it waits for in one")]
    TwoJoins {
        /// The node.
        node: String,
    },
    /// A branch, fan-out or goto without targets, or a join without origins.
    #[error("the {way} at {node} names no node: name every one that it may concern")]
    NoTargets {
        /// The node.
        node: String,
        /// What it is.
        way: Way,
    },
    /// A node that takes an input is reached without one.
    #[error("{node} takes an input, but the {way} from {from} brings none: send to it with a fan-out or `Flow::send`")]
    WithoutInput {
        /// The node.
        node: String,
        /// Where the way begins.
        from: String,
        /// What it is.
        way: Way,
    },
    /// A node that takes no input is sent one.
    #[error("the fan-out from {from} sends to {node}, which takes no input: define it with `node_with_input`")]
    UnwantedInput {
        /// The node.
        node: String,
        /// Where the fan-out begins.
        from: String,
    },
    /// A node that is sent to is to wait for something.
    #[error("{node} takes an input and cannot be deferred: defer the node after it")]
    DeferredInput {
        /// The node.
        node: String,
    },
    /// A node to which no way leads.
    #[error("no way leads from START to {node}: add an edge to it or remove it")]
    Unreachable {
        /// The node.
        node: String,
    },
    /// A join that waits for something that comes only after it.
    #[error("the join at {node} can never fire: {origin} is reached only through it")]
    JoinNeverFires {
        /// The join's target.
        node: String,
        /// The origin that never finishes.
        origin: String,
    },
    /// A node from which a frame never completes.
    #[error("no way leads from {node} to END: an execution that gets there could never complete")]
    NeverEnds {
        /// The node.
        node: String,
    },
    /// Two parallel ways of unequal length meet, so that the node would run twice.
    #[error(
        "two ways that {from} takes at once meet at {node} after different numbers of supersteps, so it would run \
         twice: make it the target of a join, defer it, or say each_arrival if that is meant"
    )]
    MissingJoin {
        /// Where the ways part.
        from: String,
        /// Where they meet.
        node: String,
    },
}

impl Shape {
    /// Checks all that can be known before an execution begins.
    ///
    /// # Errors
    /// The first thing found wrong.
    pub fn check(&self) -> Result<(), GraphError> {
        if self.ways.get(START).is_none_or(|ways| ways.all().next().is_none()) {
            return Err(GraphError::NoStart);
        }
        self.check_names()?;
        self.check_inputs()?;
        if let Some(node) = self.nodes.keys().find(|node| !self.ways.contains_key(*node)) {
            return Err(GraphError::NoWayOut { node: node.to_string() });
        }
        let indexed = Indexed::of(self);
        indexed.check_reached()?;
        indexed.check_ends()?;
        indexed.check_meetings()
    }

    fn check_names(&self) -> Result<(), GraphError> {
        for (from, ways) in &self.ways {
            for (way, to) in ways.all() {
                let from_known = self.nodes.contains_key(from) || (&**from == START && starts(way));
                let to_known = self.nodes.contains_key(to) || (&**to == END && ends(way));
                if !(from_known && to_known) {
                    let missing = if from_known { to } else { from };
                    let (from, to, missing) = (from.to_string(), to.to_string(), missing.to_string());
                    return Err(GraphError::Unknown { from, to, way, missing });
                }
            }
        }
        Ok(())
    }

    fn check_inputs(&self) -> Result<(), GraphError> {
        for (from, ways) in &self.ways {
            for (way, to) in ways.all() {
                let Some(node) = self.nodes.get(to) else { continue };
                let (name, from) = (to.to_string(), from.to_string());
                match way {
                    Way::Edge | Way::Branch | Way::Join if node.takes_input => {
                        return Err(GraphError::WithoutInput { node: name, from, way });
                    }
                    Way::FanOut if !node.takes_input => return Err(GraphError::UnwantedInput { node: name, from }),
                    Way::Edge | Way::Branch | Way::Join | Way::FanOut | Way::Goto => {}
                }
            }
        }
        match self.nodes.iter().find(|(_, node)| node.takes_input && node.deferred) {
            Some((node, _)) => Err(GraphError::DeferredInput { node: node.to_string() }),
            None => Ok(()),
        }
    }
}

/// Whether such a way may begin at START.
fn starts(way: Way) -> bool {
    match way {
        Way::Edge | Way::Branch | Way::FanOut => true,
        Way::Goto | Way::Join => false,
    }
}

/// Whether such a way may lead to END.
fn ends(way: Way) -> bool {
    match way {
        Way::Edge | Way::Branch | Way::Goto => true,
        Way::FanOut | Way::Join => false,
    }
}

/// A shape whose nodes are numbers: START is 0, END is 1.
struct Indexed<'a> {
    shape: &'a Shape,
    names: Vec<&'a str>,
    /// Of each node, every target with how it is reached.
    ways: Vec<Vec<(Way, usize)>>,
    /// Of each join's target, the origins.
    joins: BTreeMap<usize, Vec<usize>>,
}

/// After how many supersteps a way gets to a node.
#[derive(Clone, Copy, PartialEq, Eq)]
enum After {
    Exactly(usize),
    Several,
}

impl<'a> Indexed<'a> {
    fn of(shape: &'a Shape) -> Self {
        let names: Vec<&str> = [START, END].into_iter().chain(shape.nodes.keys().map(|name| &**name)).collect();
        let numbers: BTreeMap<&str, usize> = names.iter().enumerate().map(|(number, name)| (*name, number)).collect();
        let number = |name: &Arc<str>| numbers.get(&**name).copied();
        let ways_of = |name: &&str| {
            let ways = shape.ways.get(*name).into_iter().flat_map(|ways| ways.all());
            ways.filter_map(|(way, to)| Some((way, number(to)?))).collect()
        };
        let joins =
            shape.joins.iter().filter_map(|(to, from)| Some((number(to)?, from.iter().filter_map(number).collect())));
        Self { shape, ways: names.iter().map(ways_of).collect(), joins: joins.collect(), names }
    }

    fn name(&self, node: usize) -> String {
        self.names[node].to_owned()
    }

    /// Every node can be reached; and still can if a join waits for all its origins.
    fn check_reached(&self) -> Result<(), GraphError> {
        let naive = self.reached(|_| true);
        if let Some(node) = (2..self.names.len()).find(|node| !naive[*node]) {
            return Err(GraphError::Unreachable { node: self.name(node) });
        }
        let fired: BTreeSet<usize> = self.fireable();
        for (join, origins) in &self.joins {
            if !fired.contains(join) {
                let reached = self.reached(|join| fired.contains(&join));
                if let Some(origin) = origins.iter().find(|origin| !reached[**origin]) {
                    return Err(GraphError::JoinNeverFires { node: self.name(*join), origin: self.name(*origin) });
                }
            }
        }
        Ok(())
    }

    /// The joins that can fire, found round by round.
    fn fireable(&self) -> BTreeSet<usize> {
        let mut fired = BTreeSet::new();
        loop {
            let reached = self.reached(|join| fired.contains(&join));
            let more: BTreeSet<usize> = self
                .joins
                .iter()
                .filter(|(_, from)| from.iter().all(|from| reached[*from]))
                .map(|(to, _)| *to)
                .collect();
            if more.len() == fired.len() {
                return fired;
            }
            fired = more;
        }
    }

    fn reached(&self, fires: impl Fn(usize) -> bool) -> Vec<bool> {
        let mut reached = vec![false; self.names.len()];
        reached[0] = true;
        let mut open = vec![0];
        while let Some(node) = open.pop() {
            for (way, to) in &self.ways[node] {
                if !reached[*to] && (*way != Way::Join || fires(*to)) {
                    reached[*to] = true;
                    open.push(*to);
                }
            }
        }
        reached
    }

    /// From every node on, all that it begins can come to an end: each of its edges and joins, one target of its
    /// branch, one of its fan-out; or instead of all that, what the node itself may name.
    fn check_ends(&self) -> Result<(), GraphError> {
        let mut can_end = vec![false; self.names.len()];
        can_end[1] = true;
        let mut leads_to = vec![Vec::new(); self.names.len()];
        for (from, ways) in self.ways.iter().enumerate() {
            ways.iter().for_each(|(_, to)| leads_to[*to].push(from));
        }
        let mut open = vec![1];
        while let Some(node) = open.pop() {
            for from in &leads_to[node] {
                if !can_end[*from] && self.ends_if(*from, &can_end) {
                    can_end[*from] = true;
                    open.push(*from);
                }
            }
        }
        match (2..self.names.len()).find(|node| !can_end[*node]) {
            Some(node) => Err(GraphError::NeverEnds { node: self.name(node) }),
            None => Ok(()),
        }
    }

    fn ends_if(&self, node: usize, can_end: &[bool]) -> bool {
        let of = |kind: Way| self.ways[node].iter().filter(move |(way, _)| *way == kind).map(|(_, to)| can_end[*to]);
        let one_of = |kind: Way| of(kind).next().is_none() || of(kind).any(|ends| ends);
        let by_itself = [Way::Edge, Way::Branch, Way::FanOut, Way::Join].iter().any(|way| of(*way).next().is_some());
        let edges = of(Way::Edge).all(|ends| ends) && of(Way::Join).all(|ends| ends);
        (by_itself && edges && one_of(Way::Branch) && one_of(Way::FanOut)) || of(Way::Goto).any(|ends| ends)
    }

    /// Where ways meet that one node takes at once, they have taken equally many supersteps, or something waits.
    fn check_meetings(&self) -> Result<(), GraphError> {
        for from in (0..self.names.len()).filter(|from| *from != 1) {
            let mut met: Vec<Option<After>> = vec![None; self.names.len()];
            let mut unequal: Option<(usize, usize)> = None;
            for heads in self.parallel(from) {
                for (node, after, soonest) in self.spread(from, &heads) {
                    match met[node] {
                        None => met[node] = Some(after),
                        Some(other) if other == after && after != After::Several => {}
                        // The one that is met first is where the mistake is.
                        Some(_) => unequal = Some(unequal.map_or((soonest, node), |known| known.min((soonest, node)))),
                    }
                }
            }
            if let Some((_, node)) = unequal {
                return Err(GraphError::MissingJoin { from: self.name(from), node: self.name(node) });
            }
        }
        Ok(())
    }

    /// The ways that a node takes at once, each as the nodes it may begin with. Nothing if it takes only one.
    fn parallel(&self, from: usize) -> Vec<Vec<usize>> {
        let of = |kind: Way| self.ways[from].iter().filter(move |(way, _)| *way == kind).map(|(_, to)| *to);
        let mut ways: Vec<Vec<usize>> = of(Way::Edge).chain(of(Way::FanOut)).map(|to| vec![to]).collect();
        let branch: Vec<usize> = of(Way::Branch).collect();
        if !branch.is_empty() {
            ways.push(branch);
        }
        if ways.len() > 1 { ways } else { Vec::new() }
    }

    /// The nodes that a way gets to before something waits or `from` comes again: after how many supersteps, and the
    /// fewest of them. What waits is not met.
    fn spread(&self, from: usize, heads: &[usize]) -> Vec<(usize, After, usize)> {
        let mut met: BTreeMap<usize, (After, usize)> = BTreeMap::new();
        let mut open: Vec<(usize, After, usize)> = heads.iter().map(|head| (*head, After::Exactly(1), 1)).collect();
        let mut next = 0;
        while let Some((node, after, soonest)) = open.get(next).copied() {
            next += 1;
            if node == 1 || self.waits(node) {
                continue;
            }
            let entry = match met.get(&node) {
                Some((known, _)) if *known == after || *known == After::Several => continue,
                Some((_, known_soonest)) => (After::Several, *known_soonest),
                None => (after, soonest),
            };
            met.insert(node, entry);
            if node == from {
                continue;
            }
            let (after, soonest) = match entry {
                (After::Exactly(n), soonest) => (After::Exactly(n + 1), soonest + 1),
                (After::Several, soonest) => (After::Several, soonest + 1),
            };
            let onward = self.ways[node].iter().filter(|(way, _)| *way != Way::Join);
            open.extend(onward.map(|(_, to)| (*to, after, soonest)));
        }
        met.into_iter().map(|(node, (after, soonest))| (node, after, soonest)).collect()
    }

    fn waits(&self, node: usize) -> bool {
        let said = self.shape.nodes.get(self.names[node]);
        self.joins.contains_key(&node) || said.is_some_and(|node| node.deferred || node.each_arrival)
    }
}

#[cfg(test)]
mod tests;

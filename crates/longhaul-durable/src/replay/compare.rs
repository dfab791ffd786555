//! What a replay came to beside what was recorded.
//!
//! It owns which of all differences is the first. Invariant: of two differences the one whose place comes first in the
//! execution is told, for the others mostly follow from it.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    case::{Case, CaseCheckpoint, CaseEvent, CaseExecution, Origin, canonical},
    criteria::short,
    place::{self, Key},
    script::Notes,
};
use crate::{NodeError, Outcome, Status, StepId};

/// What differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// A step, in name, place or being there at all.
    Step,
    /// A wait: what was asked, or whether.
    Wait,
    /// An execution that was begun as a child.
    Child,
    /// What a superstep made of the state, or where it led.
    Checkpoint,
    /// A business event.
    Event,
    /// How it ended.
    End,
}

/// The first place at which a replay is not what was recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// What differs.
    pub what: What,
    /// Where.
    pub place: String,
    /// What was recorded.
    pub expected: String,
    /// What the replay came to.
    pub found: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place, expected, found, .. } = self;
        write!(f, "{place}: expected {expected}, found {found}")
    }
}

/// All differences, each with its place.
struct Found<'a> {
    case: &'a Case,
    all: Vec<(Key, Difference)>,
}

impl Found<'_> {
    fn add(&mut self, key: Key, what: What, place: String, expected: impl Into<String>, found: impl Into<String>) {
        self.all.push((key, Difference { what, place, expected: expected.into(), found: found.into() }));
    }
}

/// The first difference between a case and what its replay came to.
pub(super) fn first<S>(
    case: &Case,
    replayed: &Case,
    notes: &Notes,
    outcome: &Outcome<S>,
    refused: Option<(StepId, String)>,
) -> Option<Difference> {
    let mut found = Found { case, all: Vec::new() };
    for step in &notes.unrecorded {
        let key = place::of_step(case, step);
        found.add(key, What::Step, place_of(step), "no such step", format!("{:?} is asked for", step.name));
    }
    if let Some((step, why)) = refused {
        found.add(place::of_step(case, &step), What::Wait, place_of(&step), "an answer like the recorded one", why);
    }
    nodes(&mut found, outcome);
    for execution in &case.executions {
        let Some(again) = replayed.executions.iter().find(|again| again.id == execution.id) else {
            missing_child(&mut found, execution);
            continue;
        };
        waits(&mut found, execution, again);
        checkpoints(&mut found, execution, again);
    }
    events(&mut found, replayed);
    end(&mut found, replayed, notes, outcome);
    let mut all = found.all;
    all.sort_by(|(a, _), (b, _)| a.cmp(b));
    all.into_iter().next().map(|(_, difference)| difference)
}

fn place_of(step: &StepId) -> String {
    format!("step {step}")
}

/// What a node's own code did differently.
fn nodes<S>(found: &mut Found<'_>, outcome: &Outcome<S>) {
    let Outcome::Failed { superstep, error, .. } = outcome else { return };
    let key = vec![(*superstep, 0)];
    let place =
        |node: &str, superstep: u64, ordinal: u32| format!("node {node}, superstep {superstep}, step {ordinal}");
    let error = innermost(error);
    if let NodeError::Replay { node, superstep, ordinal, recorded, asked } = error {
        let place = place(node, *superstep, *ordinal);
        found.add(key, What::Step, place, format!("{recorded:?}"), format!("{asked:?}"));
    } else if let NodeError::ReplayShort { node, superstep, ordinal, recorded } = error {
        let place = place(node, *superstep, *ordinal);
        found.add(key, What::Step, place, format!("{recorded:?}"), "the node ends before it");
    }
}

fn innermost(error: &NodeError) -> &NodeError {
    if let NodeError::Subgraph { source, .. } | NodeError::Child { source, .. } = error {
        return innermost(source);
    }
    error
}

fn missing_child(found: &mut Found<'_>, execution: &CaseExecution) {
    let Some(step) = &execution.parent_step else { return };
    if is_open(found.case, step) {
        return;
    }
    let expected = format!("the child {} of the graph {}", execution.id, execution.graph);
    found.add(place::of_step(found.case, step), What::Child, place_of(step), expected, "none");
}

/// Whether a step is in a superstep that the recording does not have whole.
fn is_open(case: &Case, step: &StepId) -> bool {
    let of = case.executions.iter().find(|execution| execution.id == step.execution);
    of.is_some_and(|of| is_open_at(of, place::outermost(&step.ns, step.superstep)))
}

fn is_open_at(execution: &CaseExecution, superstep: u64) -> bool {
    !execution.end.is(Status::Completed) && superstep > execution.last_superstep()
}

fn waits(found: &mut Found<'_>, execution: &CaseExecution, again: &CaseExecution) {
    for wait in &execution.waits {
        let step = &wait.place;
        let by_hand = execution
            .checkpoints
            .iter()
            .any(|row| row.edited && row.ns.is_empty() && row.superstep == place::outermost(&step.ns, step.superstep));
        if by_hand {
            continue;
        }
        let key = place::of_step(found.case, step);
        let Some(now) = again.waits.iter().find(|now| now.place == *step) else {
            if !is_open(found.case, step) || execution.end.is(Status::Waiting) {
                found.add(key, What::Wait, place_of(step), format!("a wait for {:?}", step.name), "none");
            }
            continue;
        };
        let place = format!("what {} asks", place_of(step));
        if let Some((at, expected, now)) = first_in(&wait.payload, &now.payload) {
            found.add(key, What::Wait, format!("{place}, payload {at}"), expected, now);
        } else if wait.schema != now.schema {
            let words = |schema: &Option<Value>| schema.as_ref().map_or_else(|| "no schema".to_owned(), short);
            found.add(key, What::Wait, format!("{place}, schema"), words(&wait.schema), words(&now.schema));
        } else if wait.correlation != now.correlation {
            let words = |text: &str| format!("{text:?}");
            found.add(
                key,
                What::Wait,
                format!("{place}, correlation"),
                words(&wait.correlation),
                words(&now.correlation),
            );
        }
    }
}

fn checkpoints(found: &mut Found<'_>, execution: &CaseExecution, again: &CaseExecution) {
    let now: BTreeMap<_, _> = again.checkpoints.iter().map(|row| ((&row.ns, row.superstep), row)).collect();
    for row in &execution.checkpoints {
        let key = place::of_closing(found.case, execution, &row.ns, row.superstep);
        match now.get(&(&row.ns, row.superstep)) {
            Some(now) if now.digest == row.digest => {}
            Some(now) => {
                if let Some((at, expected, now)) = inside(row, now) {
                    found.add(key, What::Checkpoint, format!("{}, {at}", place::of_row(execution, row)), expected, now);
                }
            }
            None => found.add(key, What::Checkpoint, place::of_row(execution, row), "a checkpoint", "none"),
        }
    }
    let known: BTreeMap<_, _> = execution.checkpoints.iter().map(|row| ((&row.ns, row.superstep), ())).collect();
    for row in &again.checkpoints {
        let outermost = place::outermost(&row.ns, row.superstep);
        if !known.contains_key(&(&row.ns, row.superstep)) && !is_open_at(execution, outermost) {
            let key = place::of_closing(found.case, execution, &row.ns, row.superstep);
            found.add(key, What::Checkpoint, place::of_row(execution, row), "none", "a checkpoint");
        }
    }
}

/// Where in a checkpoint two differ; nothing when only something before them does.
fn inside(row: &CaseCheckpoint, now: &CaseCheckpoint) -> Option<(String, String, String)> {
    if row.nodes != now.nodes {
        return Some(("nodes".to_owned(), row.nodes.clone(), now.nodes.clone()));
    }
    let of = |name: &str, recorded, now| {
        first_in(recorded, now).map(|(at, expected, found)| (format!("{name} {at}"), expected, found))
    };
    let name = if row.superstep == 0 { "state" } else { "updates" };
    of(name, &row.updates, &now.updates).or_else(|| of("next", &row.next, &now.next))
}

/// The first place at which two values differ, and both there.
fn first_in(recorded: &Value, now: &Value) -> Option<(String, String, String)> {
    let mut path = String::new();
    let (recorded, now) = walk(recorded, now, &mut path)?;
    let words = |value: Option<&Value>| value.map_or_else(|| "nothing".to_owned(), short);
    Some((if path.is_empty() { "/".to_owned() } else { path }, words(recorded), words(now)))
}

type Pair<'a> = (Option<&'a Value>, Option<&'a Value>);

fn walk<'a>(recorded: &'a Value, now: &'a Value, path: &mut String) -> Option<Pair<'a>> {
    if canonical(recorded) == canonical(now) {
        return None;
    }
    let whole = path.len();
    match (recorded, now) {
        (Value::Object(before), Value::Object(after)) => {
            let mut keys: Vec<&String> =
                before.keys().chain(after.keys().filter(|key| !before.contains_key(*key))).collect();
            keys.dedup();
            for key in keys {
                path.push('/');
                path.push_str(&key.replace('~', "~0").replace('/', "~1"));
                match (before.get(key), after.get(key)) {
                    (Some(before), Some(after)) => {
                        if let Some(found) = walk(before, after, path) {
                            return Some(found);
                        }
                    }
                    (before, after) => return Some((before, after)),
                }
                path.truncate(whole);
            }
            None
        }
        (Value::Array(before), Value::Array(after)) => {
            for index in 0..before.len().max(after.len()) {
                path.push_str(&format!("/{index}"));
                match (before.get(index), after.get(index)) {
                    (Some(before), Some(after)) => {
                        if let Some(found) = walk(before, after, path) {
                            return Some(found);
                        }
                    }
                    (before, after) => return Some((before, after)),
                }
                path.truncate(whole);
            }
            None
        }
        (_, _) => Some((Some(recorded), Some(now))),
    }
}

/// The events that are compared, those of places that come first in front; side by side there is no order.
fn in_order<'a>(case: &Case, of: &'a Case) -> Vec<(Key, &'a CaseEvent)> {
    let mut events: Vec<(Key, &CaseEvent)> = Vec::new();
    for event in of.events.iter().filter(|event| event.origin == Origin::Replayed) {
        let Some(execution) = case.executions.iter().find(|execution| execution.id == event.execution) else {
            continue;
        };
        let key = place::of_event(case, execution, event.at.as_deref()).unwrap_or_else(place::end);
        // A node that was cut short may have gone on now.
        let own = event.at.as_deref().is_some_and(|at| !at.contains('#'));
        let around = place::of_closing(case, execution, "", 0).len() - 1;
        let superstep = key.get(around).map_or(0, |(superstep, _)| *superstep);
        if !(own && is_open_at(execution, superstep)) {
            events.push((key, event));
        }
    }
    events.sort_by(|(a, _), (b, _)| a.cmp(b));
    events
}

/// Events that a replay makes again and that are compared.
pub(super) fn compared(case: &Case) -> usize {
    in_order(case, case).len()
}

fn events(found: &mut Found<'_>, replayed: &Case) {
    let (recorded, now) = (in_order(found.case, found.case), in_order(found.case, replayed));
    for index in 0..recorded.len().max(now.len()) {
        let (before, after) = (recorded.get(index), now.get(index));
        if let (Some((_, before)), Some((_, after))) = (before, after)
            && (&before.execution, &before.kind, &before.at) == (&after.execution, &after.kind, &after.at)
        {
            if let Some((at, expected, now)) = first_in(&before.data, &after.data) {
                let (key, event) = &recorded[index];
                found.add(key.clone(), What::Event, format!("event {}, data {at}", named(event)), expected, now);
                return;
            }
            continue;
        }
        let key = before.iter().chain(&after).map(|(key, _)| key.clone()).min().unwrap_or_default();
        let words = |event: Option<&(Key, &CaseEvent)>| {
            event.map_or_else(|| "none".to_owned(), |(_, event)| format!("{} {}", named(event), short(&event.data)))
        };
        found.add(key, What::Event, format!("event {}", index + 1), words(before), words(after));
        return;
    }
}

fn named(event: &CaseEvent) -> String {
    match &event.at {
        Some(at) => format!("{} at {at}", event.kind),
        None => event.kind.clone(),
    }
}

fn end<S>(found: &mut Found<'_>, replayed: &Case, notes: &Notes, outcome: &Outcome<S>) {
    let (case, recorded, now) = (found.case, &found.case.root().end, &replayed.root().end);
    let words = |end: &super::case::CaseEnd| match &end.error {
        Some(error) => format!("{}: {error}", end.status),
        None => end.status.clone(),
    };
    let fits = match outcome {
        // What of an unfinished execution was known has been made again.
        _ if notes.ended => !recorded.is(Status::Completed),
        Outcome::Failed { .. } => recorded.is(Status::Failed) && (recorded.error == now.error || notes.failed),
        Outcome::Completed(_) => {
            recorded.is(Status::Completed) || !recorded.is(Status::Waiting) && !recorded.is(Status::Failed)
        }
        Outcome::Waiting(_) => !recorded.is(Status::Completed) && !recorded.is(Status::Failed),
        Outcome::Stopped(_) | Outcome::Cancelled | Outcome::NeedsReconcile(_) => {
            !recorded.is(Status::Completed) && !recorded.is(Status::Waiting) && !recorded.is(Status::Failed)
        }
    };
    if fits {
        return;
    }
    let key = match outcome {
        Outcome::Failed { superstep, .. } => vec![(*superstep, u64::MAX)],
        Outcome::Completed(_)
        | Outcome::Stopped(_)
        | Outcome::Cancelled
        | Outcome::Waiting(_)
        | Outcome::NeedsReconcile(_) => place::end(),
    };
    let now = match (&notes.stopped, outcome) {
        (Some((execution, ns, superstep)), Outcome::Stopped(_)) => {
            let inside = if ns.is_empty() { String::new() } else { format!(" inside {ns}") };
            format!("{execution} goes on{inside} to superstep {superstep}, which was not recorded")
        }
        _ => words(now),
    };
    found.add(key, What::End, format!("the end of {}", case.root().id), words(recorded), now);
}

/// The difference of two final states whose updates were the same: what an update means has changed.
pub(super) fn of_states(case: &Case, recorded: &Value, now: &Value) -> Difference {
    let (at, expected, found) = first_in(recorded, now).unwrap_or_default();
    let place = format!("the state at the end of {}, {at} (updates are reduced in another way)", case.root().id);
    Difference { what: What::End, place, expected, found }
}
